"""Deletes keys when their time to live is over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kubevouch.storage.interface import StoreUnavailable
from kubevouch.storage.write import microseconds
from kubevouch.util.clock import Clock

LONGEST_SLEEP_SECONDS = 60.0
"""The wall clock may be set while the sweeper sleeps; it looks at least this often."""

RETRY_SECONDS = 5.0
"""After a sweep that the medium failed."""

Sweep = Callable[[int], Awaitable[int | None]]
"""Deletes what is due at a time and returns when the next key will be, both in microseconds since 1970."""


class Sweeper:
    """Sleeps until the next key is due, then sweeps. It has a task only while some key has a time to live."""

    def __init__(self, clock: Clock, sweep: Sweep) -> None:
        self._clock = clock
        self._sweep = sweep
        self._next: int | None = None
        self._task: asyncio.Task[None] | None = None
        self._asleep = False
        self._closed = False

    def expect(self, expires: int) -> None:
        """Some key is due at ``expires``."""
        if self._closed or (self._next is not None and self._next <= expires):
            return
        self._next = expires
        if self._task is not None and self._asleep:
            self._task.cancel()
            self._task = None
            self._asleep = False
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Ends the task, even in the middle of a sweep."""
        self._closed = True
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    async def _run(self) -> None:
        while self._next is not None:
            now = microseconds(self._clock)
            if now < self._next:
                # Awaited directly: in a task of its own the sleep would begin later than the time it was counted from.
                self._asleep = True
                await self._clock.sleep(min((self._next - now) / 1_000_000, LONGEST_SLEEP_SECONDS))
                self._asleep = False
                continue
            self._next = None
            try:
                following = await self._sweep(now)
            except StoreUnavailable:
                following = now + round(RETRY_SECONDS * 1_000_000)
            if following is not None:
                self.expect(following)
        self._task = None
