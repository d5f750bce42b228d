"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import datetime as dt
import heapq
import itertools

DEFAULT_START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


class FakeClock:
    """A ``kubevouch.util.clock.Clock`` under the control of a test.

    Time counts in whole microseconds, so that a sleep of 0.1 s ends when 0.1 s have been advanced, however often.
    Not for use from several threads, except for reading the time.
    """

    def __init__(self, start: dt.datetime = DEFAULT_START) -> None:
        _check_aware(start)
        self._now = start
        self._elapsed = 0
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self._arrivals: list[asyncio.Future[None]] = []

    def now(self) -> dt.datetime:
        return self._now

    def monotonic(self) -> float:
        return self._elapsed / 1_000_000

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        # Never zero: a sleeper that waits for the rest of a microsecond must not spin.
        deadline = self._elapsed + max(round(seconds * 1_000_000), 1)
        heapq.heappush(self._sleepers, (deadline, next(self._order), woken))
        for arrival in self._arrivals:
            if not arrival.done():
                arrival.set_result(None)
        await woken

    @property
    def sleepers(self) -> int:
        """How many are asleep."""
        return sum(not woken.done() for _, _, woken in self._sleepers)

    async def until_asleep(self, sleepers: int = 1) -> None:
        """Waits until at least so many are asleep: what a test does before it moves time for them."""
        while self.sleepers < sleepers:
            arrival = asyncio.get_running_loop().create_future()
            self._arrivals.append(arrival)
            try:
                await arrival
            finally:
                self._arrivals.remove(arrival)

    def advance(self, seconds: float) -> None:
        """Moves both clocks and wakes whoever is due, in the order of their deadlines.

        They run when the caller next waits, and all see the time at the end: a loop that sleeps 10 s at a time wakes
        once in 60 s. ``run`` lets it wake six times.
        """
        if seconds < 0:
            raise ValueError(f"got {seconds} s, expected 0 or more: only set() turns the wall clock back")
        self._move_to(self._elapsed + round(seconds * 1_000_000))

    async def run(self, seconds: float) -> None:
        """Moves both clocks from deadline to deadline; who is woken runs, at that time, before time goes on."""
        end = self._elapsed + round(seconds * 1_000_000)
        await settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            self._move_to(self._sleepers[0][0])
            await settle()
        self._move_to(end)
        await settle()

    def set(self, now: dt.datetime) -> None:
        """Sets the wall clock, forwards or backwards, as an operator or NTP would. Sleepers do not notice."""
        _check_aware(now)
        self._now = now

    def _move_to(self, elapsed: int) -> None:
        self._now += dt.timedelta(microseconds=elapsed - self._elapsed)
        self._elapsed = elapsed
        while self._sleepers and self._sleepers[0][0] <= elapsed:
            _, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                woken.set_result(None)


SETTLING_TURNS = 20
"""Turns of the loop that ``FakeClock.run`` gives to those it woke: enough for a few awaits deep, not for real I/O."""


async def settle() -> None:
    """Let those who were just woken run."""
    for _ in range(SETTLING_TURNS):
        await asyncio.sleep(0)


def _check_aware(moment: dt.datetime) -> None:
    if moment.tzinfo is None:
        raise ValueError(f"got {moment.isoformat()} without a time zone, expected one, such as datetime.UTC")
