"""The fields of JSONSchemaProps, in Go's order: their numbers, and what stands in them.

Source: types_jsonschema.go and generated.proto of k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1 (Kubernetes
1.36).
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from kubevouch.machinery.declaration import Struct, always, wire


class ExternalDocumentation(Struct):
    """Where more is written."""

    description: Annotated[str, wire(1, "What is there.")] = ""
    url: Annotated[str, wire(2, "Where it is.")] = ""


class ValidationRule(Struct):
    """A rule in the Common Expression Language that values have to hold to."""

    rule: Annotated[str, wire(1, "The expression.", required=True)] = always(str)
    message: Annotated[str, wire(2, "What is said when it does not hold.")] = ""
    message_expression: Annotated[str, wire(3, "An expression that makes the message.")] = ""
    reason: Annotated[str | None, wire(4, "The reason of the error.")] = None
    field_path: Annotated[str, wire(5, "The field that the error is about.")] = ""
    optional_old_self: Annotated[bool | None, wire(6, "The rule is also run where there is no old value.")] = None


Kind = Literal[
    "string", "bool", "int64", "double", "json", "jsons", "strings", "schema", "schemas", "schema_map", "or_bool",
    "or_array", "or_strings_map", "documentation", "rules",
]  # fmt: skip


class Field(NamedTuple):
    """``pointer``: absent and empty differ."""

    number: int
    kind: Kind
    pointer: bool = False


# In Go's order.
FIELDS: dict[str, Field] = {
    "id": Field(1, "string"),
    "$schema": Field(2, "string"),
    "$ref": Field(3, "string", pointer=True),
    "description": Field(4, "string"),
    "type": Field(5, "string"),
    "format": Field(6, "string"),
    "title": Field(7, "string"),
    "default": Field(8, "json"),
    "maximum": Field(9, "double", pointer=True),
    "exclusiveMaximum": Field(10, "bool"),
    "minimum": Field(11, "double", pointer=True),
    "exclusiveMinimum": Field(12, "bool"),
    "maxLength": Field(13, "int64", pointer=True),
    "minLength": Field(14, "int64", pointer=True),
    "pattern": Field(15, "string"),
    "maxItems": Field(16, "int64", pointer=True),
    "minItems": Field(17, "int64", pointer=True),
    "uniqueItems": Field(18, "bool"),
    "multipleOf": Field(19, "double", pointer=True),
    "enum": Field(20, "jsons"),
    "maxProperties": Field(21, "int64", pointer=True),
    "minProperties": Field(22, "int64", pointer=True),
    "required": Field(23, "strings"),
    "items": Field(24, "or_array"),
    "allOf": Field(25, "schemas"),
    "oneOf": Field(26, "schemas"),
    "anyOf": Field(27, "schemas"),
    "not": Field(28, "schema"),
    "properties": Field(29, "schema_map"),
    "additionalProperties": Field(30, "or_bool"),
    "patternProperties": Field(31, "schema_map"),
    "dependencies": Field(32, "or_strings_map"),
    "additionalItems": Field(33, "or_bool"),
    "definitions": Field(34, "schema_map"),
    "externalDocs": Field(35, "documentation"),
    "example": Field(36, "json"),
    "nullable": Field(37, "bool"),
    "x-kubernetes-preserve-unknown-fields": Field(38, "bool", pointer=True),
    "x-kubernetes-embedded-resource": Field(39, "bool"),
    "x-kubernetes-int-or-string": Field(40, "bool"),
    "x-kubernetes-list-map-keys": Field(41, "strings"),
    "x-kubernetes-list-type": Field(42, "string", pointer=True),
    "x-kubernetes-map-type": Field(43, "string", pointer=True),
    "x-kubernetes-validations": Field(44, "rules"),
}
# Not left out when they are empty, false or zero.
KEPT = frozenset({"json", "schema", "or_array", "or_bool", "documentation"})
