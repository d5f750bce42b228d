from __future__ import annotations

from typing import Any

import pytest

from kubevouch.structural.default_checks import check_defaults
from kubevouch.structural.schema import compile_schema

TEXT: dict[str, Any] = {"type": "string"}
INTEGER: dict[str, Any] = {"type": "integer"}
EMBEDDED = {
    "type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True,
}  # fmt: skip


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def ruled(tree: dict[str, Any], rule: str, **more: Any) -> dict[str, Any]:
    return {**tree, "x-kubernetes-validations": [{"rule": rule, **more}]}


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ({**TEXT, "default": "x"}, []),
        ({**INTEGER, "default": "x"},
         ['S.default: Invalid value: "string":  in body must be of type integer: "string"']),
        ({**TEXT, "enum": ["a", "b"], "default": "c"},
         ['S.default: Unsupported value: "c": supported values: "a", "b"']),
        ({**TEXT, "maxLength": 1, "default": "ab"}, ["S.default: Too long: may not be more than 1 bytes"]),
        ({**of(b=INTEGER), "default": {"b": "x"}},
         ['S.default.b: Invalid value: "string": b in body must be of type integer: "string"']),
        ({**of(b=INTEGER), "required": ["b"], "default": {}}, ["S.default.b: Required value"]),
        ({"type": "array", "items": INTEGER, "default": ["x"]},
         ['S.default.[0]: Invalid value: "string": [0] in body must be of type integer: "string"']),
        ({**of(b=INTEGER), "default": {"b": 1, "x": 1}},
         ['S.default: Invalid value: {"b":1,"x":1}: must not have unknown fields']),
        ({**of(b=INTEGER), "default": {"b": "y", "x": 1}},
         ['S.default: Invalid value: {"b":"y","x":1}: must not have unknown fields',
          'S.default.b: Invalid value: "string": b in body must be of type integer: "string"']),
        ({"type": "object", "x-kubernetes-preserve-unknown-fields": True, "default": {"x": 1}}, []),
        ({**TEXT, "anyOf": [{"maxLength": 1}], "default": "ab"},
         ['S.default: Invalid value: "": "" must validate at least one schema (anyOf)',
          "S.default: Too long: may not be more than 1 bytes"]),
        # deeper ones
        ({"type": "array", "items": {**INTEGER, "default": "x"}},
         ['S.items.default: Invalid value: "string":  in body must be of type integer: "string"']),
        ({"type": "object", "additionalProperties": {**INTEGER, "default": "x"}}, []),
        ({"type": "array", "items": TEXT, "x-kubernetes-list-type": "set", "default": ["a", "a"]}, []),
        # embedded objects
        ({**EMBEDDED, "default": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}}, []),
        ({**EMBEDDED, "default": {"kind": "Pod"}}, ["S.default.apiVersion: Required value"]),
        ({**EMBEDDED, "default": {"metadata": {"labels": 1}}},
         [('S.default.metadata: Invalid value: {"labels":1}: json: cannot unmarshal number into Go struct field '
          "ObjectMeta.labels of type map[string]string")]),
        ({**EMBEDDED, "properties": {"kind": {**TEXT, "default": "Pod"}}}, []),
        ({**EMBEDDED, "properties": {"kind": {**TEXT, "default": "a b"}}},
         [('S.properties[kind].default: Invalid value: "a b": must result in valid metadata: kind: Invalid value: '
          '"a b": may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case '
          "alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character "
          "(e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')")]),
        ({**EMBEDDED, "properties": {"metadata": of(finalizers={
            "type": "array", "items": {**INTEGER, "default": 3}})}},
         [("S.properties[metadata].properties[finalizers].items.default: Invalid value: 3: must result in valid "
          'metadata: metadata: Invalid value: {"finalizers":[3]}: json: cannot unmarshal number into Go struct field '
          "ObjectMeta.finalizers of type string")]),
        # rules
        (ruled({**INTEGER, "default": 3}, "self > 5", message="too small"),
         ["S.default: Invalid value: 3: too small"]),
        (ruled({**of(b={**INTEGER, "default": 3}), "default": {}}, "self.b > 5"),
         ['S.default: Invalid value: "object": no such key: b evaluating rule: self.b > 5']),
        (ruled({**INTEGER, "default": 3}, "oldSelf.hasValue()", optionalOldSelf=True),
         ["S.default: Invalid value: 3: failed rule: oldSelf.hasValue()"]),
        (ruled({**INTEGER, "default": 3}, "self == oldSelf"), []),
    ],
)  # fmt: skip
def test_defaults_have_to_be_values_that_the_schema_takes(tree: dict[str, Any], expected: list[str]) -> None:
    found = check_defaults(compile_schema(of(s=tree)), "F")
    assert [str(error) for error in found] == [text.replace("S", "F.properties[s]", 1) for text in expected]


def test_the_rules_of_all_defaults_share_a_budget() -> None:
    dear = ruled({**TEXT, "default": "a" * 100_000}, f"!self.matches('{'b' * 360}')")
    found = check_defaults(compile_schema(of(**{f"a{number}": dear for number in range(12)})), "F")
    # Each is looked at twice, for nearly what one rule may cost.
    assert [str(error) for error in found] == [
        (
            'F.properties[a5].default: Invalid value: "string": '
            "validation failed due to running out of cost budget, no further validation rules will be run"
        )
    ]


def test_a_default_in_the_metadata_of_the_whole_object() -> None:
    tree = of(metadata=of(name={**TEXT, "default": "a/b"}))
    (error,) = check_defaults(compile_schema(tree), "F")
    assert str(error) == (
        'F.properties[metadata].properties[name].default: Invalid value: "a/b": must result in valid metadata: '
        "metadata.name: Invalid value: \"a/b\": may not contain '/'"
    )
