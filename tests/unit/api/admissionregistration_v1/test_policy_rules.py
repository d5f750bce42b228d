from __future__ import annotations

from typing import Any

import pytest

from admission_webhook import Tree, rule
from kubevouch.api.admissionregistration_v1.policies import (
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from kubevouch.api.admissionregistration_v1.policy_defaults import default_binding, default_policy
from kubevouch.api.admissionregistration_v1.policy_rules import validate_binding, validate_policy
from kubevouch.machinery.codec import json_codec

MATCH: Tree = {"resourceRules": [rule()]}


def policy_problems(**changes: Any) -> list[str]:
    spec = {"matchConstraints": MATCH, "validations": [{"expression": "true"}], **changes}
    tree = {"metadata": {"name": "p"}, "spec": spec}
    policy = json_codec.from_tree(tree, ValidatingAdmissionPolicy).value
    return [str(error) for error in validate_policy(default_policy(policy))]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"matchConstraints": None}, ["spec.matchConstraints: Required value"]),
        ({"matchConstraints": {}}, ["spec.matchConstraints.resourceRules: Required value"]),
        ({"failurePolicy": "x"}, ['spec.failurePolicy: Unsupported value: "x": supported values: "Fail", "Ignore"']),
        (
            {"validations": []},
            [
                f"spec.{name}: Required value: validations or auditAnnotations must contain at least one item"
                for name in ("validations", "auditAnnotations")
            ],
        ),
        ({"validations": [{}]}, ["spec.validations[0].expression: Required value: expression is not specified"]),
        (
            {"validations": [{"expression": "object.x"}]},
            ['spec.validations[0].expression: Invalid value: "object.x": must evaluate to bool but got dyn'],
        ),
        (
            {"validations": [{"expression": "true", "message": "a\nb", "reason": "x"}]},
            [
                'spec.validations[0].message: Invalid value: "a\\nb": message must not contain line breaks',
                'spec.validations[0].reason: Unsupported value: "x": supported values: "Forbidden", ',
            ],
        ),
        (
            {"validations": [{"expression": "params == null"}]},
            ['spec.validations[0].expression: Invalid value: "params == null": compilation failed: ERROR: '],
        ),
        ({"validations": [{"expression": "params == null"}], "paramKind": {"apiVersion": "v1", "kind": "Secret"}}, []),
        (
            {"validations": [{"expression": "request.nam == ''"}]},
            ["spec.validations[0].expression: Invalid value: \"request.nam == ''\": compilation failed: ERROR: "],
        ),
        (
            {"paramKind": {"apiVersion": "a/b/c", "kind": "A b"}},
            [
                'spec.paramKind.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c',
                'spec.paramKind.kind: Invalid value: "A b": may have mixed case, but should otherwise match: ',
            ],
        ),
        (
            {"variables": [{"name": "in", "expression": "1"}, {"name": "b", "expression": " "}]},
            [
                'spec.variables[0].name: Invalid value: "in": name is not a valid CEL identifier',
                "spec.variables[1].expression: Required value: expression is not specified",
            ],
        ),
        # A variable sees those before it, not those after it, and keeps its type.
        (
            {
                "variables": [{"name": "a", "expression": "variables.b"}, {"name": "b", "expression": "1 > 0"}],
                "validations": [{"expression": "variables.b"}],
            },
            ['spec.variables[0].expression: Invalid value: "variables.b": compilation failed: ERROR: '],
        ),
        (
            {"auditAnnotations": [{"key": "a b", "valueExpression": "1"}]},
            [
                'spec.auditAnnotations[0].key: Invalid value: "p/a b": ',
                'spec.auditAnnotations[0].valueExpression: Invalid value: "1": must evaluate to one of [string ',
            ],
        ),
    ],
)
def test_policies(changes: Tree, expected: list[str]) -> None:
    found = policy_problems(**changes)
    assert len(found) == len(expected), found
    for text, start in zip(found, expected, strict=True):
        assert text.startswith(start)


def binding_problems(**spec: Any) -> list[str]:
    binding = json_codec.from_tree({"spec": spec}, ValidatingAdmissionPolicyBinding).value
    return [str(error) for error in validate_binding(default_binding(binding))]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {},
            [
                "spec.policyName: Required value",
                "spec.validationActions: Required value: at least one validation action is required",
            ],
        ),
        ({"policyName": "p", "validationActions": ["Deny", "Audit"]}, []),
        (
            {"policyName": "p", "validationActions": ["Deny", "Warn"]},
            ['spec.validationActions: Invalid value: ["Deny","Warn"]: must not contain both Deny and Warn (repeating '],
        ),
        (
            {"policyName": "p", "validationActions": ["Log", "Log"]},
            [
                'spec.validationActions[0]: Unsupported value: "Log": supported values: "Audit", "Deny", "Warn"',
                'spec.validationActions[1]: Unsupported value: "Log": supported values: "Audit", "Deny", "Warn"',
                'spec.validationActions[1]: Duplicate value: "Log"',
            ],
        ),
        (
            {"policyName": "p", "validationActions": ["Deny"], "paramRef": {}},
            [
                "spec.paramRef: Required value: one of name or selector must be specified",
                "spec.paramRef.parameterNotFoundAction: Required value",
            ],
        ),
        (
            {
                "policyName": "p",
                "validationActions": ["Deny"],
                "paramRef": {"name": "a", "selector": {}, "parameterNotFoundAction": "Allow"},
            },
            [
                "spec.paramRef.name: Forbidden: name and selector are mutually exclusive",
                "spec.paramRef.selector: Forbidden: name and selector are mutually exclusive",
            ],
        ),
    ],
)
def test_bindings(spec: Tree, expected: list[str]) -> None:
    found = binding_problems(**spec)
    assert len(found) == len(expected), found
    for text, start in zip(found, expected, strict=True):
        assert text.startswith(start)
