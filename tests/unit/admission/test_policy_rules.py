from __future__ import annotations

from typing import Any

import pytest

from kubevouch.admission.policy_rules import Failure, PolicyRules
from kubevouch.api.admissionregistration_v1.policies import ValidatingAdmissionPolicySpec
from kubevouch.machinery import json_codec

SEEN: dict[str, Any] = {
    "object": {"metadata": {"name": "a"}, "data": {"n": "3"}}, "oldObject": None, "request": {"operation": "CREATE"},
    "namespaceObject": None,
}  # fmt: skip


def rules(**spec: Any) -> PolicyRules:
    return PolicyRules(json_codec.from_tree(spec, ValidatingAdmissionPolicySpec).value)


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
    assert found.failures == [Failure(0, text)] * count
    assert found.errors == ["expression 'string(object.data.m)' resulted in error: no such key: m"] * count


def test_a_condition_settles_it() -> None:
    conditions = [
        {"name": "broken", "expression": "object.data.m == '4'"},
        {"name": "false", "expression": "request.operation == 'UPDATE'"},
    ]
    skipped = rules(matchConditions=conditions, validations=[{"expression": "false"}])
    assert skipped.evaluate(SEEN, None).failures == []
    failed = rules(matchConditions=conditions[:1], validations=[{"expression": "true"}]).evaluate(SEEN, None)
    assert failed.failures == [Failure(0, "expression 'object.data.m == '4'' resulted in error: no such key: m")]


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
        )
    ]


def test_a_stored_expression_that_does_not_compile_fails() -> None:
    found = rules(validations=[{"expression": "authorizer.path('/').check('get').allowed()"}]).evaluate(SEEN, None)
    (failure,) = found.failures
    assert failure.message.startswith("compilation error: compilation failed: ERROR: ")
