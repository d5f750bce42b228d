"""structural/publishing.py: what OpenAPI says of a schema."""

from __future__ import annotations

from typing import Any

import pytest

from kubevouch.structural.publishing import LIST_META, OBJECT_META, PublishedKind

PRESERVE = {"x-kubernetes-preserve-unknown-fields": True}
EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True}
EITHER = {"x-kubernetes-int-or-string": True}
NUMBER_OR_TEXT = [{"type": "integer"}, {"type": "string"}]


def kind(schema: Any, **more: Any) -> PublishedKind:
    return PublishedKind("demo.example.com", "v1", "Widget", "WidgetList", "widgets", schema, **more)


def whole(schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": schema}}


def v3(schema: Any) -> Any:
    return kind(whole(schema)).v3()["com.example.demo.v1.Widget"]["properties"]["spec"]


def v2(schema: Any) -> Any:
    return kind(whole(schema)).v2()["com.example.demo.v1.Widget"]["properties"]["spec"]


# ------------------------------------------------------------------ kinds


def test_an_object_has_what_every_object_has_in_the_words_of_each_version() -> None:
    published = kind({"type": "object", "properties": {"metadata": {"type": "object"}}}, selectable=(".spec.a.b",))
    newer, older = published.v3()[published.name], published.v2()[published.name]
    for tree in (newer, older):
        assert set(tree["properties"]) == {"apiVersion", "kind", "metadata"}
        assert tree["x-kubernetes-group-version-kind"] == [
            {"group": "demo.example.com", "kind": "Widget", "version": "v1"}
        ]
        assert tree["x-kubernetes-selectable-fields"] == [{"fieldPath": "spec.a.b"}]
    description = newer["properties"]["metadata"]["description"]
    assert newer["properties"]["metadata"] == {
        "description": description, "allOf": [{"$ref": f"#/components/schemas/{OBJECT_META}"}],
    }  # fmt: skip
    assert older["properties"]["metadata"] == {"description": description, "$ref": f"#/definitions/{OBJECT_META}"}


def test_a_list() -> None:
    published = kind({})
    for prefix, tree in (
        ("#/components/schemas/", published.v3()[published.list_name]),
        ("#/definitions/", published.v2()[published.list_name]),
    ):
        assert (tree["description"], tree["required"]) == ("WidgetList is a list of Widget", ["items"])
        items = tree["properties"]["items"]
        assert items["items"] == {"$ref": f"{prefix}com.example.demo.v1.Widget"}
        assert items["description"].startswith("List of widgets. More info: ")
        assert LIST_META in str(tree["properties"]["metadata"])
        assert tree["x-kubernetes-group-version-kind"][0]["kind"] == "WidgetList"


@pytest.mark.parametrize("schema", [{}, {"type": "object", **PRESERVE, "properties": {"spec": {"type": "string"}}}])
def test_of_what_takes_anything_old_clients_are_told_nothing(schema: Any) -> None:
    tree = kind(schema).v2()["com.example.demo.v1.Widget"]
    assert set(tree) == {"type", "x-kubernetes-group-version-kind"}


# ------------------------------------------------------------------ version 3


def test_a_schema_stays_what_it_is_without_what_is_not_structural() -> None:
    schema = {
        "type": "string", "default": "a", "enum": ["a"], "nullable": True, "pattern": "a", "title": "t",
        "x-kubernetes-validations": [{"rule": "true"}], "externalDocs": {"url": "u"},
    }  # fmt: skip
    assert v3({**schema, "example": "a", "id": "i", "$schema": "s"}) == schema


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (EITHER, {**EITHER, "anyOf": NUMBER_OR_TEXT}),
        ({**EITHER, "anyOf": NUMBER_OR_TEXT}, {**EITHER, "anyOf": NUMBER_OR_TEXT}),
        (
            {**EITHER, "allOf": [{"anyOf": NUMBER_OR_TEXT}, {"pattern": "a"}]},
            {**EITHER, "allOf": [{"anyOf": NUMBER_OR_TEXT}, {"pattern": "a"}]},
        ),
        (
            {**EITHER, "anyOf": [{"minimum": 1}], "allOf": [{"maximum": 3}]},
            {**EITHER, "anyOf": [{"minimum": 1}], "allOf": [{"anyOf": NUMBER_OR_TEXT}, {"maximum": 3}]},
        ),
        (
            {**EITHER, "allOf": [{"pattern": "a"}]},
            {**EITHER, "allOf": [{"pattern": "a"}], "anyOf": NUMBER_OR_TEXT},
        ),
    ],
)
def test_a_number_or_a_text_is_unfolded(schema: Any, expected: Any) -> None:
    assert v3(schema) == expected
    assert v3({"type": "array", "items": schema})["items"] == expected
    assert v3({"type": "object", "additionalProperties": schema})["additionalProperties"] == expected


def test_an_embedded_object_has_what_objects_have() -> None:
    tree = v3({**EMBEDDED, "properties": {"spec": {"type": "string"}}, "required": ["spec", "kind"]})
    assert set(tree["properties"]) == {"apiVersion", "kind", "metadata", "spec"}
    assert tree["required"] == ["spec", "kind", "apiVersion"]
    assert v3({**EMBEDDED, **PRESERVE})["required"] == ["kind", "apiVersion"]


def test_definitions_are_not_changed() -> None:
    schema = whole({**EMBEDDED, "required": ["a"], "properties": {"a": EITHER}})
    before = str(schema)
    kind(schema).v3()
    kind(schema).v2()
    assert str(schema) == before


# ------------------------------------------------------------------ version 2


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string", "nullable": True}, {}),
        ({"type": "object", "nullable": True, "properties": {"a": {"type": "string"}}}, {}),
        ({"type": "object", **PRESERVE, "properties": {"a": {"type": "string"}}}, PRESERVE),
        ({"type": "array", **PRESERVE}, PRESERVE),
        (EITHER, EITHER),
        ({**EITHER, "anyOf": NUMBER_OR_TEXT}, EITHER),
        ({**EMBEDDED, **PRESERVE}, {"x-kubernetes-embedded-resource": True, **PRESERVE}),
        ({"type": "array"}, {}),
        (
            {"type": "string", "default": "a", "oneOf": [{}], "anyOf": [{}], "allOf": [{}], "not": {}},
            {"type": "string"},
        ),
        (
            {"type": "integer", "format": "int32", "minimum": 1, "x-kubernetes-validations": [{"rule": "true"}]},
            {"type": "integer", "format": "int32", "minimum": 1, "x-kubernetes-validations": [{"rule": "true"}]},
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string", "nullable": True}, "required": ["a"]},
            {"type": "object", "additionalProperties": {}},
        ),
        ({"type": "object", "additionalProperties": True}, {"type": "object", "additionalProperties": True}),
        (
            {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string", "default": "a"}},
            {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        ),
    ],
)
def test_older_words(schema: Any, expected: Any) -> None:
    assert v2(schema) == expected


def test_what_may_be_null_is_not_required() -> None:
    properties = {"a": {"type": "string", "nullable": True}, "b": {"type": "string"}}
    assert v2({"type": "object", "required": ["a", "b"], "properties": properties})["required"] == ["b"]
    assert "required" not in v2({"type": "object", "required": ["a"], "properties": properties})


def test_an_embedded_object_without_unknown_fields_is_described() -> None:
    tree = v2({**EMBEDDED, "properties": {"spec": {"type": "string"}}})
    assert tree["properties"]["metadata"]["$ref"] == f"#/definitions/{OBJECT_META}"
    assert tree["required"] == ["kind", "apiVersion"]
