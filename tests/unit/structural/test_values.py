"""What is said of values, in the words and the order of Kubernetes' validator."""

from __future__ import annotations

from typing import Any

import pytest

from kubevouch.machinery.errors import MAX_FAULTS
from kubevouch.structural import values
from kubevouch.structural.correlation import Correlated
from kubevouch.structural.schema import compile_schema

TEXT: dict[str, Any] = {"type": "string"}
INTEGER: dict[str, Any] = {"type": "integer"}


def of(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def errors(tree: dict[str, Any], new: Any, old: Any = None) -> list[str]:
    schema = compile_schema(of(spec=tree))
    before = None if old is None else Correlated({"spec": new}, {"spec": old}, schema)
    found = values.validate(values.compile_checks(schema), {"spec": new}, before)
    return [str(error) for error in found]


def wrong_type(path: str, wanted: str, got: str) -> str:
    return f'{path}: Invalid value: "{got}": {path} in body must be of type {wanted}: "{got}"'


@pytest.mark.parametrize(
    ("tree", "value", "expected"),
    [
        # types
        (TEXT, 1, [wrong_type("spec", "string", "integer")]),
        (TEXT, True, [wrong_type("spec", "string", "boolean")]),
        (TEXT, [], [wrong_type("spec", "string", "array")]),
        (INTEGER, "1", [wrong_type("spec", "integer", "string")]),
        (INTEGER, 2.0, []),
        (INTEGER, 1.5, [
            wrong_type("spec", "integer", "number"),
            '<nil>: Invalid value: "": Checked value must be of type integer (default format) in spec']),
        ({"type": "number"}, 3, []),
        ({"type": "boolean"}, 0, [wrong_type("spec", "boolean", "integer")]),
        (of(), "x", [wrong_type("spec", "object", "string")]),
        ({"type": "array", "items": TEXT}, {}, [wrong_type("spec", "array", "object")]),
        ({"x-kubernetes-int-or-string": True}, "x", []),
        ({"x-kubernetes-int-or-string": True}, 1, []),
        ({"x-kubernetes-int-or-string": True}, False, [wrong_type("spec", "integer,string", "boolean")]),
        (TEXT, None, [wrong_type("spec", "string", "null")]),
        ({**TEXT, "nullable": True}, None, []),
        ({"x-kubernetes-preserve-unknown-fields": True}, [1, {"a": None}], []),
        # numbers
        ({**INTEGER, "format": "int32"}, 1 << 31, [
            '<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec']),
        ({**INTEGER, "format": "int64"}, 1 << 40, []),
        (INTEGER, float(1 << 64), [
            wrong_type("spec", "integer", "number"),
            '<nil>: Invalid value: "": Checked value must be of type integer (default format) in spec']),
        ({**INTEGER, "minimum": 3}, 2, ["spec: Invalid value: 2: spec in body should be greater than or equal to 3"]),
        ({**INTEGER, "minimum": 3, "exclusiveMinimum": True}, 3, [
            "spec: Invalid value: 3: spec in body should be greater than 3"]),
        ({**INTEGER, "maximum": 3}, 4, ["spec: Invalid value: 4: spec in body should be less than or equal to 3"]),
        ({"type": "number", "maximum": 3.5, "exclusiveMaximum": True}, 3.5, [
            "spec: Invalid value: 3.5: spec in body should be less than 3.5"]),
        ({**INTEGER, "multipleOf": 5}, 7, ["spec: Invalid value: 7: spec in body should be a multiple of 5"]),
        ({**INTEGER, "multipleOf": 5}, 10, []),
        ({"type": "number", "multipleOf": 0.1}, 0.3, []),
        # beside an integer a bound loses its fraction
        ({"type": "number", "minimum": 2.5}, 2, []),
        ({"type": "number", "maximum": 3.5, "exclusiveMaximum": True}, 3, [
            "spec: Invalid value: 3: spec in body should be less than 3"]),
        ({"type": "number", "minimum": 2.5}, 2.25, [
            "spec: Invalid value: 2.25: spec in body should be greater than or equal to 2.5"]),
        ({**INTEGER, "minimum": 2.5}, 2, [
            '<nil>: Invalid value: "": Minimum boundary value must be of type integer (default format) in spec',
            "spec: Invalid value: 2: spec in body should be greater than or equal to 2.5"]),
        ({"type": "number", "multipleOf": 0.5}, 0.75, [
            "spec: Invalid value: 0.75: spec in body should be a multiple of 0.5"]),
        ({"type": "number", "maximum": 1}, 1e300, [
            "spec: Invalid value: 1e+300: spec in body should be less than or equal to 1"]),
        ({"type": "number", "multipleOf": 0.4}, 2, []),
        ({"type": "number", "multipleOf": 0.4}, 3, [
            "spec: Invalid value: 3: spec in body should be a multiple of 0.4"]),
        ({**INTEGER, "format": "int32"}, 1.5, [
            'spec: Invalid value: "float64": spec in body must be of type int32: "float64"',
            '<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec']),
        ({"type": "number", "format": "float"}, 1e300, [
            '<nil>: Invalid value: "": Checked value must be of type number with format float in spec']),
        ({"type": "number", "enum": [1, 2]}, 1.5, []),
        ({"type": "number", "enum": [1, 2]}, 3.5, ['spec: Unsupported value: 3.5: supported values: "1", "2"']),
        # texts
        ({**TEXT, "pattern": "^a"}, "b", ['spec: Invalid value: "b": spec in body should match \'^a\'']),
        ({**TEXT, "pattern": "(a"}, "(a", [
            ("spec: Invalid value: \"(a\": spec in body should match '(a, but pattern is invalid: error parsing "
             "regexp: missing closing ): `(a`'")]),
        ({**TEXT, "minLength": 3}, "ab", ['spec: Invalid value: "ab": spec in body should be at least 3 chars long']),
        ({**TEXT, "maxLength": 3}, "äöü", []),
        ({**TEXT, "maxLength": 3, "pattern": "^a"}, "bcde", ["spec: Too long: may not be more than 3 bytes"]),
        ({**TEXT, "format": "uuid"}, "x", ['spec: Invalid value: "x": spec in body must be of type uuid: "x"']),
        ({**TEXT, "format": "date-time"}, "x", [
            'spec: Invalid value: "x": spec in body must be of type date-time: "x"']),
        ({**TEXT, "format": "colour"}, "x", []),
        ({**TEXT, "enum": ["red", "blue"]}, "green", [
            'spec: Unsupported value: "green": supported values: "red", "blue"']),
        ({**INTEGER, "enum": [1, 2]}, 3, ['spec: Unsupported value: 3: supported values: "1", "2"']),
        ({**INTEGER, "enum": [1, 2]}, 2.0, []),
        ({"type": "boolean", "enum": [True]}, False, ['spec: Unsupported value: false: supported values: "true"']),
        # lists and objects
        ({"type": "array", "items": TEXT, "minItems": 2}, ["x"], [
            "spec: Invalid value: 1: spec in body should have at least 2 items"]),
        ({"type": "array", "items": TEXT, "maxItems": 1}, ["x", "y"], ["spec: Too many: 2: must have at most 1 item"]),
        ({"type": "array", "items": TEXT, "maxItems": 2}, ["x", 1, "z"], [
            wrong_type("spec[1]", "string", "integer"), "spec: Too many: 3: must have at most 2 items"]),
        ({"type": "object", "additionalProperties": TEXT, "minProperties": 1}, {}, [
            "spec: Invalid value: 0: spec in body should have at least 1 properties"]),
        ({"type": "object", "additionalProperties": TEXT, "maxProperties": 1}, {"a": "x", "b": "y"}, [
            "spec: Too many: 2: must have at most 1 item"]),
        (of("a", "b", a=TEXT), {"a": "x"}, ["spec.b: Required value"]),
        ({"type": "array", "items": of("k", k=TEXT)}, [{}, {"k": "x"}, {}], [
            "spec[0].k: Required value", "spec[2].k: Required value"]),
        ({"type": "object", "additionalProperties": {**TEXT, "maxLength": 1}}, {"a.b/c": "xy"}, [
            "spec.a.b/c: Too long: may not be more than 1 bytes"]),
        ({"type": "object", "additionalProperties": False}, {"x": 1}, [
            'spec: Invalid value: "x": spec.x in body is a forbidden property']),
        ({**TEXT, "nullable": True, "enum": ["a", None]}, None, [
            'spec: Unsupported value: null: supported values: "a", "null"']),
        ({**TEXT, "format": "date"}, True, ['spec: Invalid value: "": spec in body must be of type date: ""']),
        ({**TEXT, "format": "date"}, 3, ['spec: Invalid value: "int64": spec in body must be of type date: "int64"']),
        # junctors
        ({**TEXT, "oneOf": [{"maxLength": 1}, {"pattern": "^a"}]}, "bcd", [
            '<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found none valid',
            "spec: Too long: may not be more than 1 bytes"]),
        ({**TEXT, "oneOf": [{"maxLength": 1}, {"pattern": "^a"}]}, "a", [
            ('<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). '
            "Found 2 valid alternatives")]),
        ({**TEXT, "anyOf": [{"enum": ["a"]}, {"pattern": "^b"}]}, "c", [
            '<nil>: Invalid value: "": "spec" must validate at least one schema (anyOf)',
            'spec: Unsupported value: "c": supported values: "a"']),
        ({**TEXT, "anyOf": [{"enum": ["a"]}, {"pattern": "^b"}]}, "bc", []),
        ({**TEXT, "allOf": [{"maxLength": 1}, {"pattern": "^a"}]}, "ab", [
            "spec: Too long: may not be more than 1 bytes",
            '<nil>: Invalid value: "": "spec" must validate all the schemas (allOf)']),
        ({**TEXT, "not": {"pattern": "^a"}}, "ab", [
            '<nil>: Invalid value: "": "spec" must not validate the schema (not)']),
        ({**TEXT, "not": {"pattern": "^a"}}, "b", []),
        (
            {**of(a=TEXT, b=TEXT), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, {},
            ['<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found none valid',
             "spec.a: Required value"],
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_value(tree: dict[str, Any], value: Any, expected: list[str]) -> None:
    assert errors(tree, value) == expected


def test_what_is_said_once_is_not_said_again() -> None:
    tree = {**TEXT, "maxLength": 1, "allOf": [{"maxLength": 1}]}
    assert errors(tree, "ab") == [
        "spec: Too long: may not be more than 1 bytes",
        '<nil>: Invalid value: "": "spec" must validate all the schemas (allOf). None validated',
    ]


SHORT = {**TEXT, "maxLength": 1}
KEYED = {
    "type": "array", "items": of("k", k=TEXT, v=SHORT), "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k"],
}  # fmt: skip
TOO_LONG = "Too long: may not be more than 1 bytes"


@pytest.mark.parametrize(
    ("tree", "old", "new", "expected"),
    [
        (of(a=SHORT, b=TEXT), {"a": "xx"}, {"a": "xx", "b": "y"}, []),
        (of(a=SHORT), {"a": "xx"}, {"a": "yy"}, [f"spec.a: {TOO_LONG}"]),
        (of(a=SHORT), {}, {"a": "xx"}, [f"spec.a: {TOO_LONG}"]),
        # what is required is the parent's
        (of("r", a=TEXT, r=TEXT), {"a": "x"}, {"a": "y"}, ["spec.r: Required value"]),
        (of(o=of("r", r=TEXT), a=TEXT), {"o": {}}, {"o": {}, "a": "y"}, []),
        # lists
        ({"type": "array", "items": SHORT}, ["xx"], ["xx", "y"], [f"spec[0]: {TOO_LONG}"]),
        (of(l={"type": "array", "items": SHORT}, a=TEXT), {"l": ["xx"]}, {"l": ["xx"], "a": "y"}, []),
        (KEYED, [{"k": "a", "v": "xx"}], [{"k": "b", "v": "y"}, {"k": "a", "v": "xx"}], []),
        (KEYED, [{"k": "a", "v": "xx"}], [{"k": "b", "v": "xx"}], [f"spec[0].v: {TOO_LONG}"]),
        ({"type": "object", "additionalProperties": SHORT}, {"k": "xx"}, {"k": "xx", "l": "y"}, []),
        # below junctors nothing corresponds
        (
            {**of(a=TEXT, b=TEXT), "anyOf": [{"properties": {"a": {"maxLength": 1}}}]}, {"a": "xx"},
            {"a": "xx", "b": "y"},
            ['<nil>: Invalid value: "": "spec" must validate at least one schema (anyOf)', f"spec.a: {TOO_LONG}"],
        ),
        ({**of(a=TEXT), "anyOf": [{"properties": {"a": {"maxLength": 1}}}]}, {"a": "xx"}, {"a": "xx"}, []),
        # numbers are equal however they are written
        (of(a={"type": "number", "maximum": 1}, b=TEXT), {"a": 2}, {"a": 2.0, "b": "x"}, []),
        (of(a=INTEGER), {"a": True}, {"a": 1}, []),
        (of(a={"type": "boolean"}), {"a": True}, {"a": 1}, [wrong_type("spec.a", "boolean", "integer")]),
    ],
)  # fmt: skip
def test_what_was_wrong_and_did_not_change_may_stay(
    tree: dict[str, Any], old: Any, new: Any, expected: list[str]
) -> None:
    assert errors(tree, new, old) == expected


def test_the_type_of_a_whole_object_never_stays_wrong() -> None:
    schema = compile_schema(of(kind=SHORT, name=SHORT))
    new, old = {"kind": "xx", "name": "xx", "a": 1}, {"kind": "xx", "name": "xx"}
    found = values.validate(values.compile_checks(schema), new, Correlated(new, old, schema))
    assert [str(error) for error in found] == [f"kind: {TOO_LONG}"]


def test_no_more_errors_are_looked_for_than_are_told() -> None:
    """Each would repeat the whole enum: 17,000 short items made 2.4 GB."""
    tree = {"type": "array", "items": {"type": "string", "enum": ["a" * 20, "b" * 20]}}
    check = values.compile_checks(compile_schema(of(spec=tree)))
    found = values.validate(check, {"spec": ["q"] * 5000})

    assert len(found) == MAX_FAULTS
    assert len({id(error.detail) for error in found}) == 1


def test_a_branch_that_is_full_of_errors_is_one_that_does_not_hold() -> None:
    tree = {"anyOf": [{"items": {"type": "string"}}, {"items": {"type": "integer"}}]}

    assert errors(tree, [1] * 5000) == []


def test_a_value_that_takes_too_long_is_refused() -> None:
    """Thousands of items against thousands of branches: the one thread beside the loop was taken for a minute."""
    tree = {"type": "array", "items": {"anyOf": [{"enum": [str(number)]} for number in range(1500)]}}

    assert errors(tree, ["1499"] * 700) == [str(values.TOO_MUCH_WORK)]
    assert errors(tree, ["1499"] * 20) == []
