from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from asynctest import async_test
from kubevouch.testing.loop_thread import LoopThread


@pytest.fixture
def home() -> Iterator[LoopThread]:
    thread = LoopThread("home")
    thread.start()
    yield thread
    thread.close()
    assert not thread.is_running


async def _where() -> str:
    return threading.current_thread().name


async def _fail() -> None:
    raise LookupError("nothing there")


def test_calls_run_on_the_thread_and_raise_here(home: LoopThread) -> None:
    assert home.call(_where()) == "home"
    assert not home.is_current
    with pytest.raises(LookupError, match="nothing there"):
        home.call(_fail())


@async_test
async def test_other_loops_go_on_while_they_wait() -> None:
    home = LoopThread("home")
    home.start()
    event = asyncio.Event()

    async def wait_there() -> str:
        loop.call_soon_threadsafe(event.set)
        return await _where()

    loop = asyncio.get_running_loop()
    answer, _ = await asyncio.gather(home.reach(wait_there()), event.wait())
    assert answer == "home"
    assert await home.reach(home.reach(_where())) == "home"
    await asyncio.to_thread(home.close)


def test_the_end_cancels_what_still_runs() -> None:
    home, ends = LoopThread("home"), []

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ends.append(True)

    async def begin() -> asyncio.Task[None]:
        task = asyncio.create_task(forever())
        await asyncio.sleep(0)
        return task

    home.start()
    task = home.call(begin())
    home.close()
    assert task.cancelled() and ends == [True]
