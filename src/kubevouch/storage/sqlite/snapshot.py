"""A store in SQLite at one moment, read over a connection of its own, also while a process has the store open."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from kubevouch.storage.interface import Revision, StoreInUse
from kubevouch.storage.snapshot import MAX_BATCH_BYTES, MAX_BATCH_RECORDS, Batch, Origin, Record
from kubevouch.storage.sqlite import examination, files
from kubevouch.storage.sqlite.errors import damaged, translated, unusable
from kubevouch.storage.sqlite.queries import read_revision
from kubevouch.storage.sqlite.rows import UNBOUNDED, Version, verify_row
from kubevouch.storage.sqlite.schema import LAYOUT, READER_PRAGMAS, run_script
from kubevouch.storage.write import prefix_end

T = TypeVar("T")

_RECORDS = """
SELECT c.key, v.revision, v.previous, v.deleted, v.expires, v.checksum, v.value
FROM current AS c CROSS JOIN version AS v ON v.revision = c.revision
WHERE NOT c.deleted AND c.key >= ? AND c.key < ? ORDER BY c.key LIMIT ?
"""


@contextmanager
def reading(path: Path) -> Iterator[tuple[sqlite3.Connection, bool]]:
    """A connection that changes nothing, and whether another process has the store open.

    Its end may not bring the log of a store into order that a damage left so.
    """
    try:
        lock = files.Lock(path)
    except StoreInUse:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None)) as connection:
            run_script(connection, READER_PRAGMAS)
            yield connection, True
        return
    try:
        with examination.reading(path) as connection:
            yield connection, False
    finally:
        lock.release()


class SQLiteSnapshot:
    """A ``Snapshot``, read in a thread of its own. Commits go on beside it.

    ``pinned``: all of it is one transaction, up to whose beginning the log can be copied into the file. Otherwise each
    batch is; for whoever writes to the store himself, and wants to see what he has not come to yet.
    """

    def __init__(
        self, path: Path, thread: ThreadPoolExecutor, connection: sqlite3.Connection, *, in_use: bool, pinned: bool
    ) -> None:
        """For the thread."""
        if pinned:
            connection.execute("BEGIN")
        layout = examination.expect_layout(connection, path)
        if layout != LAYOUT:
            raise damaged(path, f"layout {layout}; kubevouch up brings it to {LAYOUT}")
        self.revision = read_revision(connection)
        self.origin = Origin(f"sqlite:{examination.identity_of(connection):x}", in_use=in_use)
        self._path = path
        self._thread = thread
        self._connection = connection

    async def batches(self, prefix: str = "") -> AsyncGenerator[Batch, None]:
        start = prefix
        while batch := await self._call(partial(self._batch, start, prefix_end(prefix) or UNBOUNDED)):
            yield batch
            start = batch[-1].key + "\x00"

    def _batch(self, start: str, end: str | bytes) -> Batch:
        batch: Batch = []
        size = 0
        with closing(self._connection.execute(_RECORDS, (start, end, MAX_BATCH_RECORDS))) as rows:
            for key, revision, previous, deleted, expires, checksum, value in rows:
                length = None if value is None else len(value)
                version = Version(revision, previous, deleted, expires, checksum, length)
                verify_row(self._path, key, version, value or b"")
                batch.append(Record(key, value, Revision(revision), expires))
                size += len(value)
                if size >= MAX_BATCH_BYTES:
                    break
        return batch

    async def _call(self, action: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, action)
        except sqlite3.Error as error:
            raise translated(error, self._path) from error
        except UnicodeDecodeError as error:
            raise damaged(self._path, "octets where text belongs") from error


@asynccontextmanager
async def open_snapshot(path: Path, *, pinned: bool = True) -> AsyncIterator[SQLiteSnapshot]:
    """The store at ``path`` as it is now. It has all writes that were acknowledged before.

    Raises:
        StoreDamaged, StoreUnavailable
    """
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1, "store-snapshot") as thread:
        stack = ExitStack()

        def opened() -> SQLiteSnapshot:
            real = path.resolve()
            files.expect_store(real)
            connection, in_use = stack.enter_context(reading(real))
            return SQLiteSnapshot(real, thread, connection, in_use=in_use, pinned=pinned)

        try:
            try:
                snapshot = await loop.run_in_executor(thread, opened)
            except sqlite3.Error as error:
                raise translated(error, path) from error
            except OSError as error:
                raise unusable(path, error, "a store that this user may read") from error
            yield snapshot
        finally:
            await loop.run_in_executor(thread, stack.close)
