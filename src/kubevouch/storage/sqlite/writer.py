"""The one thread that writes.

It takes all writes that wait, decides them against the state inside one transaction, commits once, and tells the loop
once. Whatever else touches the file (compaction, checkpoints, closing) runs between two commits.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from enum import Enum
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import msgspec

from kubevouch.storage.interface import EventBatch, Revision, StoreError, StoreUnavailable
from kubevouch.storage.sqlite.batch import Decision, decide
from kubevouch.storage.sqlite.database import Database
from kubevouch.storage.sqlite.errors import gone, translated
from kubevouch.storage.sqlite.examination import log_of, log_salts
from kubevouch.storage.sqlite.queries import read_history, read_state
from kubevouch.storage.sqlite.reader import Job, ReaderPool
from kubevouch.storage.sqlite.rows import insert_rows
from kubevouch.storage.sqlite.schema import PAGE_BYTES
from kubevouch.storage.sqlite.wal import Checkpoint, checkpoint_due, copy_log
from kubevouch.storage.write import Write
from kubevouch.util.held_files import NotInPlaceError
from kubevouch.util.logger import get_logger

T = TypeVar("T")

MAX_BATCH_WRITES = 256
MAX_BATCH_BYTES = 4 * 1024 * 1024
MAX_GATHERED_WRITES = 256
MAX_GATHERED_BYTES = 4 * 1024 * 1024
"""A batch with so much takes no more, and no more is handed over at once. So twice as much shares one commit at most:
it bounds the memory it takes and how long the first write waits for the last."""

QUIET_TURNS = 4
MOST_TURNS = 10
"""What is gathered is handed over after so many turns of the loop in a row that brought no further write, or after so
many in all. A write that comes alone waits four turns, which take microseconds then; in a busy loop, where a turn takes
some milliseconds, commits are few and large: each costs a millisecond of processor time besides its rows, and has both
threads wait for the interpreter lock several times."""

PAGES_PER_ROW = 2
"""An estimate of what a row costs in the log besides its value: a page of each table."""

_log = get_logger("kubevouch.storage.sqlite")


class Pending(msgspec.Struct):
    """A write, and where its revision goes."""

    write: Write
    future: asyncio.Future[Revision]


class Commit(msgspec.Struct):
    """A batch after its commit: outcomes in the order of its writes, events up to ``revision``.

    ``failure`` is why there was no commit; it is the outcome of each write then.
    """

    pending: list[Pending]
    outcomes: Sequence[Revision | StoreError]
    events: EventBatch
    revision: Revision
    failure: StoreError | None = None


class Signal(Enum):
    """What the writer can be told besides work."""

    CATCH_UP = "catch up"
    STOP = "stop"


class Work(msgspec.Struct):
    """What the writer does next: one commit, then perhaps one thing more."""

    pending: list[Pending] = msgspec.field(default_factory=list)
    further: Job[Any] | Signal | None = None


class Counters(msgspec.Struct):
    """Counted by the writer's thread, read by anyone."""

    writes: int = 0
    commits: int = 0
    failed_commits: int = 0
    checkpoints: int = 0
    failed_checkpoints: int = 0


class Writer(msgspec.Struct):
    """``settle`` is called in the loop, once for each batch, in the order of the commits."""

    database: Database
    readers: ReaderPool
    loop: asyncio.AbstractEventLoop
    revision: Revision
    settle: Callable[[Commit], None]
    counters: Counters = msgspec.field(default_factory=Counters)
    _gathered: list[Pending] = msgspec.field(default_factory=list)
    """Accepted writes that the thread does not have yet. Only the loop touches them."""
    _gathered_bytes: int = 0
    _queue: SimpleQueue[list[Pending] | Job[Any] | Signal] = msgspec.field(default_factory=SimpleQueue)
    _uncopied_bytes: int = 0
    _log_bytes: int = 0
    """When the last commit began."""
    _failing: bool = False
    _displaced: bool = False
    """Whether the last commit found that the files are gone: before the next one, all of them are looked for."""

    @property
    def _log_path(self) -> str:
        return str(log_of(self.database.path))

    def submit(self, write: Write) -> asyncio.Future[Revision]:
        """Accepts a write; from here on it happens, whether or not somebody waits for it.

        Writes of neighbouring turns of the loop go to the thread together. One by one, each would wake the thread while
        the loop still has the interpreter, and those that come together would not share a commit.
        """
        future: asyncio.Future[Revision] = self.loop.create_future()
        if not self._gathered:
            self.loop.call_soon(self._gather_on, 1, 0, 1)
        self._gathered.append(Pending(write, future))
        self._gathered_bytes += len(write.value or b"")
        if len(self._gathered) >= MAX_GATHERED_WRITES or self._gathered_bytes >= MAX_GATHERED_BYTES:
            self.hand_over()
        return future

    def _gather_on(self, turns: int, quiet: int, seen: int) -> None:
        """``quiet``: so many of the last ``turns`` brought no further write to the ``seen`` gathered before."""
        quiet = quiet + 1 if len(self._gathered) <= seen else 0
        if quiet >= QUIET_TURNS or turns >= MOST_TURNS:
            self.hand_over()
        elif self._gathered:
            self.loop.call_soon(self._gather_on, turns + 1, quiet, len(self._gathered))

    def hand_over(self) -> None:
        """Gives the thread what was gathered."""
        if self._gathered:
            self._queue.put(self._gathered)
            self._gathered, self._gathered_bytes = [], 0

    def call(self, action: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """Runs ``action`` between two commits, after all writes accepted so far."""
        future: asyncio.Future[T] = self.loop.create_future()
        self.hand_over()
        self._queue.put(Job(action, future))
        return future

    def catch_up(self) -> None:
        """Has the writer look for revisions it has not published."""
        self.hand_over()
        self._queue.put(Signal.CATCH_UP)

    def stop(self) -> None:
        """Carries out what was accepted, then ends ``run``."""
        self.hand_over()
        self._queue.put(Signal.STOP)

    def run(self) -> None:
        """The thread's body."""
        running = True
        while running:
            try:
                running = self._turn()
            except Exception:  # noqa: BLE001 - worker boundary: without this thread no write would ever be answered
                _log.exception("store writer failed", path=str(self.database.path))

    def _turn(self) -> bool:
        """Waits for work and does it; False if that was the last."""
        work = self._accepted()
        if work.pending or work.further is Signal.CATCH_UP:
            self._tell(self.settle, self._committed(work.pending))
        if isinstance(work.further, Job):
            self._carry_out(work.further)
            self._tell(work.further.settle)
        if work.further is Signal.STOP:
            return False
        self._copy_log()
        return True

    def _accepted(self) -> Work:
        """Waits for work, then takes the writes that wait too, up to the first thing that is none."""
        work = Work()
        size = 0
        accepted = self._queue.get()
        while isinstance(accepted, list):
            work.pending += accepted
            size += sum(len(each.write.value or b"") for each in accepted)
            if len(work.pending) >= MAX_BATCH_WRITES or size >= MAX_BATCH_BYTES:
                return work
            try:
                accepted = self._queue.get_nowait()
            except Empty:
                return work
        work.further = accepted
        return work

    def _committed(self, pending: list[Pending]) -> Commit:
        connection = self.database.writer
        try:
            if self._displaced:
                self.database.held.expect_in_place()
                self._displaced = False
            connection.execute("BEGIN IMMEDIATE")
            decision, missed = self._decided([each.write for each in pending])
            if decision.rows:
                insert_rows(connection, decision.rows)
            # One look, for the log's size is wanted anyway: a folder that is gone has taken the log along.
            self._log_bytes = self.database.held.status(self._log_path).st_size
            connection.execute("COMMIT")
        except NotInPlaceError as error:
            self._displaced = True
            return self._failed(pending, gone(error), error)
        except sqlite3.Error as error:
            return self._failed(pending, translated(error, self.database.path), error)
        except StoreError as error:
            return self._failed(pending, error, error)
        except Exception as error:  # noqa: BLE001 - worker boundary: the writer outlives a batch that fails
            unexpected = StoreUnavailable(f"{self.database.path}: got {error!r} from a write; please report it")
            return self._failed(pending, unexpected, error)
        if self._failing:
            self._failing = False
            _log.info("store commits again", path=str(self.database.path))
        if decision.rows:
            self.database.mark.advance(decision.revision)
        self.revision = decision.revision
        self.counters.commits += 1
        self.counters.writes += len(decision.rows)
        self._uncopied_bytes += sum(len(row.value or b"") + PAGES_PER_ROW * PAGE_BYTES for row in decision.rows)
        return Commit(pending, decision.outcomes, missed + decision.events, decision.revision)

    def _decided(self, writes: Sequence[Write]) -> tuple[Decision, EventBatch]:
        """What the writes do, and events of revisions that were never published.

        There are such events when a commit was reported as failed and had happened after all.
        """
        path = self.database.path
        newest, state = read_state(self.database.writer, path, list({write.key for write in writes}))
        missed: EventBatch = []
        reached = self.revision
        while reached < newest:
            _, stretch = read_history(self.database.writer, path, "", reached, newest)
            missed += stretch.events
            reached = stretch.reached
        return decide(writes, state, newest), missed

    def _failed(self, pending: list[Pending], error: StoreError, cause: Exception) -> Commit:
        """Nothing of the batch has happened: each of its writes is told so."""
        self.counters.failed_commits += 1
        self._doubt_log()
        self._roll_back()
        error.__cause__ = cause if cause is not error else None
        if self._failing:
            return Commit(pending, [error] * len(pending), [], self.revision, error)
        self._failing = True
        _log.error("store commit failed", path=str(self.database.path), writes=len(pending), error=str(error))
        return Commit(pending, [error] * len(pending), [], self.revision, error)

    def _doubt_log(self) -> None:
        """What failed may have left frames behind the last whole commit, which look like a later one that was lost."""
        if self._displaced:
            return  # what is at the path is not this store's log
        try:
            self.database.mark.doubt(log_salts(self.database.path))
        except OSError as error:
            _log.warning("store mark could not be written", path=str(self.database.path), error=str(error))

    def _roll_back(self) -> None:
        if self.database.writer.in_transaction:
            self._doubt_log()
            try:
                self.database.writer.execute("ROLLBACK")
            except sqlite3.Error as error:
                _log.error("store rollback failed", path=str(self.database.path), error=str(error))

    def _carry_out(self, job: Job[Any]) -> None:
        try:
            job.result = job.query(self.database.writer)
        except StoreError as error:
            job.error = error
        except sqlite3.Error as error:
            job.error = translated(error, self.database.path)
            job.error.__cause__ = error
        except Exception as error:  # noqa: BLE001 - worker boundary: the writer outlives a job that fails
            job.error = StoreUnavailable(f"{self.database.path}: got {error!r} between two writes; please report it")
            job.error.__cause__ = error
        finally:
            self._roll_back()

    def _copy_log(self) -> None:
        checkpoint = checkpoint_due(self._uncopied_bytes, self._log_bytes, idle=self._queue.empty())
        if checkpoint is None:
            return
        try:
            if checkpoint is Checkpoint.TRUNCATE:
                with self.readers.paused() as alone:
                    mode = Checkpoint.TRUNCATE if alone else Checkpoint.PASSIVE
                    self._uncopied_bytes = copy_log(self.database.writer, mode, PAGE_BYTES)
            else:
                self._uncopied_bytes = copy_log(self.database.writer, checkpoint, PAGE_BYTES)
            self.counters.checkpoints += 1
            self.database.mark.sync()
        except (sqlite3.Error, OSError) as error:
            # Not tried again before the log has grown by as much again.
            self._uncopied_bytes = 0
            self.counters.failed_checkpoints += 1
            _log.warning("store checkpoint failed", path=str(self.database.path), error=str(error))

    def _tell(self, callback: Callable[..., None], *arguments: object) -> None:
        try:
            self.loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:  # the loop is closed: nobody waits any more
            pass


def probe(connection: sqlite3.Connection) -> None:
    """A commit that changes nothing, and that needs all that a write needs.

    SQLite writes no page for an update that leaves a row as it is.
    """
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO meta VALUES ('probe', 0)")
    connection.execute("DELETE FROM meta WHERE name = 'probe'")
    connection.execute("COMMIT")
