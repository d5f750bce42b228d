"""Waiting for a seat: turns, time-outs, clients that are gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from asynctest import async_test
from kubevouch.authentication.interface import Authentication, Credentials, UserInfo
from kubevouch.machinery import errors
from kubevouch.machinery.errors import APIStatusError
from kubevouch.server.filters.flow_control import FlowControl
from kubevouch.server.flow_control.lanes import Lane, LaneLimits
from kubevouch.server.flow_control.sources import SourceBudget
from kubevouch.server.query import Query
from kubevouch.server.request import BytesResult, Request, Result
from kubevouch.server.request_info import parse
from kubevouch.testing.clock import FakeClock
from kubevouch.util.timers import Timers

LIMITS = {
    Lane.WORKLOAD: LaneLimits(share=100, flow_seats=100),
    Lane.SUSPECT: LaneLimits(share=1, borrows=False, per_turn=1),
}


def request(user: str = "jane", authorization: str | None = None) -> Request:
    path = "/api/v1/namespaces/default/configmaps/x"
    return Request(
        "GET",
        path,
        Query(),
        {},
        FakeClock().now(),
        Credentials(source="192.0.2.1", authorization=authorization),
        info=parse("GET", path, Query()),
        authentication=Authentication(UserInfo(user), "x509") if user else None,
    )


class Handler:
    """Holds every request until it is let go."""

    def __init__(self) -> None:
        self.running = 0
        self.gate = asyncio.Event()

    async def __call__(self, _request: Request) -> Result:
        self.running += 1
        await self.gate.wait()
        return BytesResult(b"", "text/plain")


@asynccontextmanager
async def flow_control(seats: int = 1) -> AsyncIterator[tuple[FlowControl, Handler, FakeClock]]:
    clock = FakeClock()
    timers = Timers(clock)
    budget = SourceBudget(rate=0.1, burst=2)
    yield FlowControl(clock, timers, seats=seats, limits=LIMITS, failures=budget), Handler(), clock
    await timers.close()


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@async_test
async def test_the_next_runs_when_a_seat_is_free() -> None:
    async with flow_control() as (flow, handler, _):
        tasks = [asyncio.create_task(flow.seat(request(), handler)) for _ in range(3)]
        await turns()
        assert handler.running == 1
        handler.gate.set()
        assert [result.status for result in await asyncio.gather(*tasks)] == [200, 200, 200]
        assert flow.scheduler.lanes[Lane.WORKLOAD].running == 0


@async_test
async def test_who_waits_too_long_is_sent_away() -> None:
    async with flow_control() as (flow, handler, clock):
        first, second = (asyncio.create_task(flow.seat(request(), handler)) for _ in range(2))
        await clock.until_asleep()
        while not second.done():
            clock.advance(1)
            await turns()
        assert 15 <= clock.monotonic() <= 17
        with pytest.raises(APIStatusError) as caught:
            await second
        assert caught.value.code == 429
        handler.gate.set()
        await first
        assert flow.scheduler.lanes[Lane.WORKLOAD].timed_out == 1


@async_test
async def test_who_is_cancelled_while_waiting_or_just_admitted_leaves_no_seat_behind() -> None:
    async with flow_control() as (flow, handler, _):
        first, waiting, admitted = (asyncio.create_task(flow.seat(request(), handler)) for _ in range(3))
        await turns()
        waiting.cancel()
        await asyncio.wait({waiting})
        handler.gate.set()
        await first
        flow._turn()
        admitted.cancel()  # its turn has come, but it has not run yet
        await asyncio.wait({admitted})
        state = flow.scheduler.lanes[Lane.WORKLOAD]
        assert (state.running, state.waiting, state.flows) == (0, 0, {})
        assert (await flow.seat(request(), handler)).status == 200


@async_test
async def test_bad_credentials_become_429_and_good_ones_still_pass() -> None:
    async def refuse(_request: Request) -> Result:
        raise errors.unauthorized()

    async with flow_control() as (flow, handler, _):
        codes = []
        for _ in range(4):
            with pytest.raises(APIStatusError) as caught:
                await flow.credentials(request("", "Bearer abcdef.wrong"), refuse)
            codes.append(caught.value.code)
        assert codes == [401, 401, 429, 429]
        assert flow.failures_refused == 2
        handler.gate.set()
        assert (await flow.credentials(request("", "Bearer abcdef.right"), handler)).status == 200
        assert flow.scheduler.lanes[Lane.SUSPECT].dispatched > 0
        assert flow.scheduler.lanes[Lane.SUSPECT].running == 0
