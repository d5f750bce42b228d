"""What owner and worker ask each other."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Mapping

import pytest

from asynctest import async_test
from kubevouch.standalone.workers.control import Answer, Begin, Control, OtherSideGone, Ready
from kubevouch.testing.store_suite import soon


@contextlib.asynccontextmanager
async def both(answers: Mapping[str, Answer]) -> AsyncIterator[tuple[Control, Control]]:
    """The one that answers, and another one."""
    one, other = Control(answers), Control({})
    ours, theirs = socket.socketpair()
    await one.open(ours)
    await other.open(theirs)
    try:
        yield one, other
    finally:
        await one.close()
        await other.close()


@async_test
async def test_a_question_gets_its_own_answer() -> None:
    first = asyncio.Event()

    async def slow(body: bytes) -> bytes:
        await first.wait()
        return b"slow " + body

    async def quick(body: bytes) -> bytes:
        first.set()
        return b"quick " + body

    async with both({"slow": slow, "quick": quick}) as (one, other):
        one.say(Begin(2, "10.0.0.1", 6443))
        assert await soon(other.begun) == Begin(2, "10.0.0.1", 6443)
        other.say(Ready())
        await soon(one.ready.wait())
        slowly, quickly = await soon(asyncio.gather(other.ask("slow", b"1"), other.ask("quick", b"2")))
        assert (slowly, quickly) == (b"slow 1", b"quick 2")


@async_test
async def test_who_asks_one_that_is_gone_is_told() -> None:
    async def never(_: bytes) -> bytes:
        await asyncio.get_running_loop().create_future()
        return b""

    async with both({"never": never}) as (one, other):
        asked = asyncio.ensure_future(other.ask("never"))
        await asyncio.sleep(0)
        await one.close()
        await soon(other.lost.wait())
        with pytest.raises(OtherSideGone):
            await soon(asked)
        with pytest.raises(OtherSideGone):
            await other.ask("never")
