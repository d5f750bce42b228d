from __future__ import annotations

import asyncio

import pytest

from asynctest import async_test
from kubevouch.storage.expiry import LONGEST_SLEEP_SECONDS, RETRY_SECONDS, Sweeper
from kubevouch.storage.interface import StoreUnavailable
from kubevouch.storage.write import microseconds
from kubevouch.testing.clock import FakeClock, settle


class Keys:
    """Times at which keys are due, in seconds from the start; a sweep takes away what is over."""

    def __init__(self, *due: float) -> None:
        self.clock = FakeClock()
        self._start = microseconds(self.clock)
        self.due = [self.at(seconds) for seconds in due]
        self.sweeps: list[float] = []
        self.fails = 0
        self.sweeper = Sweeper(self.clock, self.sweep)

    def at(self, seconds: float) -> int:
        return self._start + round(seconds * 1_000_000)

    async def sweep(self, now: int) -> int | None:
        self.sweeps.append((now - self._start) / 1_000_000)
        if self.fails:
            self.fails -= 1
            raise StoreUnavailable("disk")
        self.due = [each for each in self.due if each > now]
        return min(self.due, default=None)

    def expect(self) -> None:
        for each in self.due:
            self.sweeper.expect(each)


@async_test
async def test_each_key_goes_when_it_is_due() -> None:
    keys = Keys(3, 1, 2.5)
    keys.expect()
    await keys.clock.run(0.999999)
    assert keys.sweeps == []
    await keys.clock.run(10)
    assert keys.sweeps == [1, 2.5, 3]
    assert keys.due == []
    await keys.sweeper.close()


@async_test
async def test_no_task_without_keys() -> None:
    keys = Keys(1)
    assert len(asyncio.all_tasks()) == 1
    keys.expect()
    await keys.clock.run(2)
    await settle()
    assert len(asyncio.all_tasks()) == 1
    keys.due = [keys.at(5)]
    keys.expect()
    await keys.clock.run(5)
    assert keys.sweeps == [1, 5]
    await keys.sweeper.close()


@async_test
async def test_an_earlier_key_wakes_it() -> None:
    keys = Keys(50)
    keys.expect()
    await keys.clock.run(1)
    keys.sweeper.expect(keys.at(2))
    await keys.clock.run(1)
    assert keys.sweeps == [2]
    await keys.sweeper.close()


@async_test
async def test_it_looks_again_in_case_the_clock_was_set() -> None:
    keys = Keys(LONGEST_SLEEP_SECONDS * 10)
    keys.expect()
    await settle()
    keys.clock.set(keys.clock.now().replace(year=keys.clock.now().year + 1))
    await keys.clock.run(LONGEST_SLEEP_SECONDS)
    assert len(keys.sweeps) == 1
    await keys.sweeper.close()


@async_test
async def test_a_failed_sweep_is_tried_again() -> None:
    keys = Keys(1)
    keys.fails = 2
    keys.expect()
    await keys.clock.run(1 + 2 * RETRY_SECONDS)
    assert keys.sweeps == [1, 1 + RETRY_SECONDS, 1 + 2 * RETRY_SECONDS]
    assert keys.due == []
    await keys.sweeper.close()


@pytest.mark.parametrize("begun", [False, True])
@async_test
async def test_closed_for_good(begun: bool) -> None:
    keys = Keys(1)
    if begun:
        keys.expect()
        await settle()
    await keys.sweeper.close()
    keys.expect()
    await keys.clock.run(5)
    assert keys.sweeps == []
