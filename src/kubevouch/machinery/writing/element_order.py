"""The lists of a strategic merge patch: which items are the same, and in which order they end up.

Source: k8s.io/apimachinery/pkg/util/strategicpatch/patch.go (Kubernetes 1.36), where the same work is done by nested
loops; here keys go through dicts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubevouch.machinery import errors
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.text import gotext

Identity = tuple[str, Any]
Map = dict[str, Any]


def _no_merge_key(item: Map, key: str) -> APIStatusError:
    return errors.untyped(f"map: {gotext.go_value(item)} does not contain declared merge key: {key}")


def bad_type(expected: str, actual: object) -> APIStatusError:
    return errors.untyped(f"expected a {expected}, but received a {gotext.go_type(actual)}")


def identity(value: Any) -> Identity:
    """What makes two scalars equal in Go: type and value.

    Raises:
        APIStatusError: a map or list, on which the real server panics.
    """
    if isinstance(value, (dict, list)):
        raise errors.untyped(f"runtime error: hash of unhashable type {gotext.go_type(value)}")
    return (gotext.go_type(value), value)


def key_of(item: Map, merge_key: str) -> Identity:
    if merge_key not in item:
        raise _no_merge_key(item, merge_key)
    return identity(item[merge_key])


def _kind_of(value: Any) -> type:
    return dict if isinstance(value, dict) else type(value) if not isinstance(value, float) else float


def element_kind(*lists: list[Any]) -> type:
    """The one type of all elements.

    Raises:
        APIStatusError: there are none, they differ, or they are lists themselves (422).
    """
    found: type | None = None
    for item in (item for each in lists for item in each):
        kind = _kind_of(item)
        if kind is list and found is None:
            raise errors.unprocessable()
        if kind is type(None) or (found is not None and kind is not found):
            raise errors.untyped(f"list element types are not identical: {gotext.go_value(list(lists))}")
        found = kind
    if found is None:
        raise errors.untyped("no elements in any of the given slices")
    return found


def partition(merged: list[Any], named_by: list[Any], merge_key: str) -> tuple[list[Any], list[Any]]:
    """The items that ``named_by`` names, and the others."""
    if not merge_key:
        names = {identity(item) for item in named_by}
        identities = [identity(item) for item in merged]
    else:
        for position, item in enumerate(named_by):
            if merged and not isinstance(item, dict):
                raise errors.untyped(f"value for key {position} is not a map.")
        for item in merged:
            if not isinstance(item, dict):
                raise bad_type("map[string]interface {}", item)
        names = {identity(item[merge_key]) for item in named_by if merge_key in item} if merged else set()
        identities = [key_of(item, merge_key) for item in merged]
    pairs = list(zip(identities, merged, strict=True))
    return [item for key, item in pairs if key in names], [item for key, item in pairs if key not in names]


def in_order(
    named: list[Any], others: list[Any], order: list[Any], server_order: list[Any], merge_key: str | None
) -> list[Any]:
    """``named`` by ``order``, ``others`` by ``server_order``, interleaved; where nothing decides, ``named`` first."""
    if merge_key is not None:
        for item in (*named, *order, *others, *server_order):
            if not isinstance(item, dict):
                raise bad_type("map[string]interface {}", item)
            key_of(item, merge_key)
    places = _places(server_order, merge_key)
    left, right = _sorted(others, places, merge_key), _sorted(named, _places(order, merge_key), merge_key)
    result: list[Any] = []
    i = j = 0
    while i < len(left) and j < len(right):
        place = places.get(_element_identity(left[i], merge_key))
        other = places.get(_element_identity(right[j], merge_key))
        if place is not None and other is not None and place < other:
            result.append(left[i])
            i += 1
        else:
            result.append(right[j])
            j += 1
    return result + left[i:] + right[j:]


def _element_identity(item: Any, merge_key: str | None) -> Identity:
    return identity(item[merge_key] if merge_key is not None else item)


def _places(items: Iterable[Any], merge_key: str | None) -> dict[Identity, int]:
    places: dict[Identity, int] = {}
    for place, item in enumerate(items):
        places.setdefault(_element_identity(item, merge_key), place)
    return places


_EXACT_LENGTH = 20  # up to it Go sorts by insertion


def _sorted(items: list[Any], places: dict[Identity, int], merge_key: str | None) -> list[Any]:
    """By place. An item without one goes before everything in front of it, as Go's sort leaves it."""
    placed = [(places.get(_element_identity(item, merge_key), -1), item) for item in items]
    if len(placed) > _EXACT_LENGTH or all(place >= 0 for place, _ in placed):
        return [item for _, item in sorted(placed, key=_place_of)]
    result: list[tuple[int, Any]] = []
    for place, item in placed:
        at = len(result)
        while at and (place < 0 or result[at - 1][0] < 0 or place < result[at - 1][0]):
            at -= 1
        result.insert(at, (place, item))
    return [item for _, item in result]


def _place_of(placed: tuple[int, Any]) -> int:
    return placed[0]
