"""A store in memory: for tests, for trying things out, and as the plainest reading of what a store does."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping

import msgspec

from kubevouch.storage.expiry import Sweeper
from kubevouch.storage.feed import Feed, Stretch, Watcher
from kubevouch.storage.interface import (
    Compacted,
    FutureRevision,
    KeyValue,
    Page,
    Revision,
    StoreEvent,
    StoreUnavailable,
)
from kubevouch.storage.write import (
    FIRST_REVISION,
    Write,
    check_key,
    check_limit,
    check_text,
    check_value,
    expiry,
    prefix_end,
    refusal,
)
from kubevouch.util.clock import Clock, SystemClock


class Snapshot(msgspec.Struct, frozen=True):
    """All of a memory store at one moment. Cheap: values are shared, not copied."""

    current: Mapping[str, KeyValue]
    keys: tuple[str, ...]
    expires: Mapping[str, int]
    history: tuple[StoreEvent, ...]
    oldest: Revision


class MemoryStore:
    """A ``Store`` that forgets everything when the process ends.

    ``snapshot`` starts it as a copy of another one was: a test kit sets a server's store up once and starts each test
    from the copy.
    """

    def __init__(self, *, clock: Clock | None = None, snapshot: Snapshot | None = None) -> None:
        self._clock = clock if clock is not None else SystemClock()
        self._current: dict[str, KeyValue] = dict(snapshot.current) if snapshot else {}
        self._keys: list[str] = list(snapshot.keys) if snapshot else []
        self._expires: dict[str, int] = dict(snapshot.expires) if snapshot else {}
        # One event a revision without gaps: the event of revision r is at r - oldest - 1.
        self._history: list[StoreEvent] = list(snapshot.history) if snapshot else []
        self._oldest = snapshot.oldest if snapshot else FIRST_REVISION
        self._feed = Feed(Revision(self._oldest + len(self._history)), self._read_history)
        self._sweeper = Sweeper(self._clock, self._sweep)
        # The constructor may run before the loop does, so the first call starts the sweeper.
        self._inherited_expiry = min(self._expires.values(), default=None)

    async def get(self, key: str) -> KeyValue | None:
        check_key(key)
        self._expect_open()
        return self._current.get(key)

    async def list(self, prefix: str, *, start: str = "", limit: int = 0, revision: Revision | None = None) -> Page:
        check_text(prefix + start)
        check_limit(limit)
        self._expect_open()
        at = self._feed.revision if revision is None else revision
        self._expect_kept(at)
        if at == self._feed.revision:
            keys: list[str] | tuple[str, ...] = self._keys
            current: Mapping[str, KeyValue] = self._current
        else:
            current = self._state_at(at)
            keys = sorted(current)
        end = prefix_end(prefix)
        below = bisect_left(keys, max(prefix, start))
        above = len(keys) if end is None else bisect_left(keys, end)
        total = max(above - below, 0)
        wanted = min(limit, total) if limit else total
        items = [current[key] for key in keys[below : below + wanted]]
        return Page(items, at, wanted < total, total)

    async def create(self, key: str, value: bytes, *, ttl: float | None = None) -> Revision:
        check_key(key)
        check_value(key, value)
        return self._commit(Write(key, value, None, expiry(self._clock, ttl)))

    async def update(self, key: str, value: bytes, expected: Revision, *, ttl: float | None = None) -> Revision:
        check_key(key)
        check_value(key, value)
        return self._commit(Write(key, value, expected, expiry(self._clock, ttl)))

    async def delete(self, key: str, expected: Revision) -> Revision:
        check_key(key)
        return self._commit(Write(key, None, expected))

    def watch(self, prefix: str, after: Revision) -> Watcher:
        self._expect_open()
        return self._feed.watch(prefix, after)

    async def compact(self, revision: Revision) -> None:
        self._expect_open()
        if revision > self._feed.revision:
            raise FutureRevision(revision, self._feed.revision)
        if revision > self._oldest:
            del self._history[: revision - self._oldest]
            self._oldest = revision

    async def revision(self) -> Revision:
        self._expect_open()
        return self._feed.revision

    async def close(self) -> None:
        await self._sweeper.close()
        self._feed.close()

    def snapshot(self) -> Snapshot:
        """What the store holds now, to start others from."""
        return Snapshot(
            self._current.copy(), tuple(self._keys), self._expires.copy(), tuple(self._history), self._oldest
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Hold again what this store held at ``snapshot``, by one write for each key that has another value by now.

        Nothing of what happened since is undone: the revision goes on, and whoever watches hears of it as of any other
        write. What was made later goes first, the newest before what it may have been made of.
        """
        self._expect_open()
        newest_first = sorted(self._current.values(), key=lambda kept: kept.revision, reverse=True)
        for kept in newest_first:
            if kept.key not in snapshot.current:
                self._commit(Write(kept.key, None, kept.revision))
        for wanted in sorted(snapshot.current.values(), key=lambda kept: kept.revision):
            found = self._current.get(wanted.key)
            expires = snapshot.expires.get(wanted.key)
            if found is None or found.value != wanted.value or self._expires.get(wanted.key) != expires:
                self._commit(Write(wanted.key, wanted.value, None if found is None else found.revision, expires))

    def _expect_open(self) -> None:
        if self._feed.closed:
            raise StoreUnavailable("the store is closed")
        if self._inherited_expiry is not None:
            self._sweeper.expect(self._inherited_expiry)
            self._inherited_expiry = None

    def _expect_kept(self, revision: Revision) -> None:
        if revision > self._feed.revision:
            raise FutureRevision(revision, self._feed.revision)
        if revision < self._oldest:
            raise Compacted(revision, self._oldest)

    def _commit(self, write: Write) -> Revision:
        self._expect_open()
        key = write.key
        previous = self._current.get(key)
        refused = refusal(write, previous)
        if refused is not None:
            raise refused
        revision = Revision(self._feed.revision + 1)
        if write.value is None:
            del self._current[key]
            del self._keys[bisect_left(self._keys, key)]
        else:
            self._current[key] = KeyValue(key, write.value, revision)
            if previous is None:
                insort(self._keys, key)
        if write.expires is not None:
            self._expires[key] = write.expires
            self._sweeper.expect(write.expires)
        elif self._expires:
            self._expires.pop(key, None)
        event = StoreEvent(key, revision, write.value, previous)
        self._history.append(event)
        self._feed.publish([event], revision)
        return revision

    def _state_at(self, revision: Revision) -> Mapping[str, KeyValue]:
        state = self._current.copy()
        for event in reversed(self._history[revision - self._oldest :]):
            if event.previous is not None:
                state[event.key] = event.previous
            else:
                del state[event.key]
        return state

    async def _read_history(self, prefix: str, after: Revision, upto: Revision) -> Stretch:
        self._expect_kept(after)
        passed = self._history[after - self._oldest : upto - self._oldest]
        return Stretch([event for event in passed if event.key.startswith(prefix)], upto)

    async def _sweep(self, now: int) -> int | None:
        due = sorted((expires, key) for key, expires in self._expires.items() if expires <= now)
        for _, key in due:
            self._commit(Write(key, None, self._current[key].revision))
        return min(self._expires.values(), default=None)
