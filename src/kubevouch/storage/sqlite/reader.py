"""The threads that read, each with a connection of its own. They never wait for the writer, nor it for them."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from kubevouch.storage.interface import StoreError, StoreUnavailable
from kubevouch.storage.sqlite.database import Database
from kubevouch.storage.sqlite.errors import translated

T = TypeVar("T")

Query = Callable[[sqlite3.Connection], T]

PAUSE_SECONDS = 1.0
"""How long the writer waits for one reader to finish what it is at."""


class Job(Generic[T]):
    """A query, and where its answer goes."""

    def __init__(self, query: Query[T], future: asyncio.Future[T]) -> None:
        self.query = query
        self.future = future
        self.result: T | None = None
        self.error: StoreError | None = None

    def settle(self) -> None:
        """In the loop: tells whoever still waits."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)  # type: ignore[arg-type]  # T may be None itself


class ReaderPool:
    """Threads that take queries from one queue."""

    def __init__(self, database: Database, loop: asyncio.AbstractEventLoop) -> None:
        self._database = database
        self._loop = loop
        self._queue: SimpleQueue[Job[Any] | None] = SimpleQueue()
        self._turns = [threading.Lock() for _ in database.readers]
        self._threads = [
            threading.Thread(target=self._run, args=(reader, turn), name=f"store-reader-{number}", daemon=True)
            for number, (reader, turn) in enumerate(zip(database.readers, self._turns, strict=True))
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, query: Query[T]) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.put(Job(query, future))
        return future

    @contextmanager
    def paused(self) -> Iterator[bool]:
        """For the writer's thread: nobody reads meanwhile. False if one did not finish in time."""
        with ExitStack() as held:
            for turn in self._turns:
                if not turn.acquire(timeout=PAUSE_SECONDS):
                    yield False
                    return
                held.callback(turn.release)
            yield True

    def are_alive(self) -> bool:
        return all(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        """For the writer's thread: answers what was asked, then closes the connections."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self, connection: sqlite3.Connection, turn: threading.Lock) -> None:
        while (job := self._queue.get()) is not None:
            with turn:
                self._answer(connection, job)
            try:
                self._loop.call_soon_threadsafe(job.settle)
            except RuntimeError:  # the loop is closed: nobody waits any more
                break
        connection.close()

    def _answer(self, connection: sqlite3.Connection, job: Job[Any]) -> None:
        try:
            job.result = job.query(connection)
        except StoreError as error:
            job.error = error
        except sqlite3.Error as error:
            job.error = translated(error, self._database.path)
            job.error.__cause__ = error
        except Exception as error:  # noqa: BLE001 - worker boundary: the thread outlives a query that fails
            job.error = StoreUnavailable(f"{self._database.path}: got {error!r} from a query; please report it")
            job.error.__cause__ = error
