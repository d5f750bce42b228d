"""Reading from a cache as one would from the server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from kubevouch.client.cache.indexer import Indexer
from kubevouch.machinery.meta import Object

T = TypeVar("T", bound=Object)

NAMESPACE_INDEX = "namespace"


class Lister(Generic[T]):
    """A read-only view. What it gives may be behind the server, and never ahead of it."""

    def __init__(self, indexer: Indexer[T]) -> None:
        """``indexer`` has to have the index ``NAMESPACE_INDEX``."""
        self._indexer = indexer

    def get(self, name: str, namespace: str = "") -> T | None:
        return self._indexer.get(f"{namespace}/{name}" if namespace else name)

    def list(self, namespace: str = "", matches: Callable[[T], bool] | None = None) -> list[T]:
        """The objects of a namespace, or of all; those for which ``matches`` holds."""
        found = self._indexer.by_index(NAMESPACE_INDEX, namespace) if namespace else self._indexer.values()
        return [obj for obj in found if matches(obj)] if matches is not None else found

    def by_index(self, index: str, value: str) -> Sequence[T]:
        return self._indexer.by_index(index, value)
