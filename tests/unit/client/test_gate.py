from __future__ import annotations

import asyncio

import pytest

from asynctest import async_test
from kubevouch.client.gate import Gate
from kubevouch.client.interface import NotLeading
from kubevouch.testing.clock import FakeClock


class Told:
    def __init__(self) -> None:
        self.waits: list[float] = []

    def waited(self, method: str, seconds: float) -> None:
        self.waits.append(seconds)

    def answered(self, method: str, status: int, seconds: float) -> None: ...


@async_test
async def test_a_burst_goes_at_once_and_what_comes_after_it_is_spread_out() -> None:
    clock, told = FakeClock(), Told()
    gate = Gate(clock, told, qps=10.0, burst=2)
    await gate.enter("GET")
    await gate.enter("PUT")
    third = asyncio.create_task(gate.enter("GET"))
    await clock.until_asleep()
    assert not third.done()
    clock.advance(0.1)
    await third
    assert told.waits == [0.0, 0.0, pytest.approx(0.1)]


@async_test
async def test_without_a_rate_nobody_waits() -> None:
    gate = Gate(FakeClock(), Told(), qps=0.0)
    for _ in range(1000):
        await gate.enter("PUT")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_who_may_act_no_more_writes_nothing_and_still_reads(method: str) -> None:
    async def scenario() -> None:
        gate = Gate(FakeClock(), Told(), may_write=lambda: False)
        await gate.enter("GET")
        with pytest.raises(NotLeading):
            await gate.enter(method)

    asyncio.run(scenario())


@async_test
async def test_a_lease_that_ends_while_a_write_waits_for_its_turn_stops_it() -> None:
    clock, leads = FakeClock(), True
    gate = Gate(clock, Told(), qps=1.0, burst=1, may_write=lambda: leads)
    await gate.enter("PUT")
    waiting = asyncio.create_task(gate.enter("PUT"))
    await clock.until_asleep()
    leads = False
    clock.advance(1.0)
    with pytest.raises(NotLeading):
        await waiting
