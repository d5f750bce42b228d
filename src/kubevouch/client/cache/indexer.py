"""Objects by key and by what else they are looked up by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from kubevouch.machinery.meta import Object

T = TypeVar("T", bound=Object)

IndexFunction = Callable[[T], Iterable[str]]
"""The values under which an object is found."""


def object_key(obj: Object) -> str:
    """``namespace/name``, or the name alone: the key of caches and work queues."""
    metadata = obj.metadata
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name


def split_key(key: str) -> tuple[str, str]:
    """Namespace and name of an :func:`object_key`."""
    namespace, slash, name = key.partition("/")
    return (namespace, name) if slash else ("", key)


def by_namespace(obj: Object) -> Iterable[str]:
    """The index function of namespaces."""
    return (obj.metadata.namespace,)


class Indexer(Generic[T]):
    """A cache's objects. They are frozen and shared: whoever gets one must not change what it holds."""

    def __init__(self, indexes: Mapping[str, IndexFunction[T]] | None = None) -> None:
        self._functions = dict(indexes or {})
        self._objects: dict[str, T] = {}
        self._indexes: dict[str, dict[str, dict[str, T]]] = {name: {} for name in self._functions}

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, key: str) -> T | None:
        return self._objects.get(key)

    def keys(self) -> list[str]:
        return list(self._objects)

    def values(self) -> list[T]:
        return list(self._objects.values())

    def by_index(self, index: str, value: str) -> list[T]:
        """The objects found under ``value``. Raises ``KeyError`` for an index that there is not."""
        return list(self._indexes[index].get(value, {}).values())

    def add_index(self, name: str, function: IndexFunction[T]) -> None:
        """Another index, over what is there already, too."""
        if name in self._functions:
            raise ValueError(f"there is an index {name!r} already")
        self._functions[name] = function
        self._indexes[name] = {}
        for key, obj in self._objects.items():
            for value in function(obj):
                self._indexes[name].setdefault(value, {})[key] = obj

    def put(self, obj: T) -> T | None:
        """Add or replace; the object that was there before."""
        key = object_key(obj)
        former = self._objects.get(key)
        self._objects[key] = obj
        for name, function in self._functions.items():
            index = self._indexes[name]
            values = tuple(function(obj))
            # Mostly it is still found where it was.
            if former is not None and (before := tuple(function(former))) != values:
                _take_out(index, before, key)
            for value in values:
                index.setdefault(value, {})[key] = obj
        return former

    def remove(self, key: str) -> T | None:
        """Take out; the object that was there."""
        former = self._objects.pop(key, None)
        if former is None:
            return None
        for name, function in self._functions.items():
            _take_out(self._indexes[name], function(former), key)
        return former


def _take_out(index: dict[str, dict[str, T]], values: Iterable[str], key: str) -> None:
    for value in values:
        found = index.get(value)
        if found is not None:
            found.pop(key, None)
            if not found:
                del index[value]
