"""signers/key_threads.py: what hangs takes nobody along."""

from __future__ import annotations

import asyncio
import threading

import pytest

from asynctest import async_test
from kubevouch.signers.interface import SignerUnavailable
from kubevouch.signers.key_threads import SECONDS, WAITING, KeyThreads
from kubevouch.testing.clock import FakeClock, settle
from kubevouch.util.worker import working_for


@async_test
async def test_what_hangs_is_given_up_and_takes_no_place_when_it_is_back() -> None:
    clock, release = FakeClock(), threading.Event()
    threads = KeyThreads(2, clock)
    hanging = [asyncio.ensure_future(threads.run(release.wait)) for _ in range(2 + WAITING)]
    await settle()
    with pytest.raises(SignerUnavailable, match="busy") as busy:
        await threads.run(int)
    assert busy.value.retry_after < 1
    clock.advance(SECONDS)
    for first in hanging[:2]:
        with pytest.raises(SignerUnavailable, match="has not answered within 10 s"):
            await first
    with pytest.raises(SignerUnavailable, match="has not answered 2 times"):
        await threads.run(int)
    release.set()
    assert await asyncio.gather(*hanging[2:]) == [True] * WAITING
    assert await threads.run(int) == 0


@async_test
async def test_errors_are_raised_where_the_work_is_waited_for() -> None:
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await KeyThreads(1, FakeClock()).run(fail)


@async_test
async def test_requesters_take_turns_and_each_may_wait() -> None:
    clock, release, order = FakeClock(), threading.Event(), list[str]()
    threads = KeyThreads(1, clock)

    def use_key(flow: str) -> None:
        release.wait()
        order.append(flow)

    async def sign(flow: str) -> None:
        with working_for(flow):
            await threads.run(lambda: use_key(flow))

    busy = [asyncio.ensure_future(sign("flood")) for _ in range(1 + WAITING)]
    await settle()
    with pytest.raises(SignerUnavailable, match="busy"):
        await sign("flood")
    other = asyncio.ensure_future(sign("other"))
    await settle()
    clock.advance(1.0)
    release.set()
    await asyncio.gather(other, *busy)
    assert order[:2] == ["flood", "other"]


@async_test
async def test_who_waits_for_what_hangs_is_sent_away_and_who_gives_up_leaves_his_place() -> None:
    clock, release = FakeClock(), threading.Event()
    threads = KeyThreads(1, clock)
    hanging, waiting, cancelled = (asyncio.ensure_future(threads.run(release.wait)) for _ in range(3))
    await settle()
    cancelled.cancel()
    clock.advance(2 * SECONDS)
    for each in (hanging, waiting):
        with pytest.raises(SignerUnavailable):
            await each
    release.set()
    while True:
        try:
            assert await threads.run(int) == 0
            break
        except SignerUnavailable:  # the thread is on its way back
            await settle()
