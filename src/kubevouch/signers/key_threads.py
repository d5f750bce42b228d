"""Work with a key that may block, and may never come back, beside the loop and apart from everybody else's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from kubevouch.signers.interface import SignerUnavailable
from kubevouch.util.clock import Clock, wait_at_most

T = TypeVar("T")

SECONDS = 10.0
"""How long a signature may take: an HSM over a network takes some milliseconds."""

WAITING = 2
"""How many may wait for a place. More are sent away for a moment: who waits holds a worker that others need."""
_FULL_RETRY_SECONDS = 0.05


class KeyThreads:
    """At most ``limit`` threads. One that hangs keeps its place, and ends with the process."""

    def __init__(self, limit: int, clock: Clock, seconds: float = SECONDS) -> None:
        self._places = asyncio.Semaphore(limit)
        self._limit = limit
        self._clock = clock
        self._seconds = seconds
        self._hanging = 0
        self._here = 0

    async def run(self, work: Callable[[], T]) -> T:
        """What ``work`` gives or raises.

        Raises:
            SignerUnavailable: it takes longer than it may, or there is no place for it now.
        """
        if self._hanging == self._limit:
            raise SignerUnavailable(f"what holds the key has not answered {self._hanging} times")
        if self._here + self._hanging >= self._limit + WAITING:
            raise SignerUnavailable("what holds the key is busy", _FULL_RETRY_SECONDS)
        self._here += 1
        try:
            return await self._run(work)
        finally:
            self._here -= 1

    async def _run(self, work: Callable[[], T]) -> T:
        await self._places.acquire()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        given_up = False

        def done(result: T | None, error: BaseException | None) -> None:
            self._places.release()
            if given_up:
                self._hanging -= 1
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)  # type: ignore[arg-type]  # None only beside an error, or as a result

        def body() -> None:
            result, error = None, None
            try:
                result = work()
            except Exception as err:  # noqa: BLE001 - raised again where it is waited for
                error = err
            try:
                loop.call_soon_threadsafe(done, result, error)
            except RuntimeError:
                return  # the loop has ended meanwhile

        # A thread of an executor would hold up the end of the process for ever.
        threading.Thread(target=body, name="ThreadPoolExecutor-key", daemon=True).start()
        try:
            return await wait_at_most(self._clock, future, self._seconds)
        except TimeoutError:
            given_up = True
            self._hanging += 1
            raise SignerUnavailable(f"what holds the key has not answered within {self._seconds:.0f} s") from None
