"""signers/key_threads.py: what hangs takes nobody along."""

from __future__ import annotations

import asyncio
import threading

import pytest

from asynctest import async_test
from kubevouch.signers.interface import SignerUnavailable
from kubevouch.signers.key_threads import SECONDS, WAITING, KeyThreads
from kubevouch.testing.clock import FakeClock, settle


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
