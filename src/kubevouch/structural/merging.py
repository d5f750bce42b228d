"""How objects of a schema merge in server-side apply, and which of their fields are owned apart.

Source: k8s.io/kube-openapi/pkg/schemaconv/openapi.go over what a definition publishes (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Any

from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.schema import schema_of
from kubevouch.machinery.writing import typed_tree
from kubevouch.machinery.writing.typed_tree import DEDUCED, ListType, MapType, MergeType, ScalarType
from kubevouch.structural.schema import NO_DEFAULT, Schema

_STRING = ScalarType("string")
_UNTYPED = ScalarType("untyped")
_SCALARS = {
    "string": _STRING, "integer": ScalarType("numeric"), "number": ScalarType("numeric"),
    "boolean": ScalarType("boolean"),
}  # fmt: skip


def merge_type(schema: Schema) -> MapType:
    """The merge type of a whole object."""
    return _map_type(schema, whole=True)


def _type(schema: Schema) -> MergeType:
    if schema.int_or_string:
        return _UNTYPED
    if schema.type == "object" or (not schema.type and schema.properties):
        return _map_type(schema, whole=schema.embedded)
    if schema.type == "array":
        return _list_type(schema)
    return _SCALARS.get(schema.type, DEDUCED)


def _map_type(schema: Schema, *, whole: bool) -> MapType:
    fields = {name: _type(below) for name, below in schema.properties.items()}
    if whole:
        fields |= {"apiVersion": _STRING, "kind": _STRING, "metadata": typed_tree.merge_type(schema_of(ObjectMeta))}
    rest: MergeType | None = None
    if schema.values is not None:
        rest = _type(schema.values)
    elif schema.additional is True or schema.preserve_unknown or not fields:
        rest = DEDUCED
    return MapType(fields, rest, atomic=schema.map_type == "atomic")


def _list_type(schema: Schema) -> ListType:
    items = schema.items
    item = DEDUCED if items is None else _type(items)
    if items is None or schema.list_type not in ("set", "map"):
        return ListType(item)
    if schema.list_type == "set":
        return ListType(item, atomic=False)
    return ListType(item, schema.map_keys, atomic=False, defaults=_defaults(items, schema.map_keys))


def _defaults(items: Schema, keys: tuple[str, ...]) -> dict[str, Any]:
    known = {key: items.properties[key].default for key in keys if key in items.properties}
    return {key: default for key, default in known.items() if default is not NO_DEFAULT}
