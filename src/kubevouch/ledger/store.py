"""A ledger in a file: what is appended together shares a commit, and nothing is acknowledged before it is on the disk.

One thread appends, another reads. What neighbouring turns of the loop bring goes to the thread together, and what comes
while a commit is under way shares the next one: a hundred machines that join at once pay for a few syncs.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from sqlite3 import Connection
from sqlite3 import Error as SQLiteError
from typing import Any, TypeVar

import msgspec

from kubevouch.ledger import absence, opening, reading, terms
from kubevouch.ledger.absence import AbsentTerms
from kubevouch.ledger.checkpoints import VerifierKey
from kubevouch.ledger.entries import Entry, Query, Recorded, terms_wanted
from kubevouch.ledger.errors import translated
from kubevouch.ledger.file import Encoded, LedgerFile
from kubevouch.ledger.interface import OF_REQUESTS, LedgerError, LedgerUnavailable
from kubevouch.storage.sqlite.writer import MOST_TURNS, QUIET_TURNS
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

T = TypeVar("T")

MOST_IN_BATCH = 512
REMEMBERED = 32_768
"""Requests that are known without reading the file: some 5 MB. Each signature asks whether there was one for its
request before, and hardly any request is older than these."""
_LOADED = 4096
"""Entries that a start looks at for this."""

_log = get_logger("kubevouch.ledger")


class Statistics(msgspec.Struct):
    """Counted by the thread that appends, read by anyone."""

    entries: int = 0
    appended: int = 0
    commits: int = 0
    failed_commits: int = 0
    commit_seconds: float = 0.0
    published: int = 0
    """Entries that the newest checkpoint is about which somebody else may have kept."""


class _Pending(msgspec.Struct):
    encoded: Sequence[Encoded]
    future: asyncio.Future[int]
    since: float


class _Job(msgspec.Struct):
    work: Callable[[LedgerFile], Any]
    future: asyncio.Future[Any]


class _Recent:
    """What was done for which requests lately. It knows all that was written since ``since``."""

    def __init__(self, newest: Sequence[Recorded], since: dt.datetime | None) -> None:
        """``since`` None: all that was ever written."""
        self.since = since
        self._requests: OrderedDict[str, tuple[dt.datetime, frozenset[str]]] = OrderedDict()
        for each in newest:
            self.add(each.entry)

    def add(self, entry: Entry) -> None:
        if entry.kind not in OF_REQUESTS or not entry.uid:
            return
        _, kinds = self._requests.get(entry.uid, (entry.at, frozenset()))
        self._requests[entry.uid] = entry.at, _KINDS.setdefault(found := kinds | {entry.kind}, found)
        if len(self._requests) > REMEMBERED:
            _, (at, _) = self._requests.popitem(last=False)
            self.since = at if self.since is None else max(at, self.since)

    def excludes(self, query: Query) -> bool:
        """Whether there is nothing that ``query`` looks for."""
        if not query.kinds or not query.kinds <= OF_REQUESTS or not query.uid:
            return False
        _, kinds = self._requests.get(query.uid, (None, frozenset()))
        if query.kinds & kinds:
            return False
        since = query.since or query.nothing_before
        return self.since is None or (since is not None and since > self.since)


_KINDS: dict[frozenset[str], frozenset[str]] = {}
"""So that thousands of requests share a few sets."""


class SQLiteLedger:
    """See ``ledger.interface.Ledger``."""

    def __init__(self, file: LedgerFile, reader: Connection, known: _Known, clock: Clock) -> None:
        self.path = file.path
        self.origin = file.origin
        self.copied = file.copied
        self.verifier_key: VerifierKey = file.verifier_key
        self.statistics = Statistics(entries=file.size)
        self._file = file
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._gathered: list[_Pending] = []
        self._queue: SimpleQueue[list[_Pending] | _Job | None] = SimpleQueue()
        self._waiting: OrderedDict[int, float] = OrderedDict()
        self._closed = False
        newest, since, unfilled = known
        self._recent = _Recent(newest, since)
        self._absent = AbsentTerms(unfilled)
        self._reader = reader
        self._readers = ThreadPoolExecutor(1, "ledger-reader")
        self._thread = threading.Thread(target=self._run, name="ledger-writer", daemon=True)
        self._thread.start()

    @classmethod
    async def open(cls, path: Path, clock: Clock) -> SQLiteLedger:
        """The ledger at ``path``, which is made if there is none.

        Raises:
            LedgerInUse, LedgerDamaged, LedgerUnavailable
        """
        return cls(*await asyncio.to_thread(_opened, path, clock.now()), clock)

    @property
    def identity(self) -> str:
        """What tells this ledger from others."""
        return self.origin.rpartition("/")[2]

    @property
    def lag(self) -> float:
        """Seconds that the oldest entry waits which nobody has acknowledged."""
        oldest = next(iter(self._waiting.values()), None)
        return 0.0 if oldest is None else self._clock.monotonic() - oldest

    async def append(self, *entries: Entry) -> int:
        """See ``ledger.interface.Ledger``."""
        encoded = [Encoded.of(entry) for entry in entries]
        if self._closed:
            raise LedgerUnavailable(f"{self.path}: the ledger is closed")
        # Before it can be in the file, for from then on who asks must hear of it.
        for each in encoded:
            self._absent.add(each.terms)
        future: asyncio.Future[int] = self._loop.create_future()
        if not self._gathered:
            self._loop.call_soon(self._gather_on, 1, 0, 1)
        since = self._clock.monotonic()
        self._gathered.append(_Pending(encoded, future, since))
        self._waiting[id(future)] = since
        try:
            return await future
        finally:
            self._waiting.pop(id(future), None)

    async def find(self, query: Query) -> Sequence[Recorded]:
        """See ``ledger.interface.ReadableLedger``."""
        wanted = [terms.number_of(term) for term in terms_wanted(query)]
        if self._recent.excludes(query) or any(map(self._absent.has, wanted)):
            return []
        if self._closed:
            raise LedgerUnavailable(f"{self.path}: the ledger is closed")
        finding = self._loop.run_in_executor(self._readers, self._find, query)
        for bucket in self._absent.begin(wanted):
            self._readers.submit(self._learn, bucket)
        return await finding

    def expect_in_place(self) -> None:
        """Raises LedgerUnavailable: a file of it was deleted, moved or replaced. May be called in any thread."""
        self._file.expect_in_place()

    async def checkpoint(self) -> tuple[int, str]:
        """How many entries there are by now, and the signed note of it. Raises LedgerError."""
        return await self._call(lambda file: file.checkpoint(self._clock.now()))

    async def close(self) -> None:
        """Carries out what was accepted, and brings everything into the one file."""
        if self._closed:
            return
        self._hand_over()
        self._closed = True
        self._queue.put(None)
        self._readers.shutdown(wait=False)
        await asyncio.to_thread(self._thread.join)

    def _find(self, query: Query) -> list[Recorded]:
        try:
            return reading.find(self._reader, query)
        except SQLiteError as error:
            raise translated(error, self.path) from error

    def _learn(self, bucket: int) -> None:
        try:
            full = absence.marks(reading.terms_filled(self._reader, bucket))
        except SQLiteError:  # whoever asks next hears of it, and has it tried again
            full = None
        with suppress(RuntimeError):  # the loop is closed: nobody asks any more
            self._loop.call_soon_threadsafe(self._absent.complete, bucket, full)

    def _call(self, work: Callable[[LedgerFile], T]) -> asyncio.Future[T]:
        if self._closed:
            raise LedgerUnavailable(f"{self.path}: the ledger is closed")
        future: asyncio.Future[T] = self._loop.create_future()
        self._hand_over()
        self._queue.put(_Job(work, future))
        return future

    def _gather_on(self, turns: int, quiet: int, seen: int) -> None:
        """As the store does, see ``storage.sqlite.writer``: a busy loop has few and large commits."""
        quiet = quiet + 1 if len(self._gathered) <= seen else 0
        if quiet >= QUIET_TURNS or turns >= MOST_TURNS:
            self._hand_over()
        elif self._gathered:
            self._loop.call_soon(self._gather_on, turns + 1, quiet, len(self._gathered))

    def _hand_over(self) -> None:
        if self._gathered:
            self._queue.put(self._gathered)
            self._gathered = []

    # -------------------------------------------------------------- the thread that appends

    def _run(self) -> None:
        while (taken := self._taken()) is not None:
            pending, job = taken
            if pending:
                self._commit(pending)
            if job is not None:
                self._carry_out(job)
            elif not pending:
                break
        self._readers.shutdown()
        self._reader.close()
        self._file.close()

    def _taken(self) -> tuple[list[_Pending], _Job | None] | None:
        """All that waits, up to the first thing that is no append; nothing at all is the end."""
        pending: list[_Pending] = []
        taken = self._queue.get()
        while isinstance(taken, list):
            pending += taken
            if len(pending) >= MOST_IN_BATCH:
                return pending, None
            try:
                taken = self._queue.get_nowait()
            except Empty:
                return pending, None
        if taken is None and pending:
            self._queue.put(None)
        return pending, taken

    def _commit(self, pending: list[_Pending]) -> None:
        begun = self._clock.monotonic()
        batch = [each for one in pending for each in one.encoded]
        statistics = self.statistics
        try:
            sequence = self._file.append(batch, self._clock.now())
        except LedgerError as error:
            statistics.failed_commits += 1
            _log.error("ledger commit failed", path=str(self.path), entries=len(batch), error=str(error))
            self._tell(pending, [error] * len(pending))
            return
        except Exception as error:  # noqa: BLE001 - worker boundary: the thread outlives a batch that fails
            statistics.failed_commits += 1
            _log.exception("ledger commit failed", path=str(self.path))
            failure = LedgerUnavailable(f"{self.path}: got {error!r} from an append; please report it")
            self._tell(pending, [failure] * len(pending))
            return
        statistics.commits += 1
        statistics.appended += len(batch)
        statistics.entries = self._file.size
        statistics.commit_seconds += self._clock.monotonic() - begun
        outcomes = []
        for one in pending:
            sequence += len(one.encoded)
            outcomes.append(sequence - 1)
        self._tell(pending, outcomes)

    def _carry_out(self, job: _Job) -> None:
        try:
            outcome = job.work(self._file)
        except LedgerError as error:
            outcome = error
        except SQLiteError as error:
            outcome = translated(error, self.path)
        self._tell([job], [outcome])

    def _tell(self, waiting: Sequence[_Pending | _Job], outcomes: Sequence[Any]) -> None:
        try:
            self._loop.call_soon_threadsafe(self._settle, waiting, outcomes)
        except RuntimeError:  # the loop is closed: nobody waits any more
            pass

    def _settle(self, waiting: Sequence[_Pending | _Job], outcomes: Sequence[Any]) -> None:
        for each, outcome in zip(waiting, outcomes, strict=True):
            failed = isinstance(outcome, Exception)
            if isinstance(each, _Pending) and not failed:
                for one in each.encoded:
                    self._recent.add(one.entry)
            if each.future.done():
                continue
            if failed:
                each.future.set_exception(outcome)
            else:
                each.future.set_result(outcome)


_Known = tuple[Sequence[Recorded], dt.datetime | None, Sequence[bytes]]


def _opened(path: Path, now: dt.datetime) -> tuple[LedgerFile, Connection, _Known]:
    file = opening.open_ledger(path, now)
    try:
        reader = opening.connect_to_read(path, beside_writer=True)
        first = file.size - _LOADED
        newest = reading.find(reader, Query(after=first - 1, limit=_LOADED))
        since = newest[0].entry.at if first > 0 else None
        return file, reader, (newest, since, reading.terms_unfilled(reader))
    except BaseException:
        file.close()
        raise


def read(path: Path, query: Query) -> list[Recorded]:
    """What ``query`` finds in the ledger at ``path``, whoever writes it. Raises LedgerError."""
    with closing(opening.connect_to_read(path)) as connection:
        try:
            return reading.find(connection, query)
        except SQLiteError as error:
            raise translated(error, path) from error


class ReadOnlyLedger:
    """A ledger that another process writes, see ``ledger.interface.ReadableLedger``: what is there when it is asked."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def find(self, query: Query) -> Sequence[Recorded]:
        return await asyncio.to_thread(read, self.path, query)
