"""Answers that are good for a while."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from kubevouch.util.clock import Clock

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ExpiringCache(Generic[K, V]):
    """At most ``size`` entries, each for as long as it was put in; the least recently used go first."""

    def __init__(self, size: int, clock: Clock) -> None:
        self._size = size
        self._clock = clock
        self._entries: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """What was put in under ``key``, or None when it is gone."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        ends, value = entry
        if self._clock.monotonic() >= ends:
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return value

    def put(self, key: K, value: V, seconds: float) -> None:
        """Keep ``value`` for ``seconds``; zero or less keeps nothing."""
        if seconds <= 0:
            return
        self._entries[key] = (self._clock.monotonic() + seconds, value)
        self._entries.move_to_end(key)
        if len(self._entries) > self._size:
            self._entries.popitem(last=False)
