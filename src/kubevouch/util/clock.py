"""The only source of the current time and of waiting.

Everything that asks for the time or sleeps takes a ``Clock``, so that tests move time instead of passing it. asyncio is
imported by those who wait: loading it takes a sixth of the 150 ms that the credential plug-in has.
"""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Awaitable
from typing import Protocol, TypeVar

T = TypeVar("T")

UTC = dt.UTC


class Clock(Protocol):
    """Wall clock, monotonic clock and waiting in one injectable thing."""

    def now(self) -> dt.datetime:
        """The wall-clock time, timezone-aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never steps backwards; only differences mean anything."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for ``seconds`` of monotonic time; zero or less yields once."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> dt.datetime:
        return dt.datetime.now(UTC)

    # As it is: it is asked some eighty times a join.
    monotonic = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        import asyncio

        await asyncio.sleep(max(seconds, 0.0))


def process_age() -> float:
    """Seconds since this process was started, to a hundredth: what it has loaded since counts, too (proc(5), Linux).

    Raises:
        OSError: there is no /proc.
    """
    with open("/proc/self/stat", "rb") as file:  # noqa: PTH123 - pathlib is not loaded by all who have a clock
        # The second field is the program's name in parentheses, which may hold anything.
        started = int(file.read().rpartition(b")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf("SC_CLK_TCK")


async def wait_at_most(clock: Clock, awaitable: Awaitable[T], seconds: float) -> T:
    """Await ``awaitable`` for at most ``seconds`` of ``clock`` time.

    Raises:
        TimeoutError: the time passed first; the awaitable was cancelled.
    """
    import asyncio

    work = asyncio.ensure_future(awaitable)
    timer = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({work, timer}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        raise TimeoutError
    finally:
        for task in (work, timer):
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
