"""Many timers on one task and one clock."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable

from kubevouch.util.clock import Clock


class Timers:
    """Calls callbacks at monotonic times of a clock, ``tick`` seconds late at most.

    A task a timer would be the costliest part of an idle watch; here a watch costs one heap entry.
    """

    def __init__(self, clock: Clock, *, tick: float = 0.5) -> None:
        self._clock = clock
        self._tick = tick
        self._heap: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()
        self._task: asyncio.Task[None] | None = None

    def at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Call ``callback`` once the clock's monotonic time has reached ``when``."""
        timer = Timer(callback)
        heapq.heappush(self._heap, (when, next(self._numbers), timer))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="timers")
        return timer

    async def _run(self) -> None:
        while self._heap:
            await self._clock.sleep(self._tick)
            now = self._clock.monotonic()
            while self._heap and self._heap[0][0] <= now:
                heapq.heappop(self._heap)[2].fire()

    async def close(self) -> None:
        self._heap.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})


class Timer:
    """One pending callback."""

    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self._callback = None

    def fire(self) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()
