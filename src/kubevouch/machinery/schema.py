"""The schema of a declared struct, read once from its annotations.

The JSON decoder's strict walk, the protobuf messages, patches, server-side apply and OpenAPI all read this tree.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from kubevouch.machinery.declaration import (
    WHOLE,
    GoType,
    IntOrString,
    ListType,
    Opaque,
    Quantity,
    RawJSON,
    Wrapped,
    wire,
)
from kubevouch.machinery.text.times import MicroTime, Time

ScalarKind = Literal[
    "string", "bytes", "bool", "int32", "int64", "time", "microtime", "quantity", "intorstring", "json", "opaque"
]

_SCALARS: dict[Any, ScalarKind] = {
    str: "string", bytes: "bytes", bool: "bool", int: "int64", Time: "time", MicroTime: "microtime",
    Quantity: "quantity", IntOrString: "intorstring", RawJSON: "json",
}  # fmt: skip


class ScalarSchema(msgspec.Struct, frozen=True):
    """``type`` of what is opaque."""

    kind: ScalarKind
    type: type[Opaque] | None = None


class ListSchema(msgspec.Struct, frozen=True):
    item: TypeSchema
    wrapped: bool = False


class MapSchema(msgspec.Struct, frozen=True):
    value: TypeSchema


class FieldSchema(msgspec.Struct, frozen=True):
    """One field: both of its names, its type and what ``wire`` says of it."""

    name: str
    attribute: str
    type: TypeSchema
    number: int
    doc: str
    pointer: bool
    always: bool
    required: bool
    list_type: ListType
    map_keys: tuple[str, ...]
    patch_merge_key: str
    patch_strategy: str
    atomic: bool
    enum: tuple[str, ...]
    proto_name: str
    inside: tuple[int, ...] = ()
    schema: Mapping[str, Any] = msgspec.field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class StructSchema:
    """A struct; ``fields`` is in Go's order, ``by_name`` finds a field by its wire name."""

    type: type[msgspec.Struct]
    fields: tuple[FieldSchema, ...]
    by_name: dict[str, FieldSchema] = field(repr=False)
    atomic: bool = False

    @property
    def go_name(self) -> str:
        return self.type.__name__


TypeSchema = ScalarSchema | ListSchema | MapSchema | StructSchema


_schemas: dict[type[msgspec.Struct], StructSchema] = {}


def schema_of(struct: type[msgspec.Struct]) -> StructSchema:
    """The schema of a declared struct.

    Raises:
        TypeError: a field is not declared with ``wire`` or has a type that the wire does not know.
    """
    found = _schemas.get(struct)
    if found is None:
        found = _schemas[struct] = _read(struct)
    return found


class _Noted:
    """What :class:`typing.Annotated` would hold; one of those takes thirty times as long to make."""

    __slots__ = ("extras", "inner")

    def __init__(self, inner: Any, extras: tuple[object, ...]) -> None:
        self.inner = inner
        self.extras = extras

    def __class_getitem__(cls, arguments: tuple[Any, ...]) -> _Noted:
        inner, *extras = arguments
        return cls(inner, tuple(extras))


def _hints(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """The annotations of a struct and its bases, read: Annotated is :class:`_Noted` where it is the outermost."""
    hints: dict[str, Any] = {}
    for each in reversed(struct.__mro__):
        found = inspect.get_annotations(each)
        if any(isinstance(value, str) for value in found.values()):
            names = vars(sys.modules[each.__module__])
            if names.get("Annotated") is Annotated:
                names = {**names, "Annotated": _Noted}
            found = {key: eval(value, names) if isinstance(value, str) else value for key, value in found.items()}  # noqa: S307 - declarations in this package
        hints |= found
    return hints


def _read(struct: type[msgspec.Struct]) -> StructSchema:
    hints = _hints(struct)
    fields = []
    defaults = struct.__struct_defaults__
    without = len(struct.__struct_fields__) - len(defaults)
    for index, (attribute, name) in enumerate(
        zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True)
    ):
        hint, declared, extras = _unpack(hints[attribute])
        if declared is None:
            raise TypeError(f"{struct.__name__}.{attribute} has no wire(…)")
        pointer, hint, more = _optional(hint)
        factory = getattr(defaults[index - without], "factory", None) if index >= without else None
        fields.append(
            FieldSchema(
                name=name,
                attribute=attribute,
                type=_type_schema(hint, (*extras, *more), f"{struct.__name__}.{attribute}"),
                number=declared.number,
                doc=declared.doc,
                pointer=pointer,
                always=factory not in (None, list, dict),
                required=declared.required,
                list_type=declared.list_type,
                map_keys=declared.map_keys,
                patch_merge_key=declared.patch_merge_key,
                patch_strategy=declared.patch_strategy,
                atomic=declared.atomic,
                enum=declared.enum,
                proto_name=declared.proto_name or name,
                inside=declared.inside,
                schema=declared.schema,
            )
        )
    return StructSchema(struct, tuple(fields), {f.name: f for f in fields}, struct in WHOLE)


def _unpack(hint: Any) -> tuple[Any, wire | None, tuple[object, ...]]:
    if isinstance(hint, _Noted):
        inner, extras = hint.inner, hint.extras
    elif get_origin(hint) is Annotated:
        inner, *rest = get_args(hint)
        extras = tuple(rest)
    else:
        return hint, None, ()
    if get_origin(inner) is Annotated:
        inner, *rest = get_args(inner)
        extras = (*rest, *extras)
    declared = next((extra for extra in extras if isinstance(extra, wire)), None)
    return inner, declared, tuple(extra for extra in extras if not isinstance(extra, wire))


def _optional(hint: Any) -> tuple[bool, Any, tuple[object, ...]]:
    if get_origin(hint) not in (Union, types.UnionType):
        return False, hint, ()
    inner = [arg for arg in get_args(hint) if arg is not type(None)]
    if len(inner) != 1:
        raise TypeError(f"{hint} has more than one type")
    bare, _, extras = _unpack(inner[0])
    return True, bare, extras


def _type_schema(hint: Any, extras: tuple[object, ...], where: str) -> TypeSchema:
    go_type = next((extra.name for extra in extras if isinstance(extra, GoType)), None)
    if go_type is not None:
        return ScalarSchema("int32" if go_type == "int32" else "int64")
    if hint in _SCALARS:
        return ScalarSchema(_SCALARS[hint])
    origin = get_origin(hint)
    if origin is list:
        bare, _, more = _unpack(get_args(hint)[0])
        return ListSchema(_type_schema(bare, more, where), any(isinstance(extra, Wrapped) for extra in extras))
    if origin is dict:
        bare, _, more = _unpack(get_args(hint)[1])
        return MapSchema(_type_schema(bare, more, where))
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return schema_of(hint)
    if isinstance(hint, type) and issubclass(hint, Opaque):
        return ScalarSchema("opaque", hint)
    raise TypeError(f"{where}: the wire has no form for {hint}")


def opaque_values(value: msgspec.Struct) -> Iterator[Opaque]:
    """What an object holds of values that have forms of their own."""
    for item in _opaque_fields(type(value)):
        held = getattr(value, item.attribute)
        for each in held if isinstance(held, list) else [held]:
            if isinstance(each, Opaque):
                yield each
            elif each is not None:
                yield from opaque_values(each)


@cache
def _opaque_fields(struct: type[msgspec.Struct]) -> tuple[FieldSchema, ...]:
    """The fields in which there may be some."""
    return tuple(item for item in schema_of(struct).fields if _holds_opaque(item.type))


def _holds_opaque(kind: TypeSchema) -> bool:
    if isinstance(kind, ScalarSchema):
        return kind.kind == "opaque"
    if isinstance(kind, ListSchema):
        return _holds_opaque(kind.item)
    return isinstance(kind, StructSchema) and bool(_opaque_fields(kind.type))
