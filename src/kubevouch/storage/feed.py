"""The live stream of a store's writes, and the watches on it.

A store publishes what it committed; running watches get it without reading anything. A watch that starts in the past,
or whose reader is too slow for its buffer, reads the store's history up to the point where the stream began to fill
its buffer, and goes on from the buffer: nothing is missing in between and nothing comes twice.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

import msgspec

from kubevouch.storage.interface import EventBatch, Revision, StoreError, StoreEvent
from kubevouch.storage.write import FIRST_REVISION, check_text

MAX_BUFFERED_EVENTS = 1024
MAX_BUFFERED_BYTES = 16 * 1024 * 1024
"""What one watch keeps for a slow reader. Whichever of the two is passed first ends the buffering."""


class Stretch(msgspec.Struct, frozen=True):
    """A piece of history: ``events`` are all that matched, up to and with revision ``reached``."""

    events: EventBatch
    reached: Revision


History = Callable[[str, Revision, Revision], Awaitable[Stretch]]
"""Reads the events under a prefix, after one revision, up to and with another one, or fewer."""


class Feed:
    """Hands committed events to watches. Used from one event loop."""

    def __init__(self, revision: Revision, history: History) -> None:
        self.revision = revision
        self.closed = False
        self.history = history
        self._watchers: dict[str, list[Watcher]] = {}

    def publish(self, events: EventBatch, revision: Revision) -> None:
        """``events`` are all writes after the last published revision, up to ``revision``."""
        before = self.revision
        self.revision = revision
        for prefix, watchers in list(self._watchers.items()):
            batch = [event for event in events if event.key.startswith(prefix)] if prefix else events
            if batch:
                for watcher in tuple(watchers):
                    watcher.offer(batch, before)

    def progress(self, revision: Revision) -> None:
        """There was no write of ours after the last published revision, up to ``revision``."""
        before, self.revision = self.revision, revision
        told = [StoreEvent.progress(revision)]
        for watcher in self._all():
            watcher.offer(told, before)

    def skip(self, revision: Revision) -> None:
        """Nobody was told of the writes after the last published revision, up to ``revision``: watches read them."""
        before, self.revision = self.revision, revision
        for watcher in self._all():
            watcher.cut_off(before)

    def watch(self, prefix: str, after: Revision) -> Watcher:
        check_text(prefix)
        return Watcher(self, prefix, after)

    def close(self) -> None:
        """Watches deliver what they hold, then end."""
        self.closed = True
        for watcher in self._all():
            watcher.wake()

    def _all(self) -> list[Watcher]:
        return [watcher for watchers in self._watchers.values() for watcher in watchers]

    def join(self, watcher: Watcher) -> None:
        self._watchers.setdefault(watcher.prefix, []).append(watcher)

    def leave(self, watcher: Watcher) -> None:
        watchers = self._watchers[watcher.prefix]
        watchers.remove(watcher)
        if not watchers:
            del self._watchers[watcher.prefix]


class Watcher:
    """One watch; what ``Store.watch`` returns."""

    def __init__(self, feed: Feed, prefix: str, after: Revision) -> None:
        self.prefix = prefix
        self._feed = feed
        # Revision 1 is the empty store: after 0 and after 1 mean the same.
        self._position = max(after, FIRST_REVISION)
        """Up to here everything was delivered; it moves only while history is read."""
        self._floor = Revision(0)
        """Above here everything is in the buffer, or will be."""
        self._dropped_after: Revision | None = None
        """The buffer was full: it ends here and the watch has left the feed."""
        self._joined = False
        self._ended = False
        self._waiting = False
        self._waiter: asyncio.Future[None] | None = None
        self._buffer: deque[EventBatch] = deque()
        self._buffered_events = 0
        self._buffered_bytes = 0

    def __aiter__(self) -> Watcher:
        return self

    async def __anext__(self) -> EventBatch:
        if self._waiting:
            raise RuntimeError("this watch is being waited for already; one task at a time may do so")
        self._waiting = True
        try:
            batch = await self._following()
        except StoreError:
            await self.aclose()
            raise
        finally:
            self._waiting = False
        if batch is None:
            raise StopAsyncIteration
        return batch

    async def aclose(self) -> None:
        self._ended = True
        self._leave()
        self._buffer.clear()
        self.wake()

    def offer(self, batch: EventBatch, before: Revision) -> None:
        """Takes events of the live stream; ``before`` is the revision up to which it has seen all others."""
        if batch[0].revision <= self._position:
            batch = [event for event in batch if event.revision > self._position]
            if not batch:
                return
        size = sum(map(_held_bytes, batch))
        self._buffered_events += len(batch)
        self._buffered_bytes += size
        if self._buffer and (self._buffered_events > MAX_BUFFERED_EVENTS or self._buffered_bytes > MAX_BUFFERED_BYTES):
            self.cut_off(before)
        else:
            self._buffer.append(batch)
            self.wake()

    def cut_off(self, before: Revision) -> None:
        """What comes after ``before`` is read from the history."""
        self._dropped_after = before
        self._leave()
        self.wake()

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _following(self) -> EventBatch | None:
        while not self._ended:
            if self._position < self._floor:
                if self._feed.closed:
                    break
                stretch = await self._feed.history(self.prefix, self._position, self._floor)
                self._position = stretch.reached
                if stretch.events:
                    return stretch.events
            elif self._buffer:
                return self._buffered()
            elif self._feed.closed:
                break
            elif not self._joined:
                self._join()
            else:
                await self._published()
        return None

    def _join(self) -> None:
        if self._dropped_after is not None:
            # A watch may have begun above what the feed had seen: it never goes back.
            self._position = max(self._position, self._dropped_after)
            self._dropped_after = None
        self._feed.join(self)
        self._joined = True
        self._floor = self._feed.revision

    def _leave(self) -> None:
        if self._joined:
            self._feed.leave(self)
            self._joined = False

    def _buffered(self) -> EventBatch:
        batches = list(self._buffer)
        self._buffer.clear()
        self._buffered_events = self._buffered_bytes = 0
        return batches[0] if len(batches) == 1 else [event for batch in batches for event in batch]

    async def _published(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None


def _held_bytes(event: StoreEvent) -> int:
    held = 0 if event.value is None else len(event.value)
    return held if event.previous is None else held + len(event.previous.value)
