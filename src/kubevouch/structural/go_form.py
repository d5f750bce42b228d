"""How Kubernetes prints a schema in an error: as JSON of its internal Go types, with the names of their fields.

Source: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/types_jsonschema.go (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kubevouch.machinery.codec import json_codec

Tree = Mapping[str, Any]


def go_schema(tree: Tree) -> msgspec.Raw:
    """A schema; as the value of a field error."""
    return _raw(_schema(tree))


def go_items(items: Any) -> msgspec.Raw:
    """The ``items`` of a schema; as the value of a field error."""
    return _raw(_or_array(items))


def go_schema_tree(tree: Tree) -> dict[str, Any]:
    """A schema as a tree whose keys stand in Go's order."""
    return _schema(tree)


def _raw(tree: Any) -> msgspec.Raw:
    return msgspec.Raw(json_codec.encode_in_order(tree))


def _schema(tree: Tree) -> dict[str, Any]:
    return {go_name: made(tree.get(name)) for name, (go_name, made) in FIELDS.items()}


def _text(value: Any) -> Any:
    return value or ""


def _flag(value: Any) -> Any:
    return bool(value)


def _as_is(value: Any) -> Any:
    return value


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _some(value: Any) -> Any:
    return value or None


def _json(value: Any) -> Any:
    return _sorted(value)


def _jsons(value: Any) -> Any:
    return [_sorted(each) for each in value] if value else None


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value


def _schema_or_none(value: Any) -> Any:
    return None if value is None else _schema(value)


def _schemas(value: Any) -> Any:
    return [_schema(each) for each in value] if value else None


def _schema_map(value: Any) -> Any:
    return {key: _schema(value[key]) for key in sorted(value)} if value else None


def _or_bool(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, bool):
        return {"Allows": value, "Schema": None}
    return {"Allows": True, "Schema": _schema(value)}


def _or_array(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return {"Schema": None, "JSONSchemas": [_schema(each) for each in value]}
    return {"Schema": _schema(value), "JSONSchemas": None}


def _dependencies(value: Any) -> Any:
    return {key: _dependency(value[key]) for key in sorted(value)} if value else None


def _dependency(value: Any) -> Any:
    if isinstance(value, list):
        return {"Schema": None, "Property": value}
    return {"Schema": _schema(value), "Property": None}


def _documentation(value: Any) -> Any:
    if value is None:
        return None
    return {"Description": value.get("description") or "", "URL": value.get("url") or ""}


def _rules(value: Any) -> Any:
    return (
        [
            {
                "Rule": each.get("rule") or "",
                "Message": each.get("message") or "",
                "MessageExpression": each.get("messageExpression") or "",
                "Reason": each.get("reason"),
                "FieldPath": each.get("fieldPath") or "",
                "OptionalOldSelf": each.get("optionalOldSelf"),
            }
            for each in value
        ]
        if value
        else None
    )


# By the name in JSON, in the order of Go's type.
FIELDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "id": ("ID", _text),
    "$schema": ("Schema", _text),
    "$ref": ("Ref", _as_is),
    "description": ("Description", _text),
    "type": ("Type", _text),
    "nullable": ("Nullable", _flag),
    "format": ("Format", _text),
    "title": ("Title", _text),
    "default": ("Default", _json),
    "maximum": ("Maximum", _number),
    "exclusiveMaximum": ("ExclusiveMaximum", _flag),
    "minimum": ("Minimum", _number),
    "exclusiveMinimum": ("ExclusiveMinimum", _flag),
    "maxLength": ("MaxLength", _as_is),
    "minLength": ("MinLength", _as_is),
    "pattern": ("Pattern", _text),
    "maxItems": ("MaxItems", _as_is),
    "minItems": ("MinItems", _as_is),
    "uniqueItems": ("UniqueItems", _flag),
    "multipleOf": ("MultipleOf", _number),
    "enum": ("Enum", _jsons),
    "maxProperties": ("MaxProperties", _as_is),
    "minProperties": ("MinProperties", _as_is),
    "required": ("Required", _some),
    "items": ("Items", _or_array),
    "allOf": ("AllOf", _schemas),
    "oneOf": ("OneOf", _schemas),
    "anyOf": ("AnyOf", _schemas),
    "not": ("Not", _schema_or_none),
    "properties": ("Properties", _schema_map),
    "additionalProperties": ("AdditionalProperties", _or_bool),
    "patternProperties": ("PatternProperties", _schema_map),
    "dependencies": ("Dependencies", _dependencies),
    "additionalItems": ("AdditionalItems", _or_bool),
    "definitions": ("Definitions", _schema_map),
    "externalDocs": ("ExternalDocs", _documentation),
    "example": ("Example", _json),
    "x-kubernetes-preserve-unknown-fields": ("XPreserveUnknownFields", _as_is),
    "x-kubernetes-embedded-resource": ("XEmbeddedResource", _flag),
    "x-kubernetes-int-or-string": ("XIntOrString", _flag),
    "x-kubernetes-list-map-keys": ("XListMapKeys", _some),
    "x-kubernetes-list-type": ("XListType", _as_is),
    "x-kubernetes-map-type": ("XMapType", _as_is),
    "x-kubernetes-validations": ("XValidations", _rules),
}
