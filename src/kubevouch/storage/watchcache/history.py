"""The recent events of one resource."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from kubevouch.machinery.meta import Object
from kubevouch.storage.interface import Revision
from kubevouch.storage.watchcache.budgets import EVENT_BYTES, Budgets
from kubevouch.storage.watchcache.objects import CacheEvent

T = TypeVar("T", bound=Object)

# Enough for clients to resume after a reconnect and to page through consistently.
HISTORY = 10_000
# A superseded object stays decoded and encoded for so many events: until then every watch that keeps up has sent it.
DECODED_HISTORY = 500
# So much is forgotten before watchers are looked at that still have it in their queues.
FORGOTTEN_AT_ONCE = 1 << 20


class History(Generic[T]):
    """Events in the order of their revisions, as many as ``most`` and the budgets allow.

    An event costs the value that it superseded, which nothing else holds, and ``EVENT_BYTES``.

    Args:
        on_forgotten: called when ``FORGOTTEN_AT_ONCE`` bytes have gone since the last time.
    """

    def __init__(self, most: int, budgets: Budgets, on_forgotten: Callable[[], None]) -> None:
        self._most = most
        self._budgets = budgets
        self._on_forgotten = on_forgotten
        self._forgotten = 0
        self._events: deque[CacheEvent[T]] = deque()
        # The newest events, whose superseded objects are still decoded.
        self._decoded: deque[CacheEvent[T]] = deque()
        self.bytes = 0
        self.decoded_bytes = 0
        self.floor = Revision(0)
        """Every event above this revision is here."""
        budgets.join(self)

    def start(self, revision: Revision) -> None:
        """Empty, from ``revision`` on."""
        while self._decoded:
            self.shrink_oldest()
        self._count(-self.bytes, 0)
        self._events.clear()
        self.floor = revision

    def append(self, event: CacheEvent[T]) -> None:
        superseded = _superseded(event)
        self._events.append(event)
        self._decoded.append(event)
        self._count(superseded + EVENT_BYTES, superseded)
        if len(self._decoded) >= DECODED_HISTORY:
            self.shrink_oldest()
        if len(self._events) > self._most:
            self.forget_oldest()
        self._budgets.settle()

    def after(self, revision: Revision) -> list[CacheEvent[T]]:
        """The events above ``revision``."""
        found = list(self.newest_first(revision))
        found.reverse()
        return found

    def newest_first(self, revision: Revision) -> Iterator[CacheEvent[T]]:
        """The events above ``revision``, backwards."""
        for event in reversed(self._events):
            if event.revision <= revision:
                break
            yield event

    def forget_oldest(self) -> None:
        """Only where there is one."""
        if len(self._decoded) == len(self._events):
            self.shrink_oldest()
        event = self._events.popleft()
        self.floor = event.revision
        size = _superseded(event) + EVENT_BYTES
        self._count(-size, 0)
        self._forgotten += size
        if self._forgotten >= FORGOTTEN_AT_ONCE:
            self._forgotten = 0
            self._on_forgotten()

    def shrink_oldest(self) -> None:
        """Only where there is one."""
        event = self._decoded.popleft()
        self._count(0, -_superseded(event))
        event.shrink()

    def _count(self, size: int, decoded: int) -> None:
        self.bytes += size
        self.decoded_bytes += decoded
        self._budgets.history_bytes += size
        self._budgets.decoded_bytes += decoded


def _superseded(event: CacheEvent[T]) -> int:
    return len(event.previous.raw) if event.previous is not None else 0
