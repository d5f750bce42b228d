"""Work with a key that may block, and may never come back, beside the loop and apart from everybody else's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from kubevouch.pki.authority import CertificateAuthority
from kubevouch.signers.interface import SignerUnavailable
from kubevouch.util.clock import Clock, wait_at_most
from kubevouch.util.worker import FairQueue, current_flow, elsewhere

T = TypeVar("T")

SECONDS = 10.0
"""How long a signature may take: an HSM over a network takes some milliseconds."""

WAITING = 2
"""How many of one requester may wait for a place. More are sent away for a moment: who waits holds a worker that others
need. Of several requesters, the one that has used the key for the shortest time is next."""
_FULL_RETRY_SECONDS = 0.05


async def sign_beside(authority: CertificateAuthority, threads: KeyThreads, work: Callable[[], T]) -> T:
    """What ``work`` gives, which signs something of a CA's own, such as a CRL: beside the loop, and on ``threads`` if
    the key is in a token, so that one that hangs stops nothing else that is done beside the loop.

    Raises:
        SignerUnavailable: as :meth:`KeyThreads.run`.
    """
    return await (elsewhere(work) if authority.has_key else threads.run(work))


class KeyThreads:
    """At most ``limit`` threads. One that hangs keeps its place, and ends with the process."""

    def __init__(self, limit: int, clock: Clock, seconds: float = SECONDS) -> None:
        self._limit = limit
        self._clock = clock
        self._seconds = seconds
        self._hanging = 0
        self._taken = 0
        self._queue: FairQueue[asyncio.Future[None]] = FairQueue()

    async def run(self, work: Callable[[], T]) -> T:
        """What ``work`` gives or raises.

        Raises:
            SignerUnavailable: it takes longer than it may, or there is no place for it now.
        """
        if self._hanging == self._limit:
            raise SignerUnavailable(f"what holds the key has not answered {self._hanging} times")
        flow = current_flow()
        if self._taken == self._limit and self._queue.count(flow) >= WAITING:
            raise SignerUnavailable("what holds the key is busy", _FULL_RETRY_SECONDS)
        await self._take_place(flow)
        return await self._run(flow, work)

    async def _take_place(self, flow: str) -> None:
        if self._taken < self._limit:
            self._taken += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._queue.add(flow, turn)
        try:
            # By then whoever has the places is given up, so that they may never come free.
            await wait_at_most(self._clock, turn, 2 * self._seconds)
        except TimeoutError:
            raise SignerUnavailable("what holds the key is busy") from None
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave_place(flow, 0.0)
            raise

    def _leave_place(self, flow: str, seconds: float) -> None:
        """To whoever is next."""
        self._queue.charge(flow, seconds)
        while (following := self._queue.take()) is not None:
            if not following[1].done():
                following[1].set_result(None)
                return
        self._taken -= 1

    async def _run(self, flow: str, work: Callable[[], T]) -> T:
        begun = self._clock.monotonic()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        given_up = False

        def done(result: T | None, error: BaseException | None) -> None:
            self._leave_place(flow, self._clock.monotonic() - begun)
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
