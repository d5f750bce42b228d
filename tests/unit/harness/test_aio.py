import asyncio
import itertools
import threading
import time

import pytest

import aio

LIMIT = 0.1
"""Seconds; small so that the tests are quick, and still far above what a free loop needs for a turn."""

on_both_loops = pytest.mark.parametrize("loop", aio.LOOPS)


@on_both_loops
def test_result_is_returned(loop: str) -> None:
    async def scenario() -> str:
        await asyncio.sleep(0)
        return type(asyncio.get_running_loop()).__module__

    assert loop in aio.run(scenario(), loop=loop)


@on_both_loops
def test_blocked_loop_fails_and_shows_the_line(loop: str) -> None:
    async def scenario() -> None:
        await asyncio.sleep(2 * LIMIT)
        threading.Event().wait(4 * LIMIT)  # the culprit

    with pytest.raises(aio.BlockedLoop, match="the culprit"):
        aio.run(scenario(), loop=loop, blocked_seconds=LIMIT)


@on_both_loops
def test_block_that_ends_the_scenario_is_seen(loop: str) -> None:
    async def scenario() -> None:
        threading.Event().wait(4 * LIMIT)

    with pytest.raises(aio.BlockedLoop):
        aio.run(scenario(), loop=loop, blocked_seconds=LIMIT)


@on_both_loops
def test_computing_is_blocking(loop: str) -> None:
    async def scenario() -> None:
        ends = time.thread_time() + 4 * LIMIT
        while time.thread_time() < ends:
            pass

    with pytest.raises(aio.BlockedLoop):
        aio.run(scenario(), loop=loop, blocked_seconds=LIMIT)


def test_waiting_for_a_processor_is_not_blocking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the kernel's count finds that the process was kept waiting for a second more."""
    seconds = itertools.count()
    monkeypatch.setattr(aio, "processor_delays", lambda _thread: float(next(seconds)))

    async def scenario() -> None:
        threading.Event().wait(4 * LIMIT)

    aio.run(scenario(), blocked_seconds=LIMIT)


def test_the_kernel_counts_waits_for_a_processor() -> None:
    assert 0 < aio.processor_delays() < time.process_time() + 3600


@on_both_loops
def test_waiting_is_not_blocking(loop: str) -> None:
    async def scenario() -> None:
        await asyncio.sleep(4 * LIMIT)

    aio.run(scenario(), loop=loop, blocked_seconds=LIMIT)


@on_both_loops
def test_leftover_task_fails(loop: str) -> None:
    async def forgotten() -> None:
        await asyncio.Event().wait()

    async def scenario() -> None:
        scenario_tasks.append(asyncio.create_task(forgotten(), name="orphan"))

    scenario_tasks: list[asyncio.Task[None]] = []
    with pytest.raises(aio.LeftoverTasks, match="orphan"):
        aio.run(scenario(), loop=loop)


@on_both_loops
def test_task_on_its_last_step_is_no_leftover(loop: str) -> None:
    async def scenario() -> None:
        scenario_tasks.append(asyncio.create_task(asyncio.sleep(0)))

    scenario_tasks: list[asyncio.Task[None]] = []
    aio.run(scenario(), loop=loop)
    assert scenario_tasks[0].done()


@on_both_loops
def test_exception_in_a_callback_fails(loop: str) -> None:
    def raise_it() -> None:
        raise LookupError("nobody catches this")

    async def scenario() -> None:
        asyncio.get_running_loop().call_soon(raise_it)
        await asyncio.sleep(0.01)

    with pytest.raises(aio.UnhandledExceptions) as caught:
        aio.run(scenario(), loop=loop)
    assert isinstance(caught.value.__cause__, LookupError)


@on_both_loops
def test_exception_of_the_scenario_comes_first(loop: str) -> None:
    async def scenario() -> None:
        asyncio.get_running_loop().call_later(3600, print)
        raise LookupError("the test's own")

    with pytest.raises(LookupError):
        aio.run(scenario(), loop=loop)
