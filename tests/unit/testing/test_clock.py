from __future__ import annotations

import asyncio
import datetime as dt

import pytest

from asynctest import async_test
from kubevouch.testing.clock import DEFAULT_START, FakeClock


@async_test
async def test_an_advance_wakes_those_who_are_due_in_order() -> None:
    clock, woken = FakeClock(), []

    async def sleep(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((seconds, clock.monotonic()))

    sleepers = [asyncio.create_task(sleep(seconds)) for seconds in (30, 10, 20)]
    await clock.until_asleep(3)
    clock.advance(25)
    await asyncio.gather(sleepers[1], sleepers[2])
    assert woken == [(10, 25), (20, 25)]
    assert clock.sleepers == 1
    clock.advance(5)
    await sleepers[0]
    assert clock.now() == DEFAULT_START + dt.timedelta(seconds=30)


@async_test
async def test_run_stops_at_every_deadline() -> None:
    clock, seen = FakeClock(), []

    async def tick() -> None:
        while True:
            await clock.sleep(10)
            seen.append(clock.monotonic())

    ticking = asyncio.create_task(tick())
    await clock.run(35)
    assert (seen, clock.monotonic()) == ([10, 20, 30], 35)
    ticking.cancel()


@async_test
async def test_a_turned_wall_clock_wakes_nobody() -> None:
    clock = FakeClock()
    sleeping = asyncio.create_task(clock.sleep(1))
    await clock.until_asleep()
    clock.set(DEFAULT_START - dt.timedelta(days=1))
    await asyncio.sleep(0)
    assert not sleeping.done()
    assert clock.monotonic() == 0
    sleeping.cancel()


def test_times_without_a_zone_and_steps_back_are_refused() -> None:
    with pytest.raises(ValueError, match="without a time zone"):
        FakeClock(dt.datetime(2026, 1, 1))  # noqa: DTZ001
    with pytest.raises(ValueError, match=r"only set\(\) turns the wall clock back"):
        FakeClock().advance(-1)
