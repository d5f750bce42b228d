"""Rules in a definition: what is refused, in which words and order."""

from __future__ import annotations

from typing import Any

import pytest

from kubevouch.machinery import field
from kubevouch.structural.rule_checks import check_rules
from kubevouch.structural.schema import compile_schema

ROOT = "spec.validation.openAPIV3Schema"
SPEC = f"{ROOT}.properties[spec]"
TEXT: dict[str, Any] = {"type": "string"}
SIZE: dict[str, Any] = {"type": "object", "properties": {"size": {"type": "integer"}, "color": TEXT}}
ADVICE = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)


def ruled(tree: dict[str, Any], *rules: dict[str, Any]) -> dict[str, Any]:
    return {**tree, "x-kubernetes-validations": list(rules)}


def errors_of(spec: dict[str, Any], **options: Any) -> list[str]:
    schema = compile_schema({"type": "object", "properties": {"spec": spec}})
    return [str(error) for error in check_rules(schema, ROOT, **options)]


@pytest.mark.parametrize(
    ("rule", "errors"),
    [
        ({"rule": "self.size > 1"}, []),
        ({"rule": " "}, [".rule: Required value: rule is not specified"]),
        ({"rule": "true", "message": "  "}, ['.message: Invalid value: "  ": must be non-empty if specified']),
        ({"rule": "true", "message": "a\nb"}, ['.message: Invalid value: "a\\nb": must not contain line breaks']),
        (
            {"rule": "true ||\n true"},
            [".message: Required value: message must be specified if rule contains line breaks"],
        ),
        (
            {"rule": "true", "messageExpression": " "},
            [".messageExpression: Required value: messageExpression must be non-empty if specified"],
        ),
        (
            {"rule": "true", "reason": "Bad"},
            [
                (
                    '.reason: Unsupported value: "Bad": supported values: "FieldValueDuplicate", '
                    '"FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"'
                )
            ],
        ),
        (
            {"rule": "true", "fieldPath": " "},
            [
                '.fieldPath: Invalid value: " ": must be non-empty if specified',
                '.fieldPath: Invalid value: " ": must be a valid path',
            ],
        ),
        (
            {"rule": "true", "fieldPath": ".size\n"},
            [
                '.fieldPath: Invalid value: ".size\\n": must not contain line breaks',
                '.fieldPath: Invalid value: ".size\\n": must be a valid path',
            ],
        ),
        ({"rule": "true", "fieldPath": ".shade"}, ['.fieldPath: Invalid value: ".shade": must be a valid path']),
        (
            {"rule": "true", "optionalOldSelf": True},
            [".optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule"],
        ),
        ({"rule": "oldSelf.hasValue()", "optionalOldSelf": True}, []),
    ],
)
def test_the_form_of_a_rule(rule: dict[str, Any], errors: list[str]) -> None:
    assert errors_of(ruled(SIZE, rule)) == [f"{SPEC}.x-kubernetes-validations[0]{error}" for error in errors]


def test_what_does_not_compile_is_shown_as_it_is_stored() -> None:
    (error,) = errors_of(ruled(SIZE, {"rule": "self.size > 'a'", "message": "m"}))
    assert error == (
        f'{SPEC}.x-kubernetes-validations[0].rule: Invalid value: {{"Rule":"self.size \\u003e \'a\'","Message":"m",'
        '"MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: ERROR: '
        "<input>:1:11: found no matching overload for '_>_' applied to '(int, string)'\n | self.size > 'a'\n "
        "| ..........^"
    )
    assert errors_of(ruled(SIZE, {"rule": "self.size"}))[0].endswith(": cel expression must evaluate to a bool")
    (error,) = errors_of(ruled(SIZE, {"rule": "true", "messageExpression": "self.size"}))
    assert error.endswith(": messageExpression must evaluate to a string")
    (error,) = errors_of(ruled(SIZE, {"rule": "true", "messageExpression": "self.x"}))
    assert ": messageExpression compilation failed: ERROR: <input>:1:5: undefined field 'x'" in error
    (error,) = errors_of(ruled(SIZE, {"rule": "'a'.find(')') == ''"}))
    assert error.endswith("}: program instantiation failed: error parsing regexp: unexpected ): `)`")
    (error,) = errors_of(ruled(SIZE, {"rule": "true", "messageExpression": "'a'.find(')')"}))
    assert error.endswith(": messageExpression instantiation failed: error parsing regexp: unexpected ): `)`")


def test_what_rules_cannot_see() -> None:
    untyped = ruled({"x-kubernetes-preserve-unknown-fields": True}, {"rule": "true"})
    assert errors_of(untyped) == [
        (
            f"{SPEC}.x-kubernetes-validations: Internal error: internal error: failed to construct type information "
            "for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations"
        )
    ]


def test_old_values_have_to_be_found_again() -> None:
    item = ruled({"type": "object", "properties": {"a": dict(TEXT)}}, {"rule": "self.a == oldSelf.a"})
    plain: dict[str, Any] = {"type": "object", "properties": {"l": {"type": "array", "maxItems": 5, "items": item}}}
    assert errors_of(plain) == [
        (
            f'{SPEC}.properties[l].items.x-kubernetes-validations[0].rule: Invalid value: "self.a == oldSelf.a": '
            f"oldSelf cannot be used on the uncorrelatable portion of the schema within {SPEC}.properties[l]"
        )
    ]
    plain["properties"]["l"] |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}
    item["properties"]["a"]["maxLength"] = 5
    assert errors_of(plain) == []


def test_rules_where_the_schema_is_wrong_are_not_compiled() -> None:
    tree = ruled({"type": "object", "properties": {"a": ruled(TEXT, {"rule": "1"})}}, {"rule": "2"})
    assert len(errors_of(tree)) == 2
    wrong = [field.invalid(f"{SPEC}.properties[a].type", "x", "no type")]
    assert errors_of(tree, errors=wrong) == []
    assert len(errors_of(tree, errors=[field.invalid(f"{SPEC}.properties[b]", "x", "m")])) == 1
    assert errors_of(tree, is_structural=False) == []
    tree["properties"]["a"]["x-kubernetes-validations"] = [{"rule": ""}]
    assert errors_of(tree) == [
        f"{SPEC}.properties[a].x-kubernetes-validations[0].rule: Required value: rule is not specified"
    ]


LIST: dict[str, Any] = {"type": "object", "properties": {"l": {"type": "array", "items": {"type": "integer"}}}}


def test_a_rule_may_cost_so_much() -> None:
    errors = errors_of(ruled(LIST, {"rule": "self.l.all(a, self.l.exists(b, a == b))"}))
    rule = f"{SPEC}.x-kubernetes-validations[0].rule"
    assert errors == [
        f"{rule}: Forbidden: estimated rule cost exceeds budget by factor of more than 100x {ADVICE}",
        f"{rule}: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema",
        (
            f"{ROOT}: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema "
            f"exceeds budget by factor of more than 100x {ADVICE}"
        ),
    ]


def test_the_factor() -> None:
    text = ruled(TEXT | {"maxLength": 1000}, {"rule": "self.matches('^a.*0$')"})
    errors = errors_of({"type": "array", "items": text, "maxItems": 50_000})
    assert errors == [
        (
            f"{SPEC}.items.x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by "
            f"factor of 4.0x {ADVICE}"
        )
    ]


def test_a_factor_close_to_one_has_more_digits() -> None:
    text = ruled(TEXT | {"maxLength": 1000}, {"rule": "self.matches('^a.*0$')"})
    (error,) = errors_of({"type": "array", "items": text, "maxItems": 13_000})
    assert "by factor of 1.043900x " in error


def test_many_rules_may_cost_so_much_together() -> None:
    rules = [{"rule": f"self.matches('^a.*{number}$')"} for number in range(16)]
    spec = {"type": "array", "maxItems": 8000, "items": ruled(TEXT | {"maxLength": 1000}, *rules)}
    errors = errors_of(spec)
    assert [error.partition(": ")[0].removeprefix(SPEC) for error in errors[:4]] == [
        f".items.x-kubernetes-validations[{number}].rule" for number in range(4)
    ]
    assert "exceeds budget by factor of 1.027840x " in errors[4]
    assert len(errors) == 5


def test_what_a_message_may_cost() -> None:
    rule = {"rule": "true", "messageExpression": "'x' + string(self.size)"}
    errors = errors_of(ruled(SIZE, rule))
    assert errors[0] == (
        f"{SPEC}.x-kubernetes-validations[0].messageExpression: Forbidden: estimated messageExpression cost exceeds "
        f"budget by factor of more than 100x {ADVICE}"
    )
    assert errors_of(ruled(SIZE, rule | {"messageExpression": "'%d'.format([self.size])"})) == []


def test_without_a_bound_there_are_as_many_as_fit_into_a_request() -> None:
    rule = {"rule": "self.size > 1 && self.size < 9"}
    unbounded = {"type": "array", "items": ruled(SIZE, rule)}
    assert errors_of(unbounded) == []
    deep = {"type": "object", "additionalProperties": {"type": "array", "items": ruled(TEXT, {"rule": "self == 'a'"})}}
    assert errors_of(deep) == []
    text = ruled(TEXT, {"rule": "self.contains('abc')"})
    assert len(errors_of({"type": "array", "items": text})) == 3
    assert len(errors_of({"type": "object", "additionalProperties": text, "maxProperties": 1})) == 0
    assert len(errors_of({"type": "object", "additionalProperties": text, "maxProperties": -1})) == 0


def test_what_is_stored_may_stay_dear() -> None:
    spec = ruled(LIST, {"rule": "self.l.all(a, self.l.exists(b, a == b))"})
    old = compile_schema({"type": "object", "properties": {"spec": spec}})
    assert not any("estimated rule cost exceeds" in error for error in errors_of(spec, old_schema=old))
    other = compile_schema({"type": "object"})
    assert any("estimated rule cost exceeds" in error for error in errors_of(spec, old_schema=other))


def test_rules_in_maps_and_embedded_objects() -> None:
    rule = {"rule": "self.kind != ''"}
    embedded = ruled({"type": "object", "x-kubernetes-embedded-resource": True}, rule)
    values = {"type": "object", "maxProperties": 3, "additionalProperties": embedded}
    assert errors_of(values) == []
    assert errors_of({"type": "array", "maxItems": 3, "items": embedded}) == []
    wrong = {"type": "object", "additionalProperties": ruled(TEXT, {"rule": "1"})}
    assert errors_of(wrong)[0].startswith(f"{SPEC}.additionalProperties.x-kubernetes-validations[0].rule: ")
