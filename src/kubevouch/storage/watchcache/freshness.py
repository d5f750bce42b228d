"""How old what a server knows may be, where other servers write to the same store.

A server that is cut off from the store's events, in whichever way, hears of no revocation, of no token that was deleted
and of no right that was taken away, and answers as before. So it counts what it has confirmed: everything that was
acknowledged before a moment is known once the caches have reached the revision that the store had after it.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from kubevouch.storage.interface import StoreError
from kubevouch.util.clock import Clock
from kubevouch.util.tasks import deadline

AGE_SECONDS = 1.0
"""How old what a request is judged by may be."""
PATIENCE_SECONDS = 10.0
"""How long a request waits to be judged."""


class StaleError(Exception):
    """What is known is too old, and nothing newer came in time."""


class Moment(NamedTuple):
    """When something was judged: looks had begun, and what the last that has succeeded had found."""

    begun: int
    known: int


class Freshness:
    """Of one server's caches.

    Args:
        newest: waits until the caches hold everything that was acknowledged before it was called, and returns up to
            which revision they do; raises StoreError.
    """

    def __init__(self, newest: Callable[[], Awaitable[int]], clock: Clock) -> None:
        self._newest = newest
        self._clock = clock
        # Both clocks when the newest look began that has succeeded: one stands still while a machine is suspended.
        self._confirmed: tuple[float, dt.datetime] | None = None
        self._begun = self._done = self._known = 0
        self._looking: asyncio.Task[None] | None = None

    @property
    def age(self) -> float:
        """Seconds before which everything is known."""
        if self._confirmed is None:
            return float("inf")
        monotonic, wall = self._confirmed
        return max(self._clock.monotonic() - monotonic, (self._clock.now() - wall).total_seconds())

    async def expect(self) -> None:
        """Everything that was acknowledged a second ago is known. Raises :class:`StaleError`."""
        if self.age <= AGE_SECONDS:
            return
        try:
            async with deadline(self._clock, PATIENCE_SECONDS):
                while self.age > AGE_SECONDS:
                    await asyncio.shield(self._look())
        except (StoreError, TimeoutError) as err:
            # In a busy loop both come within one turn.
            if self.age <= AGE_SECONDS:
                return
            raise StaleError(f"nothing was heard of the store for {self.age:.1f} s: {err or 'no answer'}") from err

    async def has_news_of(self, moment: Moment) -> bool:
        """Whether something came since ``moment``, everything being known that was acknowledged before it.

        For what was refused: whoever was told by another server that something is written may expect it to count here.
        """
        try:
            async with deadline(self._clock, PATIENCE_SECONDS):
                while self._done <= moment.begun:
                    await asyncio.shield(self._look())
        except (StoreError, TimeoutError):
            return False  # then the refusal stands
        return self._known != moment.known

    @property
    def moment(self) -> Moment:
        """Now."""
        return Moment(self._begun, self._known)

    async def keep(self) -> None:
        """For ever: so that hardly any request has to wait."""
        while True:
            try:
                await asyncio.shield(self._look())
            except StoreError:
                pass  # whoever needs it is told
            await self._clock.sleep(AGE_SECONDS / 4)

    def _look(self) -> asyncio.Task[None]:
        """One at a time, for all who wait."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._confirm(), name="freshness")
            # What went wrong is for those who wait; there may be nobody.
            self._looking.add_done_callback(lambda task: task.cancelled() or task.exception())
        return self._looking

    async def _confirm(self) -> None:
        self._begun += 1
        number, begun = self._begun, (self._clock.monotonic(), self._clock.now())
        self._known = await self._newest()
        self._confirmed, self._done = begun, number

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait({self._looking})
