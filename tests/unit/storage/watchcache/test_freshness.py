"""How old what a server knows may be."""

from __future__ import annotations

import asyncio

import pytest

from asynctest import async_test
from kubevouch.storage.watchcache.freshness import PATIENCE_SECONDS, Freshness, StaleError
from kubevouch.testing import FakeClock
from kubevouch.testing.clock import settle


@async_test
async def test_what_is_confirmed_while_patience_ends_is_fresh() -> None:
    """In a busy loop a turn takes long, and both come in one."""
    clock = FakeClock()
    confirmed: list[asyncio.Event] = []

    async def newest() -> int:
        confirmed.append(asyncio.Event())
        await confirmed[-1].wait()
        return 1

    freshness = Freshness(newest, clock)
    judging = asyncio.ensure_future(freshness.expect())
    await settle()
    clock.advance(PATIENCE_SECONDS - 0.5)
    confirmed[0].set()
    await settle()
    assert len(confirmed) == 2
    # Its time is over, and what it waits for is there, before it is told of either.
    clock.advance(0.5)
    confirmed[1].set()
    await judging


@async_test
async def test_what_is_not_confirmed_is_not_fresh() -> None:
    clock = FakeClock()

    async def newest() -> int:
        await asyncio.get_running_loop().create_future()
        return 1

    freshness = Freshness(newest, clock)
    judging = asyncio.ensure_future(freshness.expect())
    await settle()
    clock.advance(PATIENCE_SECONDS)
    with pytest.raises(StaleError):
        await judging
    await freshness.close()
