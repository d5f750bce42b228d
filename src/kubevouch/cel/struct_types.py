"""Declared structs as types of expressions, so that a misspelt field does not compile."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kubevouch.cel import types
from kubevouch.cel.types import Type
from kubevouch.machinery.schema import ListSchema, MapSchema, ScalarSchema, StructSchema, TypeSchema, schema_of

# What JSON has only as text (times, quantities, bytes) is any: what it means is for the expression to say.
_SCALARS = {"string": types.STRING, "bool": types.BOOL, "int32": types.INT, "int64": types.INT}


class Fields:
    """The members of a struct, known when they are first asked for: kinds hold each other."""

    def __init__(self, schema: StructSchema) -> None:
        self._schema = schema

    def member(self, name: str) -> tuple[str, Type] | None:
        """See :class:`kubevouch.cel.checker.Struct`."""
        found = self._schema.by_name.get(name)
        return None if found is None else (name, _type(found.type))


class Members:
    """The members of a map whose keys are known, with their types."""

    def __init__(self, types: Mapping[str, Type]) -> None:
        self._types = types

    def member(self, name: str) -> tuple[str, Type] | None:
        """See :class:`kubevouch.cel.checker.Struct`."""
        return (name, self._types[name]) if name in self._types else None


def struct_type(struct: type[msgspec.Struct]) -> Type:
    """The type of a declared struct."""
    return _type(schema_of(struct))


def _type(schema: TypeSchema) -> Type:
    if isinstance(schema, StructSchema):
        return types.struct(f"kubernetes.{schema.go_name}", Fields(schema))
    if isinstance(schema, MapSchema):
        return types.map_of(types.STRING, _type(schema.value))
    if isinstance(schema, ListSchema):
        return types.list_of(_type(schema.item))
    assert isinstance(schema, ScalarSchema)
    return _SCALARS.get(schema.kind, types.DYN)
