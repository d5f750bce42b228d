from __future__ import annotations

from typing import Any

import pytest

from kubevouch.admission.dynamic.policy_rules import Failure, Findings, PolicyRules
from kubevouch.admission.dynamic.questions import Work
from kubevouch.api.admissionregistration_v1.policies import ValidatingAdmissionPolicySpec
from kubevouch.cel.library.authorizer import Answer, Authorizer, Question, ResourceCheck
from kubevouch.machinery.codec import json_codec

SEEN: dict[str, Any] = {
    "object": {"metadata": {"name": "a"}, "data": {"n": "3"}}, "oldObject": None, "request": {"operation": "CREATE"},
    "namespaceObject": None, "authorizer": Authorizer(),
    "authorizer.requestResource": ResourceCheck(Question("", group="apps", resource="deployments", name="a")),
}  # fmt: skip


class Answered:
    """The rules of a policy; ``allowed`` is what the authorizer says to every question."""

    def __init__(self, rules: PolicyRules, allowed: bool) -> None:
        self._rules = rules
        self._answer = Answer(allowed, "because", "broken" if not allowed else "")
        self.questions: list[Question] = []

    def evaluate(self, variables: dict[str, Any], params: dict[str, Any] | None) -> Findings:
        asking = self._rules.evaluate(variables, params)
        answer = None
        while True:
            try:
                question = asking.send(answer)
            except StopIteration as done:
                findings: Findings = done.value
                return findings
            answer = None
            if isinstance(question, Work):
                question.run()
            else:
                self.questions.append(question)
                answer = self._answer


def rules(allowed: bool = True, **spec: Any) -> Answered:
    return Answered(PolicyRules(json_codec.from_tree(spec, ValidatingAdmissionPolicySpec).value), allowed)


def test_every_failure_is_found_with_its_place() -> None:
    found = rules(
        validations=[
            {"expression": "oldObject == null"},
            {"expression": " false ", "reason": "Forbidden"},
            {
                "expression": "object.data.n == '4'",
                "message": "n",
                "messageExpression": "'n is ' + string(object.data.n)",
            },
        ]
    ).evaluate(SEEN, None)
    assert found.failures == [Failure(1, "failed expression: false", "Forbidden"), Failure(2, "n is 3")]


@pytest.mark.parametrize(("policy", "count"), [("Fail", 1), ("Ignore", 0)])
def test_what_cannot_be_evaluated(policy: str, count: int) -> None:
    broken = "object.data.m == '4'"
    found = rules(
        failurePolicy=policy,
        validations=[{"expression": broken}],
        auditAnnotations=[{"key": "k", "valueExpression": "string(object.data.m)"}],
    ).evaluate(SEEN, None)
    text = f"expression '{broken}' resulted in error: no such key: m"
    assert found.failures == [Failure(0, text, error="invalid_error")] * count
    assert found.ignored == [Failure(0, text, error="invalid_error")] * (1 - count)
    assert [each.message for each in found.errors] == [
        "expression 'string(object.data.m)' resulted in error: no such key: m"
    ] * count


def test_a_condition_settles_it() -> None:
    conditions = [
        {"name": "broken", "expression": "object.data.m == '4'"},
        {"name": "false", "expression": "request.operation == 'UPDATE'"},
    ]
    skipped = rules(matchConditions=conditions, validations=[{"expression": "false"}])
    assert skipped.evaluate(SEEN, None).failures == []
    failed = rules(matchConditions=conditions[:1], validations=[{"expression": "true"}]).evaluate(SEEN, None)
    assert failed.failures == [
        Failure(0, "expression 'object.data.m == '4'' resulted in error: no such key: m", error="invalid_error")
    ]


def test_annotations() -> None:
    found = rules(
        auditAnnotations=[
            {"key": "name", "valueExpression": "' ' + string(object.metadata.name) + ' '"},
            {"key": "none", "valueExpression": "null"},
            {"key": "empty", "valueExpression": "' '"},
            {"key": "long", "valueExpression": "[1,2,3].map(i, '" + "x" * 4000 + "').join('')"},
        ]
    ).evaluate(SEEN, None)
    assert {key: len(value) for key, value in found.annotations.items()} == {"name": 1, "long": 10240}


def test_a_variable_that_fails_spoils_only_what_uses_it() -> None:
    found = rules(
        variables=[{"name": "bad", "expression": "object.data.m"}, {"name": "good", "expression": "object.data.n"}],
        validations=[{"expression": "variables.good == '3'"}, {"expression": "variables.bad == '3'"}],
    ).evaluate(SEEN, None)
    assert found.failures == [
        Failure(
            1,
            "expression 'variables.bad == '3'' resulted in error: composited variable \"bad\" fails to evaluate: "
            "no such key: m",
            error="invalid_error",
        )
    ]


def test_a_stored_expression_that_does_not_compile_fails() -> None:
    found = rules(validations=[{"expression": "nobody.knows()"}]).evaluate(SEEN, None)
    (failure,) = found.failures
    assert failure.message.startswith("compilation error: compilation failed: ERROR: ")


def test_the_authorizer_is_asked() -> None:
    pods = "authorizer.group('').resource('pods').namespace('prod').check('create')"
    policy = rules(
        variables=[{"name": "mine", "expression": "authorizer.requestResource.check('approve')"}],
        validations=[
            {"expression": f"{pods}.allowed() && {pods}.reason() == 'because'"},
            {"expression": "variables.mine.allowed()"},
        ],
    )
    assert policy.evaluate(SEEN, None).failures == []
    assert policy.questions == [
        Question("create", resource="pods", namespace="prod"),
        Question("approve", group="apps", resource="deployments", name="a"),
    ]
    refused = rules(
        allowed=False,
        validations=[
            {"expression": f"{pods}.allowed()", "messageExpression": f"'no: ' + {pods}.error()"},
            {"expression": f"{pods}.errored()"},
        ],
    )
    assert refused.evaluate(SEEN, None).failures == [Failure(0, "no: broken")]


def test_a_question_that_nothing_hangs_on_is_not_asked() -> None:
    policy = rules(
        matchConditions=[{"name": "never", "expression": "request.operation == 'DELETE'"}],
        variables=[{"name": "unused", "expression": "authorizer.path('/x').check('get').allowed()"}],
        validations=[{"expression": "variables.unused"}],
    )
    assert policy.evaluate(SEEN, None).failures == []
    unused = rules(
        variables=[{"name": "unused", "expression": "authorizer.path('/x').check('get').allowed()"}],
        validations=[{"expression": "true"}],
    )
    unused.evaluate(SEEN, None)
    assert policy.questions == unused.questions == []


def test_three_checks_are_too_many_for_one_expression() -> None:
    checks = " && ".join(f"authorizer.path('/{n}').check('get').allowed()" for n in range(3))
    policy = rules(validations=[{"expression": checks}])
    (failure,) = policy.evaluate(SEEN, None).failures
    assert failure.message.endswith("operation cancelled: actual cost limit exceeded")
    assert len(policy.questions) == 2


@pytest.mark.parametrize(("policy", "count"), [("Fail", 1), ("Ignore", 0)])
def test_the_budget_of_a_policy(policy: str, count: int) -> None:
    check = {"expression": "[1,2].all(n, authorizer.path('/x').check('get').allowed())"}
    found = rules(failurePolicy=policy, validations=[check] * 20).evaluate(SEEN, None)
    text = "validation failed due to running out of cost budget, no further validation rules will be run"
    assert [each.message for each in found.failures] == [text] * count
