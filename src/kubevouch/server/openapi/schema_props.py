"""JSONSchemaProps in OpenAPI, so that ``kubectl explain`` leads into the schemas of definitions.

Names and shapes: k8s.io/apiextensions-apiserver pkg/generated/openapi (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubevouch.api.apiextensions_v1.schema_fields import FIELDS, ExternalDocumentation, Field, ValidationRule
from kubevouch.api.apiextensions_v1.schema_props import JSONSchemaProps
from kubevouch.machinery.declaration import Struct

Tree = dict[str, Any]
Reference = Callable[..., Tree]

_DOCS = {
    "id": "Not supported.",
    "$schema": "The dialect of the schema; nothing reads it.",
    "$ref": "Not supported.",
    "description": "What it is, for people.",
    "type": "The type of the value: object, array, string, integer, number or boolean.",
    "format": "A format of the type, such as date-time, int32 or uuid. Unknown formats are ignored, with a warning.",
    "title": "A name for people.",
    "default": "What a missing field is filled with.",
    "maximum": "The highest number that is allowed.",
    "exclusiveMaximum": "maximum itself is not allowed.",
    "minimum": "The lowest number that is allowed.",
    "exclusiveMinimum": "minimum itself is not allowed.",
    "maxLength": "The most characters of a string.",
    "minLength": "The fewest characters of a string.",
    "pattern": "A regular expression (RE2) that a string has to match.",
    "maxItems": "The most items of an array.",
    "minItems": "The fewest items of an array.",
    "uniqueItems": "Cannot be true; see x-kubernetes-list-type.",
    "multipleOf": "A number has to be a multiple of it.",
    "enum": "The values that are allowed.",
    "maxProperties": "The most fields of an object.",
    "minProperties": "The fewest fields of an object.",
    "required": "The fields that an object has to have.",
    "items": "The schema of the items of an array.",
    "allOf": "The value has to fit all of these.",
    "oneOf": "The value has to fit exactly one of these.",
    "anyOf": "The value has to fit one of these at least.",
    "not": "The value must not fit this.",
    "properties": "The schemas of the fields of an object.",
    "additionalProperties": "The schema of fields that properties does not name, or whether there may be any.",
    "patternProperties": "Not supported.",
    "dependencies": "Not supported.",
    "additionalItems": "Not supported.",
    "definitions": "Not supported.",
    "externalDocs": "Where more is written.",
    "example": "An example of the value.",
    "nullable": "The value may be null.",
    "x-kubernetes-preserve-unknown-fields": "Fields that the schema does not name are kept; true or absent.",
    "x-kubernetes-embedded-resource": "The value is an object of Kubernetes, with apiVersion, kind and metadata.",
    "x-kubernetes-int-or-string": "The value is an integer or a string.",
    "x-kubernetes-list-map-keys": "The fields that tell the items of a list of type map apart.",
    "x-kubernetes-list-type": "How writers share a list: atomic, set or map.",
    "x-kubernetes-map-type": "How writers share an object: granular or atomic.",
    "x-kubernetes-validations": "Rules in the Common Expression Language that the value has to hold to.",
}
_EITHER = {
    "JSON": "Any JSON value.",
    "JSONSchemaPropsOrArray": "A schema, or a list of schemas.",
    "JSONSchemaPropsOrBool": "A schema, or true or false.",
    "JSONSchemaPropsOrStringArray": "A schema, or a list of strings.",
}
_SCALARS: dict[str, Tree] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int64": {"type": "integer", "format": "int64"},
    "double": {"type": "number", "format": "double"},
}
_ATOMIC = {"x-kubernetes-list-type": "atomic"}
_RULES = {
    "x-kubernetes-list-map-keys": ["rule"], "x-kubernetes-list-type": "map", "x-kubernetes-patch-merge-key": "rule",
    "x-kubernetes-patch-strategy": "merge",
}  # fmt: skip


def trees(name: str, struct: Callable[[type[Struct]], str], reference: Reference) -> dict[str, Tree]:
    """The schema of JSONSchemaProps, and those of what stands in its fields, by name.

    Args:
        name: of its own.
        struct: adds the schema of a struct, and gives its name.
        reference: makes a reference to a name, with what stands beside it.
    """
    package = name.removesuffix(JSONSchemaProps.__name__)
    known = {"rules": struct(ValidationRule), "documentation": struct(ExternalDocumentation)}
    properties = {each: _property(each, field, name, package, known, reference) for each, field in FIELDS.items()}
    own = {"type": "object", "description": "A schema of the values of a field.", "properties": properties}
    return {name: own} | {f"{package}{each}": {"description": text} for each, text in _EITHER.items()}


def _property(name: str, field: Field, own: str, package: str, known: dict[str, str], reference: Reference) -> Tree:
    beside: Tree = {"description": _DOCS[name]}
    kind = field.kind
    if kind in _SCALARS:
        return {**_SCALARS[kind], **beside}
    if kind in ("json", "schema", "or_bool", "or_array", "documentation"):
        targets = {
            "json": f"{package}JSON", "schema": own, "or_bool": f"{package}JSONSchemaPropsOrBool",
            "or_array": f"{package}JSONSchemaPropsOrArray",
        }  # fmt: skip
        return reference(targets.get(kind) or known[kind], **beside)
    if kind == "schema_map":
        return {"type": "object", "additionalProperties": reference(own, default={}), **beside}
    if kind == "or_strings_map":
        value = reference(f"{package}JSONSchemaPropsOrStringArray")
        return {"type": "object", "additionalProperties": value, **beside}
    items: Tree = {"type": "string", "default": ""}
    if kind == "jsons":
        items = reference(f"{package}JSON")
    elif kind == "schemas":
        items = reference(own, default={})
    elif kind == "rules":
        items = reference(known[kind], default={})
    return {"type": "array", "items": items, **beside, **(_RULES if kind == "rules" else _ATOMIC)}
