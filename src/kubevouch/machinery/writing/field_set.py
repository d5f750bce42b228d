"""Sets of field paths, in the form in which managedFields hold them (FieldsV1).

    FieldSetError (ValueError)    the bytes are no FieldsV1

A set is a tree of dicts whose keys are path elements as FieldsV1 writes them: ``f:<field>``, ``k:{"type":"Ready"}`` for
the item of a list with keys, ``v:"x"`` for the item of a set, ``i:0`` for a place. An element without children is a
member; one with children is a member if it has ``"."`` besides. Sets are shared and never changed once they are made.

Sources: sigs.k8s.io/structured-merge-diff/v6 fieldpath (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, cast

import msgspec

from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.text import gotext

SELF = "."
# The tree itself: plain dicts, because every write of every object goes through these functions.
FieldSet = dict[str, Any]
EMPTY: FieldSet = {}
_MEMBER: FieldSet = {}

MAX_DEPTH = 200  # deeper than any declared type; keeps the recursion here far from Python's limit


class FieldSetError(ValueError):
    """The bytes are no FieldsV1."""


# ------------------------------------------------------------------ path elements


# What is cached here comes from clients, so each cache has a bound for its entries and one for an entry's size.
_CACHED_TEXT = 256
_CACHED_FIELDS = 8192


def field_element(name: str) -> str:
    return f"f:{name}"


def key_element(names: tuple[str, ...], values: tuple[Any, ...]) -> str:
    """The item of a keyed list, by the names and the values of its keys."""
    if len(values) == 1 and type(values[0]) is str and len(values[0]) <= _CACHED_TEXT:
        return _text_key_element(names[0], values[0])
    return _key_element(names, values)


def _key_element(names: tuple[str, ...], values: tuple[Any, ...]) -> str:
    return "k:" + json_codec.encode(dict(zip(names, values, strict=True))).decode()


@lru_cache(maxsize=4096)
def _text_key_element(name: str, value: str) -> str:
    return _key_element((name,), (value,))


def value_element(value: Any) -> str:
    """The item of a set."""
    return f"v:{json_codec.encode(value).decode()}"


def _parse_element(text: str) -> str | None:
    """``text`` in canonical form; None for a kind of element that a later version may know."""
    head, rest = text[:2], text[2:]
    if head == "f:":
        return text
    if len(text) < 2 or head[1] != ":":
        raise FieldSetError(f"missing colon: {text}")
    if head[0] in "kv":
        try:
            value = msgspec.json.decode(rest)
        except (msgspec.DecodeError, ValueError, RecursionError) as err:
            raise FieldSetError(f"bad path element {text}: {err}") from err
        if head == "v:":
            return value_element(value)
        if not isinstance(value, dict):
            raise FieldSetError(f"bad path element {text}: expected an object")
        return "k:" + json_codec.encode(value).decode()
    if head == "i:":
        if not rest.lstrip("-").isascii() or not rest.lstrip("-").isdigit() or len(rest) > 19:
            raise FieldSetError(f"bad path element {text}: expected a number")
        return f"i:{int(rest)}"
    return None


_RANKS = {"f": 0, "k": 1, "v": 2, "i": 3}


def _order(element: str) -> tuple[Any, ...]:
    """Sorts elements as Kubernetes does: fields, keys, values, indices; numbers by size, before texts."""
    kind, text = element[0], element[2:]
    if kind == "f":
        return (0, text)
    return _cached_order(element) if len(element) <= _CACHED_TEXT else _value_element_order(element)


@lru_cache(maxsize=4096)
def _cached_order(element: str) -> tuple[Any, ...]:
    return _value_element_order(element)


def _value_element_order(element: str) -> tuple[Any, ...]:
    kind, text = element[0], element[2:]
    value = msgspec.json.decode(text)
    if kind == "k":
        return (1, *((name, _value_order(item)) for name, item in value.items()))
    return (_RANKS[kind], _value_order(value))


def _value_order(value: Any) -> tuple[int, Any]:
    if isinstance(value, bool):
        return (2, value)
    if isinstance(value, (int, float)):
        return (0, value)
    if isinstance(value, str):
        return (1, value)
    # Lists, objects and null cannot be keys of our types; any fixed order will do.
    return (3, json_codec.encode(value))


def element_text(element: str) -> str:
    """A path element for people: ``.spec``, ``[type="Ready"]``, ``[="x"]``, ``[0]``."""
    kind, text = element[0], element[2:]
    if kind == "f":
        return f".{text}"
    if kind == "i":
        return f"[{text}]"
    value = msgspec.json.decode(text)
    if kind == "v":
        return f"[={_value_text(value)}]"
    return f"[{','.join(f'{name}={_value_text(item)}' for name, item in value.items())}]"


def _value_text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return gotext.quote(value)
    if isinstance(value, list):
        return f"[{','.join(map(_value_text, value))}]"
    if isinstance(value, dict):
        return "".join(f"{name}={_value_text(item)}" for name, item in value.items())
    return gotext.go_value(value)


# ------------------------------------------------------------------ FieldsV1


def from_fields_v1(raw: bytes) -> FieldSet:
    """The set that FieldsV1 bytes hold; ``null`` and ``{}`` are the empty set.

    Raises:
        FieldSetError: not JSON, not objects all the way down, or a path element that cannot be read.
    """
    return _cached_set(raw) if len(raw) <= _CACHED_FIELDS else _read_set(raw)


@lru_cache(maxsize=2048)
def _cached_set(raw: bytes) -> FieldSet:
    return _read_set(raw)


def _read_set(raw: bytes) -> FieldSet:
    try:
        tree = msgspec.json.decode(raw)
    except (msgspec.DecodeError, ValueError, RecursionError) as err:
        raise FieldSetError(str(err)) from err
    # The object as a whole is nobody's: a "." at the top means nothing.
    return EMPTY if tree is None else _children(_canonical(tree, 0))


def _canonical(tree: Any, depth: int) -> FieldSet:
    if not isinstance(tree, dict) or depth > MAX_DEPTH:
        raise FieldSetError(f"expected an object at depth {depth}")
    result: FieldSet = {}
    for key, below in tree.items():
        element = SELF if key == SELF else _parse_element(key)
        if element is not None:
            result[element] = _canonical(below, depth + 1) if element != SELF else _MEMBER
    # A "." alone says no more than nothing at all.
    return result if len(result) != 1 or SELF not in result else _MEMBER


def to_fields_v1(fields: FieldSet) -> bytes:
    """Canonical FieldsV1, in Kubernetes' order."""
    return json_codec.encode_in_order(_sorted(fields))


def _sorted(fields: FieldSet) -> FieldSet:
    if len(fields) < 2:
        return {element: _sorted(below) for element, below in fields.items()}
    result: FieldSet = {SELF: _MEMBER} if SELF in fields else {}
    for element in sorted((element for element in fields if element != SELF), key=_order):
        result[element] = _sorted(fields[element])
    return result


# ------------------------------------------------------------------ algebra


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    if not left or left is right:
        return right
    if not right:
        return left
    result = dict(left)
    for element, below in right.items():
        mine = result.get(element)
        if mine is None or mine is below:
            result[element] = below
        elif not mine:
            result[element] = below if not below or SELF in below else {SELF: _MEMBER, **below}
        elif not below:
            result[element] = mine if SELF in mine else {SELF: _MEMBER, **mine}
        else:
            result[element] = union(mine, below)
    return result


def _joined(member: bool, children: FieldSet) -> FieldSet | None:
    """An element's node, None if neither it nor anything below it is a member."""
    if not children:
        return _MEMBER if member else None
    if member:
        return {SELF: _MEMBER, **children}
    return children


def _children(node: FieldSet) -> FieldSet:
    return {element: below for element, below in node.items() if element != SELF} if SELF in node else node


def _is_member(node: FieldSet) -> bool:
    return not node or SELF in node


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """The members of ``left`` that are none of ``right``; what lies below them is not touched."""
    if not left or not right:
        return left
    result: FieldSet = {}
    for element, mine in left.items():
        other = right.get(element)
        if other is None:
            result[element] = mine
            continue
        node = _joined(_is_member(mine) and not _is_member(other), difference(_children(mine), _children(other)))
        if node is not None:
            result[element] = node
    return result


def without(left: FieldSet, right: FieldSet) -> FieldSet:
    """The members of ``left`` that are neither members of ``right`` nor below one (RecursiveDifference)."""
    if not left or not right:
        return left
    result: FieldSet = {}
    for element, mine in left.items():
        other = right.get(element)
        if other is None:
            result[element] = mine
        elif not _is_member(other):
            node = _joined(_is_member(mine), without(_children(mine), other))
            if node is not None:
                result[element] = node
    return result


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    result: FieldSet = {}
    for element, mine in left.items():
        other = right.get(element)
        if other is None:
            continue
        node = _joined(_is_member(mine) and _is_member(other), intersection(_children(mine), _children(other)))
        if node is not None:
            result[element] = node
    return result


def of_paths(*paths: tuple[str, ...]) -> FieldSet:
    """The set of the given paths of plain fields: ``("spec",), ("status", "certificate")``."""
    result: FieldSet = {}
    for path in paths:
        node: FieldSet = {}
        for name in reversed(path):
            node = {field_element(name): node}
        result = union(result, node)
    return result


def has(fields: FieldSet, path: tuple[str, ...]) -> bool:
    """Whether the path, made of elements, is a member."""
    node = fields
    for element in path:
        if element not in node:
            return False
        node = cast("FieldSet", node[element])
    return bool(path) and _is_member(node)


def paths(fields: FieldSet) -> Iterator[tuple[str, ...]]:
    """The members' paths as elements: those of one level in order, then those below them."""
    yield from _paths(_sorted(fields), ())


def _paths(fields: FieldSet, prefix: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for element, below in fields.items():
        if element != SELF and _is_member(below):
            yield (*prefix, element)
    for element, below in fields.items():
        if element != SELF and below:
            yield from _paths(_children(below), (*prefix, element))


def path_text(path: tuple[str, ...]) -> str:
    """A path for people: ``.status.conditions[type="Ready"].status``."""
    return "".join(map(element_text, path))
