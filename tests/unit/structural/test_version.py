from __future__ import annotations

from typing import Any

import pytest

from kubevouch.cel.program import TURN, Turn, TurnOver
from kubevouch.machinery.codec.json_codec import UnmarshalError
from kubevouch.structural.scale import ScalePaths
from kubevouch.structural.version import CompiledVersion

ODD = {"rule": "self % 2 == 1", "message": "is even"}
TREE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "default": 1},
                "odd": {"type": "integer", "x-kubernetes-validations": [ODD]},
                "l": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "e": {
                    "type": "object", "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                },
            },
        },
        "status": {
            "type": "object",
            "properties": {"n": {"type": "integer"}, "l": {"type": "array", "items": {"type": "string"}}},
            "anyOf": [{"required": ["n"]}],
        },
    },
}  # fmt: skip
UNCHECKED = (
    "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the "
    "existing errors to complete validation"
)
VERSION = CompiledVersion(TREE, ScalePaths(".spec.size", ".status.n"))


def errors(new: dict[str, Any], old: dict[str, Any] | None = None, subresource: str = "") -> list[str]:
    return [str(error) for error in VERSION.validate(new, old, subresource=subresource).errors]


def test_unknown_fields_of_embedded_objects_come_last() -> None:
    tree = {"spec": {"e": {"metadata": {"a": 1}}, "x": 1}, "a": 1}
    assert VERSION.clean(tree) == ["a", "spec.x", "spec.e.metadata.a"]
    assert tree == {"spec": {"e": {"metadata": {}}, "size": 1}}


def test_what_is_stored_can_be_read() -> None:
    with pytest.raises(UnmarshalError, match=r"^spec\.e\.metadata: Invalid value"):
        VERSION.clean({"spec": {"e": {"metadata": 3}}})
    assert VERSION.clean({"spec": {"e": {"metadata": 3}}}, stored=True) == []


def test_errors_come_in_kubernetes_order() -> None:
    new = {"spec": {"size": -1, "odd": 2, "l": ["a", "a"], "e": {"apiVersion": "v1"}}, "status": {"n": -2}}
    assert errors(new) == [
        ".spec.size: Invalid value: -1: should be a non-negative integer",
        ".status.n: Invalid value: -2: should be a non-negative integer",
        "spec.e.kind: Required value",
        'spec.l[1]: Duplicate value: "a"',
        UNCHECKED,
    ]


def test_rules_come_last_and_not_after_a_wrong_type() -> None:
    assert errors({"spec": {"odd": 2, "l": ["a", "a"]}}) == [
        'spec.l[1]: Duplicate value: "a"',
        "spec.odd: Invalid value: 2: is even",
    ]
    assert errors({"spec": {"odd": 2, "l": "x"}}) == [
        'spec.l: Invalid value: "string": spec.l in body must be of type array: "string"',
        UNCHECKED,
    ]


def test_what_was_twice_may_be_twice() -> None:
    assert errors({"spec": {"l": ["a", "a", "b", "b"]}}, {"spec": {"l": ["a", "a"]}}) == []
    assert errors({"spec": {"l": ["a", "a"]}}, {"spec": {"l": ["a"]}}) == ['spec.l[1]: Duplicate value: "a"']


def test_what_did_not_change_is_warned_of() -> None:
    verdict = VERSION.validate({"spec": {"odd": 2, "size": 2}}, {"spec": {"odd": 2, "size": 1}})
    assert (verdict.errors, verdict.warnings) == ([], ["spec.odd: Invalid value: 2: is even"])


def test_status_is_looked_at_alone() -> None:
    new = {"spec": {"size": "x", "e": {}}, "status": {"n": "y", "l": [1]}}
    assert errors(new, {"spec": {}}, "status") == [
        'status.n: Invalid value: "string": n in body must be of type integer: "string"',
        'status.l[0]: Invalid value: "integer": l[0] in body must be of type string: "integer"',
        ".status.n: Invalid value: 0: .status.n accessor error: y is of the type string, expected int64",
        UNCHECKED,
    ]
    assert errors({"status": {}}, {"status": {"n": 1}}, "status") == [
        'status: Invalid value: "": "" must validate at least one schema (anyOf)',
        "status.n: Required value",
        UNCHECKED,
    ]
    assert errors({"status": {"l": [1], "n": 2}}, {"status": {"l": [1], "n": 1}}, "status") == []
    assert errors({}, {"status": {}}, "status") == []


def test_many_branches_give_way() -> None:
    branches = [{"pattern": f"^{number}$"} for number in range(400)]
    tree = {"type": "array", "items": {"type": "string", "anyOf": branches}}
    version = CompiledVersion({"type": "object", "properties": {"l": tree}})
    short, long = {"l": ["399"] * 10}, {"l": ["399"] * 100}
    assert version.validate(short, None, turn=Turn(TURN)).errors == []
    with pytest.raises(TurnOver):
        version.validate(long, None, turn=Turn(TURN))
    assert version.validate(long, None).errors == []


def test_defaults_that_are_too_many_are_refused_but_can_be_read() -> None:
    long = {"type": "object", "properties": {"a": {"type": "string", "default": "x" * (1 << 20)}}}
    version = CompiledVersion({"type": "object", "properties": {"l": {"type": "array", "items": long}}})
    with pytest.raises(UnmarshalError, match="the defaults of its schema come to more than 3145728 bytes"):
        version.clean({"l": [{} for _ in range(4)]})
    assert version.clean({"l": [{} for _ in range(4)]}, stored=True) == []
