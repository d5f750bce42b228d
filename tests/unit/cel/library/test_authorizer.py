"""cel/library/authorizer.py"""

from __future__ import annotations

import pytest

from kubevouch.cel.environment import AUTHORIZER, RESOURCE_CHECK, Environment, EvaluationError, ExpressionError
from kubevouch.cel.library.authorizer import Answer, Authorizer, Question, ResourceCheck, Unanswered

ENVIRONMENT = Environment({"authorizer": AUTHORIZER, "authorizer.requestResource": RESOURCE_CHECK})
ASKED = Question("", group="apps", resource="deployments", namespace="prod", name="web")
VARIABLES = {"authorizer": Authorizer(), "authorizer.requestResource": ResourceCheck(ASKED)}


def question_of(source: str) -> Question:
    with pytest.raises(Unanswered) as caught:
        ENVIRONMENT.compile(source).evaluate(VARIABLES)
    return caught.value.question


@pytest.mark.parametrize(
    ("source", "question"),
    [
        ("authorizer.path('/healthz').check('get')", Question("get", path="/healthz")),
        (
            "authorizer.group('').resource('pods').subresource('status').namespace('default').name('a').check('update')",
            Question("update", resource="pods", subresource="status", namespace="default", name="a"),
        ),
        (
            "authorizer.serviceAccount('default', 'sa').group('apps').resource('deployments').check('list')",
            Question("list", ("default", "sa"), group="apps", resource="deployments"),
        ),
        (
            "authorizer.group('').resource('pods').fieldSelector('spec.nodeName=a').labelSelector('x=y').check('list')",
            Question("list", resource="pods", field_selector="spec.nodeName=a", label_selector="x=y"),
        ),
        (
            "authorizer.requestResource.check('approve')",
            Question("approve", group="apps", resource="deployments", namespace="prod", name="web"),
        ),
        (
            "authorizer.requestResource.name('').check('approve')",
            Question("approve", group="apps", resource="deployments", namespace="prod"),
        ),
    ],
)  # fmt: skip
def test_questions(source: str, question: Question) -> None:
    assert question_of(f"{source}.allowed()") == question


@pytest.mark.parametrize(
    ("answer", "values"),
    [
        (Answer(True, "a role"), [True, "a role", False, ""]),
        (Answer(False), [False, "", False, ""]),
        (Answer(False, "", "broken"), [False, "", True, "broken"]),
    ],
)
def test_answers(answer: Answer, values: list[object]) -> None:
    found = [
        ENVIRONMENT.compile(f"authorizer.path('/x').check('get').{part}()").evaluate(
            VARIABLES, {Question("get", path="/x"): answer}
        )
        for part in ("allowed", "reason", "errored", "error")
    ]
    assert found == values


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("authorizer.path(' ').check('get').allowed()", "path must not be empty"),
        ("authorizer.group('').resource('').check('get').allowed()", "resource must not be empty"),
        ("authorizer.serviceAccount('a.b', 'c').path('/').check('get').allowed()", "Invalid service account namespace"),
        ("authorizer.serviceAccount('a', 'C').path('/').check('get').allowed()", "Invalid service account name"),
    ],
)
def test_errors(source: str, text: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        ENVIRONMENT.compile(source).evaluate(VARIABLES)
    assert str(caught.value) == text


def test_a_question_is_no_value_of_a_logical_operator() -> None:
    check = "authorizer.path('/x').check('get').allowed()"
    assert question_of(f"{check} || true") == Question("get", path="/x")
    assert ENVIRONMENT.compile(f"true || {check}").evaluate(VARIABLES) is True


@pytest.mark.parametrize(
    "source", ["authorizer.check('get')", "authorizer.group('').check('get')", "authorizer.path(1)"]
)
def test_the_steps_have_their_order(source: str) -> None:
    with pytest.raises(ExpressionError, match="found no matching overload"):
        ENVIRONMENT.compile(source)
