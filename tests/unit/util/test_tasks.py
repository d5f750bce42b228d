"""util/tasks.py: supervised tasks and deadlines on an injected clock."""

from __future__ import annotations

import asyncio

import pytest

from asynctest import async_test
from kubevouch.testing.clock import FakeClock
from kubevouch.testing.logs import capture_logs
from kubevouch.util.tasks import OnCrash, PlannedEnd, Supervisor, deadline


class Boom(Exception):
    pass


def supervisor(clock: FakeClock) -> Supervisor:
    return Supervisor(clock, random=lambda: 0.0)


@async_test
async def test_a_crash_is_logged_and_the_task_restarts_after_a_delay() -> None:
    clock = FakeClock()
    started: list[float] = []

    async def work() -> None:
        started.append(clock.monotonic())
        if len(started) < 4:
            raise Boom

    with capture_logs() as logs:
        async with supervisor(clock) as tasks:
            tasks.start("worker", work)
            await clock.run(60)
            await tasks.wait()
    assert started == [0, 1, 3, 7], "1 s, 2 s, 4 s between the starts"
    assert [(entry["event"], entry["task"]) for entry in logs] == [("task crashed", "worker")] * 3


@async_test
async def test_a_long_quiet_run_makes_the_next_restart_quick_again() -> None:
    clock = FakeClock()
    started: list[float] = []

    async def work() -> None:
        started.append(clock.monotonic())
        if len(started) == 3:
            await clock.sleep(500)
        if len(started) < 5:
            raise Boom

    async with supervisor(clock) as tasks:
        tasks.start("worker", work)
        await clock.run(600)
    assert started == [0, 1, 3, 504, 506]


@async_test
async def test_one_crash_does_not_touch_the_others() -> None:
    clock = FakeClock()
    alive = asyncio.Event()

    async def crash() -> None:
        raise Boom

    async def live() -> None:
        await clock.sleep(5)
        alive.set()

    async with supervisor(clock) as tasks:
        tasks.start("broken", crash, OnCrash.CONTAIN)
        tasks.start("good", live)
        await clock.run(1)
        assert tasks.running == ["good"]
        await clock.run(10)
        assert alive.is_set() and tasks.running == []


@async_test
async def test_an_escalated_crash_ends_the_block_and_the_other_tasks() -> None:
    clock = FakeClock()
    cancelled = asyncio.Event()

    async def crash() -> None:
        await clock.sleep(1)
        raise Boom("lost")

    async def live() -> None:
        try:
            await clock.sleep(1000)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async def block() -> None:
        async with supervisor(clock) as tasks:
            tasks.start("vital", crash, OnCrash.ESCALATE)
            tasks.start("other", live)
            await clock.until_asleep(2)
            clock.advance(1)
            await asyncio.Event().wait()

    with pytest.raises(Boom, match="lost"):
        await block()
    assert cancelled.is_set()
    task = asyncio.current_task()
    assert task is not None and task.cancelling() == 0, "the interruption was taken back"


@async_test
async def test_an_end_that_is_planned_ends_all_and_is_no_crash() -> None:
    clock = FakeClock()

    class Begin(PlannedEnd):
        pass

    async def end() -> None:
        raise Begin("anew")

    async def block() -> None:
        async with supervisor(clock) as tasks:
            tasks.start("watch", end, OnCrash.ESCALATE)
            await asyncio.Event().wait()

    with capture_logs() as logs, pytest.raises(Begin, match="anew"):
        await block()
    assert logs == []


@async_test
async def test_a_cancellation_from_outside_wins_over_an_escalation() -> None:
    clock = FakeClock()

    async def crash() -> None:
        raise Boom

    async def block() -> None:
        async with supervisor(clock) as tasks:
            tasks.start("vital", crash, OnCrash.ESCALATE)
            await asyncio.Event().wait()

    task = asyncio.create_task(block())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@async_test
async def test_leaving_the_block_waits_for_the_tasks_clean_up() -> None:
    clock = FakeClock()
    steps: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            steps.append("cleaned up")

    async with supervisor(clock) as tasks:
        tasks.start("worker", work)
        await asyncio.sleep(0)
    assert steps == ["cleaned up"]
    with pytest.raises(RuntimeError, match="worker"):
        tasks.start("worker", work)


@async_test
async def test_the_block_s_own_error_is_kept() -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    async def block() -> None:
        async with supervisor(FakeClock()) as tasks:
            tasks.start("worker", forever)
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await block()


@async_test
async def test_deadline_passes_on_the_clock() -> None:
    clock = FakeClock()

    async def late() -> None:
        async with deadline(clock, 5):
            await asyncio.Event().wait()

    task = asyncio.create_task(late())
    await clock.run(4.9)
    assert not task.done()
    await clock.run(0.1)
    with pytest.raises(TimeoutError):
        await task


@async_test
async def test_deadline_that_is_met_leaves_no_timer() -> None:
    clock = FakeClock()
    async with deadline(clock, 5):
        await asyncio.sleep(0)
    async with deadline(clock, None):
        await asyncio.sleep(0)
    await clock.run(10)
    assert clock.sleepers == 0
