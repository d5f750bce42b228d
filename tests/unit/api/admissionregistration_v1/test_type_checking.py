"""api/admissionregistration_v1/type_checking.py"""

from __future__ import annotations

from typing import Any

import pytest

from kubevouch.api.admissionregistration_v1.policies import ValidatingAdmissionPolicySpec
from kubevouch.api.admissionregistration_v1.type_checking import MAX_TYPES, types_to_check, warnings_for
from kubevouch.api.catalog import STORED
from kubevouch.machinery.codec import json_codec


def rule(*resources: str, group: str = "", version: str = "v1") -> dict[str, Any]:
    return {"apiGroups": [group], "apiVersions": [version], "operations": ["*"], "resources": list(resources)}


NODES = (rule("nodes"),)


def spec(*sources: str, rules: Any = NODES, **more: Any) -> ValidatingAdmissionPolicySpec:
    tree = {
        "matchConstraints": {"resourceRules": list(rules)},
        "validations": [{"expression": source} for source in sources],
        **more,
    }
    found: ValidatingAdmissionPolicySpec = json_codec.from_tree(tree, ValidatingAdmissionPolicySpec).value
    return found


@pytest.mark.parametrize(
    "source",
    [
        "object.spec.podCIDR == '' && oldObject.metadata.name == request.name",
        "object.metadata.creationTimestamp == '2026-01-01T00:00:00Z'",
        "quantity(object.status.capacity['cpu']).isGreaterThan(quantity('1'))",
        "object.spec.taints.all(t, t.key != 'x')",
        "oldObject == null || has(object.metadata.labels.app)",
        "authorizer.requestResource.check('x').allowed()",
        "object.kind == 'Node'",
    ],
)
def test_what_is_right_gives_no_warning(source: str) -> None:
    assert warnings_for(spec(source), STORED) == []


@pytest.mark.parametrize(
    ("source", "issue"),
    [
        ("object.spec.nope", "undefined field 'nope'"),
        ("oldObject.spec.taints.all(t, t.nope == 1)", "undefined field 'nope'"),
        ("has(object.nope)", "undefined field 'nope'"),
        ("object.metadata.name > 1", "found no matching overload for '_>_' applied to '(string, int)'"),
        ("variables.known == 'x'", "found no matching overload"),
        ("params.nope", "undefined field 'nope'"),
    ],
)
def test_what_is_doubtful(source: str, issue: str) -> None:
    variables = [
        {"name": "list", "expression": "object.spec.taints"},
        {"name": "known", "expression": "variables.list.size()"},
        {"name": "broken", "expression": "object.nope"},
    ]
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    (warning,) = warnings_for(spec("true", source, variables=variables, paramKind=kind), STORED)
    assert warning.field_ref == "spec.validations[1].expression"
    assert warning.warning.startswith("/v1, Kind=Node: ERROR: <input>:1:")
    assert issue in warning.warning
    assert warning.warning.endswith("^\n")


def test_a_message_is_checked_too_and_each_kind_has_its_line() -> None:
    rules = (rule("secrets", "configmaps"),)
    validations = [{"expression": "true", "messageExpression": "string(object.immutable) + object.nope"}]
    (warning,) = warnings_for(spec(rules=rules, validations=validations), STORED)
    assert warning.field_ref == "spec.validations[0].messageExpression"
    first, second = warning.warning.split("\n\n")
    assert first.startswith("/v1, Kind=ConfigMap: ERROR")
    assert second.startswith("/v1, Kind=Secret: ERROR")


@pytest.mark.parametrize(
    "rules",
    [
        [rule("deployments", group="apps")],
        [rule("*")],
        [rule("nodes/status")],
        [rule("nodes", group="*")],
        [rule("nodes", version="*")],
    ],
)
def test_what_is_not_named_or_not_served_is_not_checked(rules: Any) -> None:
    assert types_to_check(spec(rules=rules), STORED) == []
    assert warnings_for(spec("object.nope", rules=rules), STORED) == []


def test_at_most_ten_kinds() -> None:
    rules = [rule(each.plural, group=each.group, version=each.version) for each in STORED]
    assert len(STORED) > MAX_TYPES
    checked = types_to_check(spec(rules=rules), STORED)
    assert len(checked) == MAX_TYPES
    assert checked == sorted(checked, key=lambda each: each.gvk)
