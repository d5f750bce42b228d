"""How many elements a document may have: what it costs grows with them, not with its bytes.

An element is a member of an object or an item of a list, at any depth. Kubernetes bounds neither; a body of 3 MiB has
room for a million, which would take this server a minute. The largest objects of real clusters (a ConfigMap from a
folder with thousands of files, an aggregated ClusterRole) have some thousands.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from kubevouch.machinery import errors
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.meta import Object, replace_metadata
from kubevouch.machinery.schema import FieldSchema, ListSchema, MapSchema, ScalarSchema, StructSchema, TypeSchema

MAX_ELEMENTS = 20_000
"""Of an object without its managedFields, which name every field of it once for each of its managers."""

MAX_BODY_ELEMENTS = 100_000
"""Of anything that a client sends, and of the managedFields of an object."""

# A call into C keeps the interpreter until it ends: a few milliseconds for so many bytes.
_WINDOW = 128 * 1024


def check_json(data: bytes) -> None:
    """Raises ``APIStatusError`` (413) for a text with too many elements, in time linear in its length.

    Counted are commas and opening brackets outside of strings, whether or not the text is JSON.
    """
    if len(data) > MAX_BODY_ELEMENTS and _marks(data) > MAX_BODY_ELEMENTS:
        _check_outside_strings(data.replace(rb"\\", b"").replace(rb"\"", b""))


def _check_outside_strings(data: bytes) -> None:
    """Of a text without escaped quotes."""
    found, inside = 0, 0
    for at in range(0, len(data), _WINDOW):
        parts = data[at : at + _WINDOW].split(b'"')
        found += _marks(b"".join(parts[inside::2]))
        inside = (inside + len(parts) - 1) % 2
        _check(found, MAX_BODY_ELEMENTS)


def _marks(data: bytes) -> int:
    return data.count(b",") + data.count(b"[") + data.count(b"{")


def _check(found: int, limit: int) -> None:
    if found > limit:
        raise errors.request_entity_too_large(f"at most {limit} members of objects and items of lists are allowed")


def check(obj: Object, limit: int = MAX_ELEMENTS) -> None:
    """Raises ``APIStatusError`` (413) for an object with too many elements."""
    _check(_count(json_codec.to_builtins(replace_metadata(obj, managed_fields=[]))), limit)
    entries = obj.metadata.managed_fields
    _check(sum(8 + _marks(each.fields_v1.raw if each.fields_v1 else b"") for each in entries), MAX_BODY_ELEMENTS)


def _count(tree: Any) -> int:
    found, pending = 0, [tree]
    while pending:
        value = pending.pop()
        found += len(value)
        pending += (
            each for each in (value.values() if isinstance(value, dict) else value) if type(each) in (dict, list)
        )
    return found


# ------------------------------------------------------------------ protobuf

# For each field number what stands in it: a message with fields of its own, JSON, or nothing that has elements.
_JSON = "json"
_Inside = dict[int, Any]


def check_protobuf(data: bytes, schema: StructSchema) -> None:
    """Raises ``APIStatusError`` (413) for a message with too many elements, before anything is made of them.

    What is no protobuf is left to the decoder.
    """
    if len(data) <= MAX_BODY_ELEMENTS:
        return
    found = 0
    pending: list[tuple[int, int, Any]] = [(0, len(data), _fields(schema))]
    while pending:
        at, end, fields = pending.pop()
        while at < end:
            found += 1
            if found > MAX_BODY_ELEMENTS:
                _check(found, MAX_BODY_ELEMENTS)
            tag, at = _varint(data, at, end)
            kind = tag & 7
            if kind == 0:
                _, at = _varint(data, at, end)
            elif kind == 2:
                length, at = _varint(data, at, end)
                inside = fields.get(tag >> 3)
                if inside is _JSON:
                    check_json(data[at : at + length])
                elif inside is not None:
                    pending.append((at, min(at + length, end), inside() if callable(inside) else inside))
                at += length
            else:
                at += {1: 8, 5: 4}.get(kind, end)


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    return 0, end  # cut off, or no number


@cache
def _fields(schema: StructSchema) -> _Inside:
    table: _Inside = {}
    for field in schema.fields:
        if field.number:
            _holder(table, field)[field.number] = _inside(field.type)
    return table


def _holder(table: _Inside, field: FieldSchema) -> _Inside:
    for number in field.inside:
        table = table.setdefault(number, {})
    return table


def _inside(kind: TypeSchema) -> Any:
    if isinstance(kind, StructSchema):
        return lambda: _fields(kind)  # a schema may hold itself
    if isinstance(kind, MapSchema):
        return {2: _inside(kind.value)}
    if isinstance(kind, ListSchema):
        return {1: None} if kind.wrapped else _inside(kind.item)
    return {1: _JSON} if isinstance(kind, ScalarSchema) and kind.kind == "json" else None
