"""Which part of an object was which part of the one before, and whether it is what it was.

Source: k8s.io/apiserver/pkg/cel/common/{equality,maplist}.go (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from kubevouch.structural.equality import same
from kubevouch.structural.schema import Schema


def item_key(schema: Schema, item: Any) -> Hashable | None:
    """What identifies an item of a list that is a map; None for what is no item of one."""
    if not isinstance(item, dict):
        return None
    return tuple(_hashable(item.get(name)) for name in schema.map_keys)


def _hashable(value: Any) -> Hashable:
    # Python takes true for 1.
    return repr(value) if isinstance(value, (dict, list)) else (type(value) is bool, value)


def items_by_key(schema: Schema, items: Any) -> Mapping[Hashable, Any]:
    """The items of a list that is a map; empty for any other list."""
    if schema.list_type != "map" or not isinstance(items, list):
        return {}
    found: dict[Hashable, Any] = {}
    for item in items:
        key = item_key(schema, item)
        if key is not None:
            found.setdefault(key, item)
    return found


class Correlated:
    """A value, what it was before, and the schema of both."""

    __slots__ = ("_children", "_old_items", "_unchanged", "old", "schema", "value")

    def __init__(self, value: Any, old: Any, schema: Schema) -> None:
        self.value = value
        self.old = old
        self.schema = schema
        self._unchanged: bool | None = None
        self._old_items: Mapping[Hashable, Any] | None = None
        self._children: dict[str | int, Correlated | None] = {}

    def key(self, name: str) -> Correlated | None:
        """The member, if both have it and the schema knows it."""
        if name not in self._children:
            self._children[name] = self._key(name)
        return self._children[name]

    def _key(self, name: str) -> Correlated | None:
        if not isinstance(self.value, dict) or not isinstance(self.old, dict):
            return None
        below = self.schema.properties.get(name) or self.schema.values
        if below is None or name not in self.value or name not in self.old:
            return None
        return Correlated(self.value[name], self.old[name], below)

    def index(self, place: int) -> Correlated | None:
        """The item, if the list is a map and had one with the same keys."""
        if place not in self._children:
            self._children[place] = self._index(place)
        return self._children[place]

    def _index(self, place: int) -> Correlated | None:
        if self.schema.items is None or self.schema.list_type != "map":
            return None
        if not isinstance(self.value, list) or not isinstance(self.old, list):
            return None
        if self._old_items is None:
            self._old_items = items_by_key(self.schema, self.old)
        key = item_key(self.schema, self.value[place])
        if key is None or key not in self._old_items:
            return None
        return Correlated(self.value[place], self._old_items[key], self.schema.items)

    @property
    def unchanged(self) -> bool:
        """Whether it is what it was; the order of a list that is a map means nothing."""
        if self._unchanged is None:
            self._unchanged = self._is_unchanged()
        return self._unchanged

    def _is_unchanged(self) -> bool:
        value, old = self.value, self.old
        if isinstance(value, list) and isinstance(old, list) and self.schema.list_type == "map":
            return len(value) == len(old) and all(map(self._is_item_unchanged, range(len(value))))
        if isinstance(value, dict) and isinstance(old, dict):
            return value.keys() == old.keys() and all(self._is_member_unchanged(name) for name in value)
        return same(value, old)

    def _is_member_unchanged(self, name: str) -> bool:
        child = self.key(name)
        return same(self.value[name], self.old[name]) if child is None else child.unchanged

    def _is_item_unchanged(self, place: int) -> bool:
        child = self.index(place)
        return child is not None and child.unchanged


class Ratchet:
    """Where a walk over an object stands, and whether an error found there may stay.

    Args:
        current: what is there; None where it was not before, or cannot be told.
        nearest: the nearest part around it that was.
    """

    __slots__ = ("current", "nearest")

    def __init__(self, current: Correlated | None, nearest: Correlated | None = None) -> None:
        self.current = current
        self.nearest = nearest

    @property
    def keeps(self) -> bool:
        """Whether nothing changed here, so that what was wrong before may stay wrong."""
        about = self.current if self.current is not None else self.nearest
        return about is not None and about.unchanged

    def key(self, name: str) -> Ratchet:
        if self.current is None:
            return self
        if self.nearest is None and name in ("apiVersion", "kind"):
            # Old and new have been converted to the same.
            return Ratchet(None)
        return Ratchet(self.current.key(name), self.current)

    def index(self, place: int) -> Ratchet:
        return self if self.current is None else Ratchet(self.current.index(place), self.current)
