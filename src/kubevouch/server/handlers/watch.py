"""Watches: events from a revision on, streaming lists, bookmarks.

Source: apiserver endpoints/handlers/get.go, watch.go (Kubernetes 1.36).
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any

from kubevouch.machinery import errors
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import Status
from kubevouch.server import query_options
from kubevouch.server.endpoints import ServedVersion
from kubevouch.server.handlers import shared
from kubevouch.server.handlers.shared import Environment
from kubevouch.server.request import Request, Result, WatchResult
from kubevouch.server.watch_item import Bookmark, WatchItem
from kubevouch.storage.interface import Compacted, Revision
from kubevouch.storage.watchcache.objects import Stored
from kubevouch.storage.watchcache.resource_cache import BATCH_BYTES, Change, Scope, WatchClosed, Watcher
from kubevouch.util.turns import give_way

# Without timeoutSeconds a watch lasts 30 to 60 minutes (--min-request-timeout 1800 s, times a factor of 1 to 2).
DEFAULT_SECONDS = 1800.0
BOOKMARK_SECONDS = 60.0
# A bookmark is also sent this long before the end, so that the next watch starts from a recent version.
LAST_BOOKMARK_SECONDS = 2.0
# Initial objects are written in pieces: a long list does not stand in memory twice, and others have their turn.
INITIAL_BATCH = 250
# So few are written together with the head of the answer: a machine watches its own request.
_SHORT = 4

_jitter = random.Random()  # noqa: S311 - spreads reconnects, guards nothing


async def watch(env: Environment, endpoint: ServedVersion, request: Request) -> Result:
    """A stream of events."""
    info = request.target
    shared.negotiate(request, "watch", endpoint.resource)
    reading = query_options.list_options(request.query, watch=True)
    options = reading.options
    name = info.name if info.deprecated_watch else ""
    scope = shared.scope_of(endpoint, info.namespace, options.label_selector, options.field_selector, name)
    seconds = options.timeout_seconds or DEFAULT_SECONDS * (1 + _jitter.random())
    stream = _Stream(env, endpoint, scope, float(seconds), bookmarks=options.allow_watch_bookmarks)
    version = options.resource_version
    listing = options.send_initial_events
    if listing is None and version in ("", "0") and not options.resource_version_match:
        listing = True
    await stream.open(version, listing=listing, asked=options.send_initial_events is True)
    return WatchResult(stream.batches(), endpoint.encoder, ended=[stream.close], end=stream.end)


def _following(initial: deque[Stored[Any]]) -> list[WatchItem]:
    """Takes the next piece out of what a watch begins with; each is held no longer than it has to be."""
    part: list[WatchItem] = []
    size = 0
    while initial and len(part) < INITIAL_BATCH and size < BATCH_BYTES:
        stored = initial.popleft()
        size += len(stored.raw)
        part.append(Change("ADDED", stored, stored.revision))
    return part


class _Stream:
    """One watch from opening to end."""

    def __init__(
        self, env: Environment, endpoint: ServedVersion, scope: Scope[Any], seconds: float, *, bookmarks: bool
    ) -> None:
        self._env = env
        self._endpoint = endpoint
        self._scope = scope
        self._end = env.clock.monotonic() + seconds
        self._bookmarks = bookmarks
        self._watcher: Watcher[Any] | None = None
        self._initial: list[Stored[Any]] = []
        self._revision = Revision(0)
        self._marks_end = False
        self._failure: Status | None = None

    def close(self) -> None:
        """Hear nothing more."""
        if self._watcher is not None:
            self._watcher.close()

    def end(self) -> None:
        """Send no more than is under way."""
        self._initial = []
        self.close()

    async def open(self, version: str, *, listing: bool | None, asked: bool) -> None:
        """Start to listen.

        Args:
            listing: begin with the current objects; None leaves it to the version, False says no even to version 0.
            asked: the client asked for a streaming list by name.

        What goes wrong once the version is understood is told inside the stream, as kube-apiserver does.
        """
        store = self._endpoint.store
        try:
            if listing:
                read = store.watch_list if asked else store.watch
                self._watcher, self._initial, self._revision = await read(self._scope, version)
                self._marks_end = self._bookmarks
            else:
                self._watcher, self._initial, self._revision = await store.watch(self._scope, version)
                if listing is False:
                    self._initial = []
        except Compacted as err:
            self._failure = errors.expired(f"too old resource version: {version} ({err.oldest})").status
        except APIStatusError as err:
            if err.code != 504:
                raise
            self._failure = err.status

    async def batches(self) -> AsyncGenerator[list[WatchItem], None]:
        if self._failure is not None:
            yield [self._failure]
            return
        watcher = self._watcher
        assert watcher is not None  # open() succeeded
        try:
            # The edge sends the head with the first batch, also with an empty one. What is short comes with it.
            initial, self._initial = deque(self._initial), []
            yield [] if len(initial) > _SHORT else self._beginning(initial)
            while initial:
                await give_way()
                yield self._beginning(initial)
            async for batch in self._live(watcher):
                yield batch
        finally:
            watcher.close()

    def _beginning(self, initial: deque[Stored[Any]]) -> list[WatchItem]:
        """The next piece of ``initial``, and behind the last one the mark that says so."""
        part = _following(initial)
        if not initial and self._marks_end:
            part.append(Bookmark(self._revision, initial_end=True))
        return part

    async def _live(self, watcher: Watcher[Any]) -> AsyncGenerator[list[WatchItem], None]:
        clock, timers, cacher = self._env.clock, self._env.timers, self._endpoint.store
        next_mark = self._next_mark()
        due = min(next_mark, self._end)
        timer = timers.at(due, watcher.poke)
        try:
            while True:
                try:
                    batch: list[WatchItem] = list(await cacher.served_changes(await watcher.next_batch()))
                except WatchClosed:
                    return
                except APIStatusError as err:  # what a webhook did not convert
                    yield [err.status]
                    return
                now = clock.monotonic()
                if now >= next_mark and self._bookmarks:
                    batch.append(Bookmark(cacher.revision))
                    next_mark = self._next_mark()
                if batch:
                    yield batch
                if now >= self._end:
                    return
                if now >= due:
                    due = min(next_mark, self._end)
                    timer = timers.at(due, watcher.poke)
        finally:
            timer.cancel()

    def _next_mark(self) -> float:
        """When the next bookmark is due; never, for a client that did not ask for any."""
        if not self._bookmarks:
            return self._end
        now = self._env.clock.monotonic()
        last = self._end - LAST_BOOKMARK_SECONDS
        regular = now + BOOKMARK_SECONDS * (0.9 + 0.2 * _jitter.random())
        if regular < last or now >= last:
            return regular
        return last
