"""mutating_policy_rules.py: what Kubernetes has against mutating policies and their bindings, in its words."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kubevouch.api.admissionregistration_v1.mutating_policies import (
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
)
from kubevouch.api.admissionregistration_v1.mutating_policy_rules import validate_binding, validate_policy
from kubevouch.api.admissionregistration_v1.policy_defaults import default_binding, default_policy
from kubevouch.machinery.codec import json_codec

SUPPORTED = 'Unsupported value: "DELETE": supported values: "*", "CONNECT", "CREATE", "UPDATE"'
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
APPLY = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}
SPEC: dict[str, Any] = {
    "matchConstraints": {"resourceRules": [RULE]}, "reinvocationPolicy": "Never", "mutations": [APPLY],
}  # fmt: skip


def policy(**changes: Any) -> MutatingAdmissionPolicy:
    spec = {key: value for key, value in {**copy.deepcopy(SPEC), **changes}.items() if value is not None}
    tree = {"metadata": {"name": "p"}, "spec": spec}
    policy: MutatingAdmissionPolicy = json_codec.from_tree(tree, MutatingAdmissionPolicy).value
    return default_policy(policy)


def complaints(**changes: Any) -> list[str]:
    return [str(each) for each in validate_policy(policy(**changes))]


def binding(**spec: Any) -> list[str]:
    tree = {"metadata": {"name": "b"}, "spec": spec}
    found = default_binding(json_codec.from_tree(tree, MutatingAdmissionPolicyBinding).value)
    return [str(each) for each in validate_binding(found)]


def test_a_policy_gets_its_defaults() -> None:
    made = policy()
    assert complaints() == []
    assert made.spec.failure_policy == "Fail"
    match = made.spec.match_constraints
    assert match is not None and match.match_policy == "Equivalent" and match.resource_rules[0].scope == "*"


def test_an_empty_spec() -> None:
    assert [str(each) for each in validate_policy(MutatingAdmissionPolicy())] == [
        "spec.failurePolicy: Required value",
        "spec.matchConstraints: Required value",
        "spec.mutations: Required value: mutations must contain at least one item",
        "spec.reinvocationPolicy: Required value",
    ]


def mutation(**members: Any) -> dict[str, Any]:
    return {"mutations": [members]}


def undeclared(source: str, column: int) -> str:
    what = f"undeclared reference to '{source.removesuffix('{}')}' (in container '')"
    return f"compilation failed: ERROR: <input>:1:{column}: {what}\n | {source}\n | {'.' * (column - 1)}^"


PATH, UNWANTED = "spec.mutations[0]", "must not be specified when patchType is"


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"matchConstraints": {}}, ["spec.matchConstraints.resourceRules: Required value"]),
        (
            {"matchConstraints": {"resourceRules": [{**RULE, "operations": ["CREATE", "DELETE"]}]}},
            [f"spec.matchConstraints.resourceRules.operations: {SUPPORTED}"],
        ),
        (
            {"reinvocationPolicy": "Often"},
            ['spec.reinvocationPolicy: Unsupported value: "Often": supported values: "Never", "IfNeeded"'],
        ),
        ({"failurePolicy": "x"}, ['spec.failurePolicy: Unsupported value: "x": supported values: "Fail", "Ignore"']),
        ({"paramKind": {"apiVersion": "v1"}}, ["spec.paramKind.kind: Required value"]),
        ({"matchConditions": [{"expression": "true"}]}, ["spec.matchConditions[0].name: Required value"]),
        (
            {"variables": [{"name": "a b", "expression": " "}]},
            ['spec.variables[0].name: Invalid value: "a b": name is not a valid CEL identifier',
             "spec.variables[0].expression: Required value: expression is not specified"],
        ),
        (
            # Only mutations make objects.
            {"variables": [{"name": "a", "expression": "Object{}"}]},
            [f'spec.variables[0].expression: Invalid value: "Object{{}}": {undeclared("Object{}", 7)}'],
        ),
        (mutation(applyConfiguration={"expression": "Object{}"}), [f"{PATH}.patchType: Required value"]),
        (
            mutation(patchType="Merge"),
            [f'{PATH}.patchType: Unsupported value: "Merge": supported values: "ApplyConfiguration", "JSONPatch"'],
        ),
        (
            mutation(patchType="JSONPatch", applyConfiguration={"expression": "Object{}"}),
            [f"{PATH}.jsonPatch: Required value: must be specified when patchType is JSONPatch",
             f'{PATH}.applyConfiguration: Invalid value: "{{applyConfiguration}}": {UNWANTED} JSONPatch'],
        ),
        (
            mutation(patchType="ApplyConfiguration", jsonPatch={"expression": "[]"}),
            [f"{PATH}.applyConfiguration: Required value: must be specified when patchType is ApplyConfiguration",
             f'{PATH}.jsonPatch: Invalid value: "{{jsonPatch}}": {UNWANTED} ApplyConfiguration'],
        ),
        (
            mutation(patchType="JSONPatch", jsonPatch={"expression": " "}),
            [f"{PATH}.jsonPatch.expression: Required value"],
        ),
        (
            mutation(patchType="JSONPatch", jsonPatch={"expression": " 'x' "}),
            [f"{PATH}.jsonPatch.expression: Invalid value: \"'x'\": must evaluate to list(JSONPatch) but got string"],
        ),
        (
            mutation(patchType="ApplyConfiguration", applyConfiguration={"expression": "params"}),
            [f'{PATH}.applyConfiguration.expression: Invalid value: "params": {undeclared("params", 1)}'],
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_policy(changes: dict[str, Any], wanted: list[str]) -> None:
    assert complaints(**changes) == wanted


def test_expressions_may_use_parameters_and_variables() -> None:
    uses = {"expression": "Object{data: {'a': variables.name, 'b': params.data.x}}"}
    assert not complaints(
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        variables=[{"name": "name", "expression": "object.metadata.name"}],
        mutations=[{"patchType": "ApplyConfiguration", "applyConfiguration": uses}],
    )


def test_conditions_that_stay_are_not_looked_at_again() -> None:
    bad = policy(matchConditions=[{"name": "a", "expression": "nope"}])
    assert validate_policy(bad) and not validate_policy(bad, bad)


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({"policyName": "p"}, []),
        ({"policyName": "p", "matchResources": {"resourceRules": [RULE]}}, []),
        ({}, ["spec.policyName: Required value"]),
        ({"policyName": "p", "paramRef": {"name": "x"}}, ["spec.paramRef.parameterNotFoundAction: Required value"]),
        (
            {"policyName": "p", "matchResources": {"resourceRules": [{**RULE, "operations": ["DELETE"]}]}},
            [f"spec.matchResources.resourceRules.operations: {SUPPORTED}"],
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_binding(spec: dict[str, Any], wanted: list[str]) -> None:
    assert binding(**spec) == wanted
