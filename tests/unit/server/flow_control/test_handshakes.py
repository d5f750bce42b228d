"""server/flow_control/handshakes.py: so many at once, sources in turn, nobody keeps a slot for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

import aio
from kubevouch.server.flow_control.handshakes import HandshakeSlots

on_each_loop = pytest.mark.parametrize("loop", aio.LOOPS)


class Crowd:
    """Clients that take a slot and keep it until they are told to let go."""

    def __init__(self, slots: HandshakeSlots) -> None:
        self._slots = slots
        self.begun: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, name: str) -> None:
        """``name`` begins with its source."""
        self._ends[name] = asyncio.Event()
        self._tasks[name] = asyncio.create_task(self._hold(name))
        await _settle()

    async def _hold(self, name: str) -> None:
        async with self._slots.slot(name[0]):
            self.begun.append(name)
            await self._ends[name].wait()

    async def go(self, name: str) -> None:
        self._ends[name].set()
        await _settle()

    async def hang_up(self, name: str) -> None:
        self._tasks[name].cancel()
        await _settle()

    async def end(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)


async def _settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@on_each_loop
def test_sources_take_turns(loop: str) -> None:
    async def body() -> None:
        crowd = Crowd(HandshakeSlots(2, seconds=60))
        for name in ("a1", "a2", "a3", "a4", "b1", "c1"):
            await crowd.come(name)
        assert crowd.begun == ["a1", "a2"]
        for name in ("a1", "a2", "a3", "b1"):
            await crowd.go(name)
        assert crowd.begun == ["a1", "a2", "a3", "b1", "c1", "a4"]
        await crowd.end()

    aio.run(body(), loop=loop)


@on_each_loop
def test_who_hangs_up_while_waiting_takes_nothing_along(loop: str) -> None:
    async def body() -> None:
        slots = HandshakeSlots(1, seconds=60)
        crowd = Crowd(slots)
        for name in ("a1", "a2", "b1"):
            await crowd.come(name)
        await crowd.hang_up("a2")
        assert slots.waiting == 1
        await crowd.go("a1")
        assert crowd.begun == ["a1", "b1"]
        await crowd.go("b1")
        await crowd.come("c1")
        assert crowd.begun[-1] == "c1"
        await crowd.end()

    aio.run(body(), loop=loop)


@on_each_loop
def test_a_slot_given_in_the_turn_of_a_hang_up_goes_on(loop: str) -> None:
    async def body() -> None:
        crowd = Crowd(HandshakeSlots(1, seconds=60))
        for name in ("a1", "b1", "c1"):
            await crowd.come(name)
        crowd._ends["a1"].set()
        await asyncio.sleep(0)
        await crowd.hang_up("b1")
        assert crowd.begun[-1] == "c1"
        await crowd.end()

    aio.run(body(), loop=loop)


@on_each_loop
def test_a_stalled_handshake_keeps_its_slot_for_a_time_only(loop: str) -> None:
    async def body() -> None:
        slots = HandshakeSlots(1, seconds=0.01)
        crowd = Crowd(slots)
        await crowd.come("a1")
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def next_one(tell: Callable[[None], None]) -> None:
            async with slots.slot("b"):
                tell(None)

        task = asyncio.create_task(next_one(begun.set_result))
        await asyncio.wait_for(begun, 120)
        await task
        # The stalled one gives back nothing twice.
        await crowd.go("a1")
        assert slots._free == 1
        await crowd.end()

    aio.run(body(), loop=loop)
