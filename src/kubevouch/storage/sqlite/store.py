"""``SQLiteStore``: the store as the rest of the process sees it, in the loop."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from kubevouch.storage.expiry import Sweeper
from kubevouch.storage.feed import Feed, Stretch, Watcher
from kubevouch.storage.interface import KeyValue, Page, Revision, RevisionConflict, StoreError, StoreUnavailable
from kubevouch.storage.sqlite import compaction, queries
from kubevouch.storage.sqlite.database import Database, open_database
from kubevouch.storage.sqlite.errors import gone
from kubevouch.storage.sqlite.examination import log_of
from kubevouch.storage.sqlite.reader import ReaderPool
from kubevouch.storage.sqlite.writer import Commit, Writer, probe
from kubevouch.storage.write import Write, check_key, check_limit, check_text, check_value, expiry
from kubevouch.util.clock import Clock, SystemClock, wait_at_most
from kubevouch.util.held_files import NotInPlaceError

T = TypeVar("T")

PROBE_AFTER_SECONDS = 10.0
"""A commit this young proves that writes work; anybody may ask, so a probe, which costs a sync, is made for no less."""

RETRY_SECONDS = 1.0
"""How long a probe's failure is its own proof."""

PROBE_SECONDS = 2.0
"""How long a probe may take: kube-apiserver's for etcd."""

DUE_AT_ONCE = 256
"""How many keys one round of expiry deletes; they share a commit."""


class Statistics(msgspec.Struct, frozen=True):
    """For metrics. Counts are since the store was opened."""

    writes: int
    commits: int
    failed_commits: int
    checkpoints: int
    failed_checkpoints: int
    wal_bytes: int
    file_bytes: int


class SQLiteStore:
    """A ``Store`` in one SQLite file. Made by ``open``; belongs to the loop it was opened in."""

    def __init__(self, database: Database, revision: Revision, clock: Clock) -> None:
        loop = asyncio.get_running_loop()
        self.path = database.path
        self._database = database
        self._clock = clock
        self._feed = Feed(revision, self._read_history)
        self._readers = ReaderPool(database, loop)
        self._writer = Writer(database, self._readers, loop, revision, self._settle)
        self._thread = threading.Thread(target=self._writer.run, name="store-writer", daemon=True)
        self._unsettled = 0
        self._early: list[tuple[Revision, asyncio.Future[None]]] = []
        self._compacting = asyncio.Lock()
        self._sweeper = Sweeper(clock, self._sweep)
        self._closing: asyncio.Task[None] | None = None
        self._written: float | None = None
        """When a commit last worked; None after one that did not."""
        self._probe: asyncio.Future[None] | None = None
        self._probed = 0.0
        self._bytes = 0, 0

    @classmethod
    async def open(cls, path: Path, *, clock: Clock | None = None, max_bytes: int | None = None) -> SQLiteStore:
        """Opens the store at ``path``, or makes it, with its folder.

        ``max_bytes`` bounds the file; a write beyond it raises StoreUnavailable until compaction has made room.

        Raises:
            StoreInUse, StoreDamaged, StoreUnavailable
        """
        opening = asyncio.ensure_future(asyncio.to_thread(_opened, path, max_bytes))
        try:
            database, revision, next_expiry = await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_abandon)
            raise
        store = cls(database, revision, clock if clock is not None else SystemClock())
        store._thread.start()
        if next_expiry is not None:
            store._sweeper.expect(next_expiry)
        return store

    async def get(self, key: str) -> KeyValue | None:
        check_key(key)
        return await self._read(lambda connection: queries.read_key(connection, self.path, key))

    async def list(self, prefix: str, *, start: str = "", limit: int = 0, revision: Revision | None = None) -> Page:
        check_text(prefix + start)
        check_limit(limit)
        return await self._read(
            lambda connection: queries.read_page(connection, self.path, prefix, start, limit, revision)
        )

    async def create(self, key: str, value: bytes, *, ttl: float | None = None) -> Revision:
        check_key(key)
        check_value(key, value)
        return await self._write(Write(key, value, None, expiry(self._clock, ttl)))

    async def update(self, key: str, value: bytes, expected: Revision, *, ttl: float | None = None) -> Revision:
        check_key(key)
        check_value(key, value)
        return await self._write(Write(key, value, expected, expiry(self._clock, ttl)))

    async def delete(self, key: str, expected: Revision) -> Revision:
        check_key(key)
        return await self._write(Write(key, None, expected))

    def watch(self, prefix: str, after: Revision) -> Watcher:
        self._expect_open()
        return self._feed.watch(prefix, after)

    async def compact(self, revision: Revision) -> None:
        self._expect_open()
        async with self._compacting:
            await self._call(partial(compaction.begin, revision=revision))
            rows = compaction.FEWEST_ROWS
            done = False
            while not done:
                step = await self._call(partial(compaction.step, rows=rows, clock=self._clock))
                rows, done = step.rows, step.done

    async def revision(self) -> Revision:
        self._expect_open()
        return self._feed.revision

    async def close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        # Whoever closes may be cancelled; the closing goes on, or the file would stay locked.
        await asyncio.shield(self._closing)

    def expect_running(self) -> None:
        self._expect_open()
        if not (self._thread.is_alive() and self._readers.are_alive()):
            raise StoreUnavailable(f"{self.path}: got a thread that has ended, expected it to run; restart the server")

    def expect_in_place(self) -> None:
        """Raises StoreUnavailable: a file of it was deleted, moved or replaced."""
        try:
            self._database.held.expect_in_place()
        except NotInPlaceError as error:
            raise gone(error) from error

    def doubt(self) -> None:
        """Have whoever asks next whether writes work be told by a write."""
        self._written = None

    async def expect_writable(self) -> None:
        self.expect_running()
        self.expect_in_place()
        now = self._clock.monotonic()
        if self._written is not None and now - self._written < PROBE_AFTER_SECONDS:
            return
        if self._written is not None or now - self._probed >= RETRY_SECONDS:
            self._written, self._probe = None, self._unanswered()
        if self._probe is None:
            self._probe, self._probed = self._writer.call(probe), now
            self._probe.add_done_callback(asyncio.Future.exception)  # perhaps nobody waits any more
        try:
            await wait_at_most(self._clock, asyncio.shield(self._probe), PROBE_SECONDS)
        except TimeoutError as error:
            raise StoreUnavailable(
                f"{self.path}: got no commit within {PROBE_SECONDS:g} s; look at the disk"
            ) from error
        self._written = now

    def _unanswered(self) -> asyncio.Future[None] | None:
        """A probe that still waits for the disk; another one would only wait behind it."""
        return None if self._probe is None or self._probe.done() else self._probe

    def statistics(self) -> Statistics:
        counters = self._writer.counters
        held = self._database.held
        try:
            self._bytes = held.status(str(log_of(self.path))).st_size, held.status(str(self.path)).st_size
        except NotInPlaceError:
            pass  # a scrape tells what was known last; readiness tells that the files are gone
        return Statistics(
            counters.writes,
            counters.commits,
            counters.failed_commits,
            counters.checkpoints,
            counters.failed_checkpoints,
            *self._bytes,
        )

    def size(self) -> int:
        statistics = self.statistics()
        return statistics.file_bytes + statistics.wal_bytes

    async def _close(self) -> None:
        await self._sweeper.close()
        self._writer.stop()
        await asyncio.to_thread(self._stop_threads)
        self._feed.close()
        for _, published in self._early:
            if not published.done():
                published.set_exception(self._closed())

    def _stop_threads(self) -> None:
        self._thread.join()
        self._readers.stop()
        self._database.close()

    def _expect_open(self) -> None:
        if self._closing is not None:
            raise self._closed()

    def _closed(self) -> StoreUnavailable:
        return StoreUnavailable(f"{self.path}: the store is closed")

    async def _write(self, write: Write) -> Revision:
        self._expect_open()
        self._unsettled += 1
        return await self._writer.submit(write)

    def _settle(self, commit: Commit) -> None:
        """A batch is committed: first the watches get its events, then the writers their answers."""
        self._unsettled -= len(commit.pending)
        if commit.failure is not None:
            self._written = self._probe = None
        elif commit.events:
            self._written = self._clock.monotonic()
        if commit.events:
            self._feed.publish(commit.events, commit.revision)
        for pending, outcome in zip(commit.pending, commit.outcomes, strict=True):
            if not isinstance(outcome, StoreError) and pending.write.expires is not None:
                self._sweeper.expect(pending.write.expires)
            if pending.future.done():  # its caller was cancelled
                continue
            if isinstance(outcome, StoreError):
                pending.future.set_exception(outcome)
            else:
                pending.future.set_result(outcome)
        early, self._early = self._early, []
        for revision, published in early:
            self._await_publication(revision, published, commit.failure)

    async def _read(self, query: Callable[[sqlite3.Connection], tuple[Revision, T]]) -> T:
        """Answers from a snapshot, but not before the loop has seen the events that led to it.

        Otherwise somebody could hold a revision that ``revision`` and the watches do not know yet.
        """
        self._expect_open()
        revision, answer = await self._readers.submit(query)
        if revision > self._feed.revision:
            if self._feed.closed:
                raise self._closed()
            published: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._await_publication(revision, published)
            await published
        return answer

    def _await_publication(
        self, revision: Revision, published: asyncio.Future[None], failure: StoreError | None = None
    ) -> None:
        if published.done():  # its caller was cancelled
            return
        if revision <= self._feed.revision:
            published.set_result(None)
        elif self._unsettled:
            self._early.append((revision, published))
        elif failure is None:
            # No write of ours is on its way, so this one is from a commit that was reported as failed.
            self._early.append((revision, published))
            self._writer.catch_up()
        else:
            published.set_exception(failure)

    async def _call(self, action: Callable[[sqlite3.Connection], T]) -> T:
        self._expect_open()
        return await self._writer.call(action)

    async def _read_history(self, prefix: str, after: Revision, upto: Revision) -> Stretch:
        return await self._read(lambda connection: queries.read_history(connection, self.path, prefix, after, upto))

    async def _sweep(self, now: int) -> int | None:
        """Deletes what is due through the front door; a key that was written meanwhile has a time of its own."""
        while due := await self._readers.submit(
            lambda connection: queries.read_due(connection, self.path, now, DUE_AT_ONCE)
        ):
            deletions = [self._writer.submit(Write(key, None, revision)) for key, revision in due]
            self._unsettled += len(deletions)
            for outcome in await asyncio.gather(*deletions, return_exceptions=True):
                if isinstance(outcome, BaseException) and not isinstance(outcome, RevisionConflict):
                    raise outcome
        return await self._readers.submit(queries.read_next_expiry)


def _opened(path: Path, max_bytes: int | None) -> tuple[Database, Revision, int | None]:
    """In a thread: the files, and what the loop has to know of their content."""
    database = open_database(path, max_bytes)
    return database, queries.read_revision(database.writer), queries.read_next_expiry(database.writer)


def _abandon(opening: asyncio.Future[tuple[Database, Revision, int | None]]) -> None:
    """Nobody waits for the store any more: give the file free."""
    if not opening.cancelled() and opening.exception() is None:
        database = opening.result()[0]
        for reader in database.readers:
            reader.close()
        database.close()
