"""The types of the values of a schema for a check that only warns: what a schema leaves open is of any type.

Source: k8s.io/apiserver/pkg/cel/common/schemas.go (Kubernetes 1.36).
"""

from __future__ import annotations

from kubevouch.cel import struct_types, types
from kubevouch.cel.types import Type
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.structural.rule_types import escape
from kubevouch.structural.schema import Schema

# What JSON has only as text is any: what it means is for the expression to say.
_SCALARS = {"boolean": types.BOOL, "integer": types.INT, "number": types.DOUBLE}


def open_type(schema: Schema, name: str, *, whole: bool = False) -> Type:
    """The type of a node.

    Args:
        name: of its type, where it is a struct.
        whole: the node is a whole object: it has a kind and metadata.
    """
    if schema.int_or_string:
        return types.DYN
    if schema.type == "array":
        return types.list_of(types.DYN if schema.items is None else open_type(schema.items, f"{name}.items"))
    if schema.type == "object":
        if schema.values is not None:
            return types.map_of(types.STRING, open_type(schema.values, f"{name}.values"))
        if schema.properties or whole:
            return types.struct(name, _Fields(schema, name, whole or schema.embedded))
        return types.DYN
    if schema.type == "string":
        return types.DYN if schema.tree.get("format") else types.STRING
    return _SCALARS.get(schema.type, types.DYN)


class _Fields:
    """The members of a struct, known when they are first asked for."""

    def __init__(self, schema: Schema, name: str, whole: bool) -> None:
        self._schema = schema
        self._name = name
        self._whole = whole
        self._properties = {escape(each): each for each in schema.properties} | {
            each: each for each in schema.properties
        }

    def member(self, name: str) -> tuple[str, Type] | None:
        """See :class:`kubevouch.cel.checker.Struct`."""
        if self._whole and name == "metadata":
            return name, struct_types.struct_type(ObjectMeta)
        if self._whole and name in ("apiVersion", "kind"):
            return name, types.STRING
        key = self._properties.get(name)
        if key is not None:
            return key, open_type(self._schema.properties[key], f"{self._name}.{key}")
        return (name, types.DYN) if self._schema.preserve_unknown or self._schema.additional is True else None
