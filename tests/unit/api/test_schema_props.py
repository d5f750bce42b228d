from __future__ import annotations

from typing import Any

import pytest

from kubevouch.api.apiextensions_v1.definitions import CustomResourceValidation
from kubevouch.api.apiextensions_v1.schema_props import JSONSchemaProps
from kubevouch.machinery.codec import gojson, json_codec, protobuf
from kubevouch.machinery.codec.json_codec import UnmarshalError
from kubevouch.structural.schema import MAX_DEPTH

EVERYTHING: dict[str, Any] = {
    "id": "i", "$schema": "s", "$ref": "", "description": "d", "type": "object", "format": "f", "title": "t",
    "default": {"a": [1, None, 2.5]}, "maximum": 2, "exclusiveMaximum": True, "minimum": 0.5,
    "exclusiveMinimum": True, "maxLength": 0, "minLength": 1, "pattern": "^a$", "maxItems": 2, "minItems": 1,
    "uniqueItems": True, "multipleOf": 3, "enum": ["x", 1, None], "maxProperties": 4, "minProperties": 1,
    "required": ["a"], "items": {"type": "string"}, "allOf": [{"type": "string"}], "oneOf": [{}],
    "anyOf": [{"required": ["b"]}], "not": {}, "properties": {"a": {"type": "string"}, "b": {}},
    "additionalProperties": False, "patternProperties": {"^x": {}}, "dependencies": {"a": ["b"], "c": {"type": "x"}},
    "additionalItems": {"type": "integer"}, "definitions": {"z": {}}, "externalDocs": {"url": "u"}, "example": None,
    "nullable": True, "x-kubernetes-preserve-unknown-fields": False, "x-kubernetes-embedded-resource": True,
    "x-kubernetes-int-or-string": True, "x-kubernetes-list-map-keys": ["k"], "x-kubernetes-list-type": "",
    "x-kubernetes-map-type": "atomic",
    "x-kubernetes-validations": [{"rule": "true", "reason": "FieldValueInvalid", "optionalOldSelf": False}],
}  # fmt: skip


def read(schema: Any) -> tuple[Any, list[str]]:
    text = json_codec.encode_in_order({"openAPIV3Schema": schema})
    decoded = json_codec.from_tree(gojson.loads(text), CustomResourceValidation)
    found = decoded.value.open_api_v3_schema
    return found.tree, decoded.strict_errors


def test_a_schema_reads_every_field_it_has_and_writes_it_again_in_both_forms() -> None:
    kept = {key: value for key, value in EVERYTHING.items() if key != "example"}
    tree, complaints = read(EVERYTHING)

    assert (tree, complaints) == (kept, [])
    # Booleans and numbers are not the same although Python takes them for it.
    assert JSONSchemaProps(tree) == JSONSchemaProps.from_message(JSONSchemaProps(tree).to_message())
    held = CustomResourceValidation(open_api_v3_schema=JSONSchemaProps(tree))
    codec = protobuf.codec_for(CustomResourceValidation)
    assert codec.decode(codec.encode(held)) == held
    assert gojson.loads(json_codec.encode(held)) == {"openAPIV3Schema": kept}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"type": "", "required": [], "properties": {}, "uniqueItems": False}, {}),
        ({"default": None, "items": None, "minimum": None}, {}),
        ({"default": False, "minimum": 0, "x-kubernetes-preserve-unknown-fields": False},
         {"default": False, "minimum": 0, "x-kubernetes-preserve-unknown-fields": False}),
        ({"items": {}, "additionalProperties": True}, {"items": {}, "additionalProperties": True}),
        ({"items": [{}, {"type": "string"}]}, {"items": [{}, {"type": "string"}]}),
    ],
)  # fmt: skip
def test_what_is_empty_goes_as_in_go(given: dict[str, Any], kept: dict[str, Any]) -> None:
    assert read(given)[0] == kept
    assert JSONSchemaProps.from_message(JSONSchemaProps(kept).to_message()).tree == kept


def test_unknown_fields_are_told_but_not_those_inside_of_what_gos_own_readers_read() -> None:
    tree, complaints = read(
        {"x-a": 1, "properties": {"p": {"x-b": 1, "items": {"x-c": 1}}}, "additionalProperties": {"x-d": 1},
         "x-kubernetes-validations": [{"rule": "true", "x-e": 1}]}
    )  # fmt: skip

    assert complaints == [
        'unknown field "openAPIV3Schema.x-a"',
        'unknown field "openAPIV3Schema.properties.p.x-b"',
        'unknown field "openAPIV3Schema.x-kubernetes-validations[0].x-e"',
    ]
    assert tree["properties"] == {"p": {"items": {}}}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"type": 3}, "number into Go struct field JSONSchemaProps.openAPIV3Schema.type of type string"),
        ({"minimum": "1"}, "string into Go struct field JSONSchemaProps.openAPIV3Schema.minimum of type float64"),
        ({"properties": {"a": {"minLength": 1.5}}},
         "number 1.5 into Go struct field JSONSchemaProps.openAPIV3Schema.properties.minLength of type int64"),
        ({"nullable": 1}, "number into Go struct field JSONSchemaProps.openAPIV3Schema.nullable of type bool"),
        ({"items": {"type": 1}}, "number into Go struct field JSONSchemaProps.type of type string"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_gos_words(given: dict[str, Any], why: str) -> None:
    with pytest.raises(UnmarshalError) as refused:
        read(given)
    assert str(refused.value) == f"json: cannot unmarshal {why}"


def test_additional_properties_are_a_boolean_or_a_schema() -> None:
    with pytest.raises(UnmarshalError, match=r"^boolean or JSON schema expected$"):
        read({"additionalProperties": 3})


def nested(levels: int) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for _ in range(levels):
        tree = {"properties": {"a": tree}}
    return tree


def test_a_schema_nests_so_deep_and_no_deeper() -> None:
    tree, _ = read(nested(MAX_DEPTH))
    assert JSONSchemaProps.from_message(JSONSchemaProps(tree).to_message()).tree == tree
    with pytest.raises(UnmarshalError, match="nests more than 100 levels deep"):
        read(nested(MAX_DEPTH + 1))
    with pytest.raises(protobuf.ProtobufError, match="nests more than 100 levels deep"):
        JSONSchemaProps.from_message(JSONSchemaProps(nested(MAX_DEPTH + 1)).to_message()).tree  # noqa: B018


def test_numbers_without_a_fraction_are_integers_in_both_forms() -> None:
    tree, _ = read({"minimum": 1.0, "maximum": 1e300, "default": {"a": [2.0, 0.5]}, "enum": [3.0]})
    expected = b'{"default":{"a":[2,0.5]},"maximum":1e300,"minimum":1,"enum":[3]}'
    for each in (tree, JSONSchemaProps.from_message(JSONSchemaProps({**tree}).to_message()).tree):
        assert json_codec.encode_in_order(each) == expected


def test_what_is_stored_is_looked_into_when_it_is_asked_for() -> None:
    broken = JSONSchemaProps.from_message(b"\xff")
    assert broken.to_message() == b"\xff"
    with pytest.raises(protobuf.ProtobufError):
        broken.tree  # noqa: B018


def test_schemas_in_either_form_compare_by_what_they_say() -> None:
    tree = {"type": "object", "maximum": 1, "enum": [True, 1]}
    stored = JSONSchemaProps.from_message(JSONSchemaProps({**tree}).to_message())
    assert stored == JSONSchemaProps(tree)
    assert stored == JSONSchemaProps.from_message(stored.to_message())
    assert stored != JSONSchemaProps({**tree, "enum": [1, 1]})
    assert stored != tree
