"""The cache of one resource: newest state, recent history, watchers."""

from __future__ import annotations

import asyncio
import bisect
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, Literal, TypeVar

import msgspec

from kubevouch.machinery.meta import Object
from kubevouch.storage.interface import Compacted, Revision
from kubevouch.storage.watchcache.budgets import Budgets
from kubevouch.storage.watchcache.history import HISTORY, History
from kubevouch.storage.watchcache.objects import CacheEvent, Stored, Unreadable

T = TypeVar("T", bound=Object)

# Steps (see Scope.cost) that watchers may cost before others have their turn: 2 to 5 ms.
OFFERED_AT_ONCE = 2000
WOKEN_AT_ONCE = 200  # watchers; each then writes for 40 to 80 µs
# So many objects are fetched at once for a scan that has to last; for more of them, the whole table is copied.
FEW = 2000
# A client this far behind, or behind what the history holds, is cut off and starts again from a list, as
# kube-apiserver does. So what waits for clients is no more than the history.
MAX_BACKLOG = 10_000
# Stored bytes of the changes that a watcher is handed at once: they are encoded together, and wait to be sent.
BATCH_BYTES = 256 << 10

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]
Filter = Callable[[Stored[T]], bool]


class Change(msgspec.Struct, Generic[T], frozen=True):
    """An event as one watcher sees it through its selector.

    It does not know its event, which may keep it for other watchers: both would stay until a collection of cycles, with
    the values that they hold.
    """

    type: ChangeType
    stored: Stored[T]
    revision: Revision


class Scope(msgspec.Struct, Generic[T], frozen=True):
    """What a list or watch looks at.

    Args:
        prefix: keys must begin with it.
        key: the one key wanted, or empty: watches of one object cost nothing to the events of others.
        matches: the selectors, or None; ``name`` makes their verdict shared between watchers with the same text.
        cost: of asking about one object, in steps of about a microsecond.
    """

    prefix: str
    key: str = ""
    matches: Filter[T] | None = None
    name: str = ""
    cost: int = 1

    def covers(self, stored: Stored[T]) -> bool:
        if self.key:
            if stored.key != self.key:
                return False
        elif not stored.key.startswith(self.prefix):
            return False
        return self.matches is None or self.matches(stored)


class WatchClosed(Exception):
    """The watcher was cut off: it fell behind, or the server is stopping."""


class Watcher(Generic[T]):
    """One client's queue of changes. ``next_batch`` hands them out, ``BATCH_BYTES`` at once."""

    __slots__ = ("_after", "_cache", "_closed", "_poked", "_queue", "_wakeup", "scope")

    def __init__(self, cache: ResourceCache[T], scope: Scope[T], after: Revision) -> None:
        self._cache = cache
        self._after = after
        self._poked = False
        self.scope = scope
        self._queue: deque[Change[T]] = deque()
        self._wakeup: asyncio.Future[None] | None = None
        self._closed = False

    def offer(self, change: Change[T]) -> None:
        """Queue ``change``; :meth:`wake` has to follow."""
        if self._closed or change.revision <= self._after:
            return
        if len(self._queue) >= MAX_BACKLOG:
            self.close()
            return
        self._queue.append(change)

    def wake(self) -> None:
        """Let ``next_batch`` return what is queued."""
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(None)

    def poke(self) -> None:
        """Let ``next_batch`` return although nothing changed: time for a bookmark, or to end."""
        self._poked = True
        self.wake()

    async def next_batch(self) -> list[Change[T]]:
        """The changes that came since the last call; waits for one or for a poke.

        Raises:
            WatchClosed: there will be no more.
        """
        while not self._queue and not self._poked:
            if self._closed:
                raise WatchClosed
            self._wakeup = asyncio.get_running_loop().create_future()
            await self._wakeup
        self._poked = False
        batch: list[Change[T]] = []
        size = 0
        while self._queue and size < BATCH_BYTES:
            change = self._queue.popleft()
            size += len(change.stored.raw)
            batch.append(change)
        return batch

    def is_behind(self, floor: Revision) -> bool:
        """Whether something is queued that the history has forgotten."""
        return bool(self._queue) and self._queue[0].revision <= floor

    def close(self) -> None:
        """Forget what is queued and end ``next_batch``."""
        if not self._closed:
            self._closed = True
            self._queue.clear()
            self._cache.forget(self)
            self.wake()


class ResourceCache(Generic[T]):
    """Objects of one resource by key, in key order, with the events that led here."""

    def __init__(self, prefix: str, history: int = HISTORY, budgets: Budgets | None = None) -> None:
        self.prefix = prefix
        self.history: History[T] = History(history, budgets or Budgets(), self._cut_off_who_is_behind)
        self.object_bytes = 0
        """Stored bytes of the current objects."""
        self.unreadable: dict[str, Unreadable] = {}
        """Values of which no object can be made, by key; what was there before stays among the objects."""
        self._objects: dict[str, Stored[T]] = {}
        self._keys: list[str] = []
        self._watchers: set[Watcher[T]] = set()
        self._watchers_by_key: dict[str, set[Watcher[T]]] = {}
        self._handlers: list[Callable[[CacheEvent[T]], None]] = []
        self._load_handlers: list[Callable[[], None]] = []

    # -------------------------------------------------------------- state

    def load(
        self, objects: list[Stored[T]], revision: Revision, unreadable: Mapping[str, Unreadable] | None = None
    ) -> None:
        """Start from ``objects``, which are in key order, as they were at ``revision``."""
        self.unreadable = dict(unreadable or {})
        for stored in self._objects.values():
            stored.drop_encodings()
        self._objects = {stored.key: stored for stored in objects}
        self._keys = [stored.key for stored in objects]
        self.object_bytes = sum(len(stored.raw) for stored in objects)
        self.history.start(revision)
        for handler in self._load_handlers:
            handler()

    def get(self, key: str) -> Stored[T] | None:
        return self._objects.get(key)

    def __len__(self) -> int:
        return len(self._objects)

    def values(self) -> Iterator[Stored[T]]:
        """All objects in no particular order."""
        return iter(list(self._objects.values()))

    def on_event(self, handler: Callable[[CacheEvent[T]], None]) -> None:
        """Call ``handler`` in the loop for each event, before any watcher hears of it."""
        self._handlers.append(handler)

    def on_load(self, handler: Callable[[], None]) -> None:
        """Call ``handler`` whenever the whole state was replaced without events."""
        self._load_handlers.append(handler)

    def scan(self, prefix: str, start: str = "", *, lasting: bool = False) -> Iterator[Stored[T]]:
        """The objects under ``prefix`` with keys from ``start`` on, in key order.

        Args:
            lasting: the iterator may be used after the next write, and still shows the state as it is now.
        """
        at, end = self._range(prefix, start)
        if lasting and end - at > FEW:
            return map(self._objects.copy().__getitem__, self._keys[at:end])
        if lasting:
            return iter([self._objects[key] for key in self._keys[at:end]])
        return map(self._objects.__getitem__, map(self._keys.__getitem__, range(at, end)))

    def _range(self, prefix: str, start: str) -> tuple[int, int]:
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        return bisect.bisect_left(self._keys, max(prefix, start)), bisect.bisect_left(self._keys, end)

    def count(self, prefix: str, start: str = "", revision: Revision | None = None) -> int:
        """How many keys begin with ``prefix`` and are not below ``start``, now or right after ``revision``."""
        at, end = self._range(prefix, start)
        total = max(end - at, 0)
        if revision is not None:
            lowest = max(prefix, start)
            for key, earlier in self._before(revision).items():
                if key.startswith(prefix) and key >= lowest:
                    total += (earlier is not None) - (key in self._objects)
        return total

    def _before(self, revision: Revision) -> dict[str, Stored[T] | None]:
        """What the keys that changed after ``revision`` held then."""
        before: dict[str, Stored[T] | None] = {}
        for event in self.history.newest_first(revision):
            before[event.key] = event.previous
        return before

    def scan_at(
        self, revision: Revision, prefix: str, start: str = "", *, lasting: bool = False
    ) -> Iterator[Stored[T]]:
        """As ``scan``, but the state right after ``revision``, rebuilt by undoing newer events.

        Raises:
            Compacted: the history does not reach back so far.
        """
        if revision < self.oldest:
            raise Compacted(revision, self.oldest)
        before = self._before(revision)
        now = self.scan(prefix, start, lasting=lasting)
        if not before:
            return now
        lowest = max(prefix, start)
        changed = {key: before[key] for key in sorted(before) if key.startswith(prefix) and key >= lowest}
        return _undone(now, changed) if changed else now

    # -------------------------------------------------------------- events

    def apply(self, event: CacheEvent[T]) -> None:
        """Take over one write and tell whoever watches, at once. Events come in order of their revision."""
        for _ in self.applying(event):
            pass

    def applying(self, event: CacheEvent[T]) -> Iterator[None]:
        """As :meth:`apply`, in slices: five thousand watchers with selectors of their own are not asked in one go.

        Who begins to watch between two slices hears of the event from the history.
        """
        key = event.key
        if event.previous is not None:
            self.object_bytes -= len(event.previous.raw)
        if event.current is not None:
            self.object_bytes += len(event.current.raw)
            if key not in self._objects:
                bisect.insort(self._keys, key)
            self._objects[key] = event.current
        elif key in self._objects:
            del self._objects[key]
            at = bisect.bisect_left(self._keys, key)
            del self._keys[at]
        self.history.append(event)
        for handler in self._handlers:
            handler(event)
        heard: list[Watcher[T]] = []
        steps = 0
        for watcher in (*self._watchers_by_key.get(key, ()), *self._watchers):
            steps += watcher.scope.cost
            if steps > OFFERED_AT_ONCE:
                yield
                steps = watcher.scope.cost
            if self._offer(watcher, event):
                heard.append(watcher)
        _wake(heard)

    def _offer(self, watcher: Watcher[T], event: CacheEvent[T]) -> bool:
        change = self._change(watcher.scope, event)
        if change is not None:
            watcher.offer(change)
        return change is not None

    def _change(self, scope: Scope[T], event: CacheEvent[T]) -> Change[T] | None:
        """The event through a selector: what starts to match is added, what stops is deleted."""
        if scope.name or scope.matches is None:
            shared: Change[T] | None = event.once(
                ("change", scope.prefix, scope.key, scope.name), lambda: self._judge(scope, event)
            )
            return shared
        return self._judge(scope, event)

    @staticmethod
    def _judge(scope: Scope[T], event: CacheEvent[T]) -> Change[T] | None:
        now = event.current is not None and scope.covers(event.current)
        before = event.previous is not None and scope.covers(event.previous)
        if now:
            assert event.current is not None  # implied by now
            return Change("MODIFIED" if before else "ADDED", event.current, event.revision)
        if before:
            return Change("DELETED", event.deleted, event.revision)
        return None

    # -------------------------------------------------------------- watchers

    def watch(self, scope: Scope[T], after: Revision) -> Watcher[T]:
        """A watcher that first gets the remembered events above ``after``.

        Raises:
            Compacted: events above ``after`` have been forgotten.
        """
        if after < self.oldest:
            raise Compacted(after, self.oldest)
        watcher = Watcher(self, scope, after)
        for event in self.history.after(after):
            self._offer(watcher, event)
        if scope.key:
            self._watchers_by_key.setdefault(scope.key, set()).add(watcher)
        else:
            self._watchers.add(watcher)
        return watcher

    def forget(self, watcher: Watcher[T]) -> None:
        """Stop telling ``watcher``."""
        self._watchers.discard(watcher)
        same_key = self._watchers_by_key.get(watcher.scope.key)
        if same_key is not None:
            same_key.discard(watcher)
            if not same_key:
                del self._watchers_by_key[watcher.scope.key]

    def close_watchers(self) -> None:
        """End every watch: the history has a gap, or the server stops."""
        for watcher in self._all_watchers():
            watcher.close()

    def _cut_off_who_is_behind(self) -> None:
        for watcher in self._all_watchers():
            if watcher.is_behind(self.oldest):
                watcher.close()

    def _all_watchers(self) -> list[Watcher[T]]:
        return [*self._watchers, *(watcher for same in self._watchers_by_key.values() for watcher in same)]

    @property
    def watcher_count(self) -> int:
        return len(self._watchers) + sum(len(same) for same in self._watchers_by_key.values())

    @property
    def oldest(self) -> Revision:
        """A watch may start after this revision, not before."""
        return self.history.floor


def _wake(watchers: list[Watcher[T]]) -> None:
    """A slice in each turn of the loop: thousands that write at once would keep all others waiting."""
    for watcher in watchers[:WOKEN_AT_ONCE]:
        watcher.wake()
    if len(watchers) > WOKEN_AT_ONCE:
        asyncio.get_running_loop().call_soon(_wake, watchers[WOKEN_AT_ONCE:])


def _undone(now: Iterator[Stored[T]], changed: dict[str, Stored[T] | None]) -> Iterator[Stored[T]]:
    """The objects of ``now`` with those of ``changed`` in their places; both in key order, None was not there."""
    keys = deque(changed)
    for stored in now:
        while keys and keys[0] < stored.key:
            if (gone := changed[keys.popleft()]) is not None:
                yield gone
        if keys and keys[0] == stored.key:
            if (earlier := changed[keys.popleft()]) is not None:
                yield earlier
        else:
            yield stored
    yield from (gone for key in keys if (gone := changed[key]) is not None)
