"""The definition of a kind says what its struct says, and is one that API servers take."""

from __future__ import annotations

from typing import Annotated

import pytest

from kubevouch.api.apiextensions_v1.definitions import default_definition
from kubevouch.api.apiextensions_v1.validation import validate_definition
from kubevouch.api.kubevouch_v1alpha1.catalog import OWN_KINDS
from kubevouch.api.kubevouch_v1alpha1.own_kind import OwnKind, definition_of, schema_tree
from kubevouch.machinery.declaration import Int32, Quantity, Struct, always, wire
from kubevouch.machinery.schema import schema_of
from kubevouch.machinery.text.times import Time


class Part(Struct):
    """A part."""

    name: Annotated[str, wire(1, "Its name.", required=True)] = always(str)
    size: Annotated[Int32 | None, wire(2, schema={"minimum": 1})] = None


class Whole(Struct):
    """A whole."""

    parts: Annotated[list[Part], wire(1, "Its parts.", list_type="map", map_keys=("name",))] = []
    colours: Annotated[list[str], wire(2, "Colours.", enum=("red", "blue"), schema={"maxItems": 2})] = []
    labels: Annotated[dict[str, str], wire(3, "Labels.", atomic=True)] = {}
    made: Annotated[Time | None, wire(4)] = None


class Measured(Struct):
    """It has what custom resources do not have."""

    weight: Annotated[Quantity | None, wire(1)] = None


def test_a_schema_says_what_the_struct_says() -> None:
    assert schema_tree(schema_of(Whole)) == {
        "type": "object",
        "description": "A whole.",
        "properties": {
            "parts": {
                "type": "array",
                "description": "Its parts.",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {
                    "type": "object",
                    "description": "A part.",
                    "properties": {
                        "name": {"type": "string", "description": "Its name."},
                        "size": {"type": "integer", "format": "int32", "minimum": 1},
                    },
                    "required": ["name"],
                },
            },
            "colours": {
                "type": "array", "description": "Colours.", "maxItems": 2,
                "items": {"type": "string", "enum": ["red", "blue"]},
            },
            "labels": {
                "type": "object", "description": "Labels.", "additionalProperties": {"type": "string"},
                "x-kubernetes-map-type": "atomic",
            },
            "made": {"type": "string", "format": "date-time"},
        },
    }  # fmt: skip


def test_a_type_that_custom_resources_do_not_have_is_refused() -> None:
    with pytest.raises(TypeError, match="weight"):
        schema_tree(schema_of(Measured))


@pytest.mark.parametrize("kind", OWN_KINDS, ids=lambda kind: kind.resource.kind)
def test_our_definitions_are_valid(kind: OwnKind) -> None:
    assert validate_definition(default_definition(definition_of(kind))) == []
