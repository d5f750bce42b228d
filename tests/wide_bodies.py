"""Bodies near the bounds, made from the declarations: every list and every map of a kind, as long as it may be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from kubevouch.machinery.codec import elements
from kubevouch.machinery.schema import ListSchema, MapSchema, ScalarSchema, StructSchema, TypeSchema

Tree = dict[str, Any]
Path = tuple[str, ...]

# A little below the bound: names and what the server adds count too.
MOST = elements.MAX_ELEMENTS - 200
MAX_DEPTH = 12

# What passes validation where a made-up text would not; {} is a number.
_TEXTS = {
    "finalizers": "example.com/f{}", "operation": "Update", "fieldsType": "FieldsV1", "apiVersion": "v1", "kind": "A",
}  # fmt: skip
_NEVER = frozenset({"creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink"})
_SCALARS: dict[str, Any] = {
    "bytes": "YWFh", "bool": False, "int32": 1, "int64": 1, "time": "2026-01-01T00:00:00Z",
    "microtime": "2026-01-01T00:00:00.000000Z", "quantity": "1", "json": {"f:data": {}}, "intorstring": 1,
}  # fmt: skip


def wide_paths(schema: StructSchema) -> Iterator[Path]:
    """The paths of all fields that hold as many values as a client likes; items of lists stand for themselves."""
    yield from _paths(schema, (), ())


def _paths(kind: TypeSchema, path: Path, around: tuple[TypeSchema, ...]) -> Iterator[Path]:
    if kind in around or len(path) > MAX_DEPTH:
        return  # a schema that holds itself
    around = (*around, kind)
    if isinstance(kind, StructSchema):
        for field in kind.fields:
            if field.name not in ("kind", "apiVersion") or path:
                yield from _paths(field.type, (*path, field.name), around)
    elif isinstance(kind, ListSchema):
        yield path
        yield from _paths(kind.item, (*path, "[]"), around)
    elif isinstance(kind, MapSchema):
        yield path
        yield from _paths(kind.value, (*path, "{}"), around)


def wide_tree(schema: StructSchema, path: Path, name: str, most: int = MOST) -> Tree:
    """The JSON of an object whose field at ``path`` is as long as may be; all else is as small as may be."""
    tree = _along(schema, path, most, "")
    assert isinstance(tree, dict)  # of a struct
    if "metadata" in schema.by_name:
        tree["metadata"] = {**tree.get("metadata", {}), "name": name}
    return tree


def _along(kind: TypeSchema, path: Path, most: int, name: str) -> Any:
    if not path:
        return _filled(kind, most, name)
    step, rest = path[0], path[1:]
    if step == "[]":
        assert isinstance(kind, ListSchema)
        return [_along(kind.item, rest, most, name)]
    if step == "{}":
        assert isinstance(kind, MapSchema)
        return {"a": _along(kind.value, rest, most, name)}
    assert isinstance(kind, StructSchema)
    field = kind.by_name[step]
    value = _along(field.type, rest, most, step)
    siblings = _required(kind, but=step) if rest[:1] or not path[1:] else {}
    return {**siblings, step: value}


def _required(schema: StructSchema, but: str = "") -> Tree:
    return {field.name: _value(field.type, 0, field.name) for field in schema.fields
            if field.name != but and field.required and isinstance(field.type, ScalarSchema)}  # fmt: skip


def _filled(kind: TypeSchema, most: int, name: str) -> Any:
    """A list or map with so many elements in all."""
    item = kind.item if isinstance(kind, ListSchema) else kind.value if isinstance(kind, MapSchema) else None
    assert item is not None
    size = _size(_value(item, 0, name))
    count = max(most // size, 1)
    if isinstance(kind, ListSchema):
        return [_value(item, number, name) for number in range(count)]
    return {f"k{number}": _value(item, number, name) for number in range(count)}


def _size(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(_size, value.values()))
    return 1 + sum(map(_size, value)) if isinstance(value, list) else 1


def _value(kind: TypeSchema, number: int, name: str, depth: int = 0) -> Any:
    """A small value; no two numbers give the same one where a text can differ."""
    if isinstance(kind, ScalarSchema):
        if kind.kind != "string":
            return _SCALARS[kind.kind]
        return _TEXTS.get(name, "a{}").format(number)
    if isinstance(kind, ListSchema):
        return [_value(kind.item, number, name, depth + 1)] if depth < 2 else []
    if isinstance(kind, MapSchema):
        return {"a": _value(kind.value, number, name, depth + 1)} if depth < 2 else {}
    return {field.name: _value(field.type, number, field.name, depth + 1) for field in kind.fields
            if isinstance(field.type, ScalarSchema) or (field.required and depth < 3)}  # fmt: skip


def whole(schema: StructSchema, name: str) -> Tree:
    """All of these fields at once, each with its part of what one body may have."""
    paths = [path for path in wide_paths(schema) if not set(path) & _NEVER]
    tree: Tree = {}
    for path in paths:
        tree = _merged(tree, wide_tree(schema, path, name, max(MOST // len(paths), 20)))
    return tree


def _merged(one: Any, other: Any) -> Any:
    if isinstance(one, dict) and isinstance(other, dict):
        keys = dict.fromkeys((*one, *other))
        return {key: _merged(one[key], other[key]) if key in one and key in other else one.get(key, other.get(key))
                for key in keys}  # fmt: skip
    if isinstance(one, list) and isinstance(other, list):
        return one if len(one) >= len(other) else other
    return one


def as_json(tree: Tree, kind: str, api_version: str) -> bytes:
    return json.dumps({"kind": kind, "apiVersion": api_version, **tree}, separators=(",", ":")).encode()
