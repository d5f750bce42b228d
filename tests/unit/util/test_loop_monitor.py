"""What the loop monitor calls a stall, and that it finds one where it happens."""

from __future__ import annotations

import asyncio
import time

import pytest
import uvloop

import stalls
from kubevouch.util.loop_monitor import STALL_SECONDS, Lines, Look, LoopMonitor, Stall, longest_step, observed

HERE = (__file__, 1, "here")
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def look(
    at: float,
    step: object = None,
    *,
    cpu: float | None = None,
    starved: float = 0.0,
    collected: float = 0.0,
    blind: float = 0.0,
) -> Look:
    return Look(at, at if cpu is None else cpu, starved, collected, blind, step, (HERE,) if step else ())


# ------------------------------------------------------------------ deciding


def test_a_step_lasts_from_the_first_look_to_the_last() -> None:
    stall = longest_step([look(0.0), look(0.01, "a"), look(0.05, "a"), look(0.09, "a"), look(0.1)])
    assert stall is not None
    assert stall.seconds == pytest.approx(0.08) and stall.cpu_seconds == pytest.approx(0.08)


def test_many_steps_are_none() -> None:
    stall = longest_step([look(0.02 * number, 1 + number // 2) for number in range(100)])
    assert stall is not None and stall.seconds == pytest.approx(0.02)


def test_a_loop_that_waits_does_not_stall() -> None:
    assert longest_step([look(0.0), look(5.0)]) is None


def test_time_without_a_processor_does_not_count() -> None:
    stall = longest_step([look(0.0, "a"), look(1.0, "a", cpu=0.01, starved=0.97)])
    assert stall is not None
    assert stall.seconds == pytest.approx(0.03) and stall.cpu_seconds == pytest.approx(0.01)


def test_waiting_in_a_system_call_counts_though_it_takes_no_processor_time() -> None:
    stall = longest_step([look(0.0, "fsync", cpu=0.0), look(1.0, "fsync", cpu=0.0)])
    assert stall is not None and (stall.seconds, stall.cpu_seconds) == (1.0, 0.0)


def test_what_allowed_no_look_belongs_to_the_step_that_is_seen_after_it() -> None:
    stall = longest_step([look(0.0), look(0.8, "sort", blind=0.7), look(0.81, "sort"), look(0.9)])
    assert stall is not None and stall.seconds == pytest.approx(0.71)


def test_time_of_the_collector_is_told_apart() -> None:
    stall = longest_step([look(0.0, "a"), look(1.0, "a", collected=0.9)])
    assert stall is not None and stall.collector_seconds == pytest.approx(0.9)


def test_the_place_is_where_most_of_the_time_went() -> None:
    def at(when: float, function: str) -> Look:
        return Look(
            when,
            when,
            step="a",
            stack=(("/lib/json.py", 3, "loads"), (LoopMonitor.stop.__code__.co_filename, 7, function)),
        )

    stall = longest_step([at(0.0, "short"), at(0.3, "long"), at(0.6, "long"), at(0.61, "short"), look(0.7)])
    assert stall is not None and stall.place == "lib/json.py:3 loads < util/loop_monitor.py:7 long"


def test_lines_have_a_rate() -> None:
    lines = Lines()
    told = [lines.take(100.0) for _ in range(30)]
    assert told == [0] * 10 + [None] * 20
    assert lines.take(111.0) == 20 and lines.take(111.0) is None


# ------------------------------------------------------------------ looking


async def compute(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        sum(range(1000))


async def in_slices() -> None:
    for _ in range(10):
        await compute(STALL_SECONDS / 3)
        await asyncio.sleep(0)


async def one_call() -> None:
    await in_slices()  # the monitor's first looks, each of which may wait for the interpreter, are behind it
    sum(range(20_000_000))


def monitored(work: object, loop: str) -> list[Stall]:
    """The stalls while ``work`` runs."""
    found: list[Stall] = []

    async def run() -> None:
        monitor = LoopMonitor()
        monitor.start()
        try:
            await work()  # type: ignore[operator]  # a coroutine function
            for _ in range(3):
                # The monitor's question is answered in a turn of its own.
                await asyncio.to_thread(len, ())
        finally:
            monitor.stop()

    with observed(found.append), asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(run())
    return found


@pytest.mark.parametrize("loop", LOOPS)
def test_finds_the_function_that_computes(loop: str) -> None:
    stall, *_ = monitored(lambda: compute(4 * STALL_SECONDS), loop)
    assert stall.cpu_seconds > STALL_SECONDS and stall.stack[0][2] == "compute"


@pytest.mark.parametrize("loop", LOOPS)
def test_finds_a_call_that_keeps_the_interpreter(loop: str) -> None:
    # On a busy machine a look may be late for want of a processor: then nothing is known, and nothing told.
    rounds = (monitored(one_call, loop) for _ in range(20))
    # Whoever called it may be where the look finds the loop.
    assert any({stall.stack[0][2] for stall in found} & {"one_call", "run"} for found in rounds)


@pytest.mark.parametrize("loop", LOOPS)
def test_work_in_slices_is_no_stall(loop: str) -> None:
    assert [stall for stall in monitored(in_slices, loop) if stall.cpu_seconds > STALL_SECONDS] == []


def test_ends_with_its_loop() -> None:
    monitor = LoopMonitor()

    async def start() -> None:
        monitor.start()

    asyncio.run(start())
    monitor.stop()
    monitor.stop()


# ------------------------------------------------------------------ for tests


LINE = 'W1122 10:00:00.000000 1 loop_monitor] "event loop held" seconds=0.9 cpu={} collector=0.0 place="a.py:1 b"\n'
JSON = '{{"ts": 1, "level": "warning", "msg": "event loop held", "logger": "loop_monitor", "seconds": 9, "cpu": {}}}\n'


@pytest.mark.parametrize("line", [LINE, JSON])
def test_lines_of_a_server_are_judged_by_processor_time(line: str) -> None:
    stalls.expect_no_stalls("ready\n" + line.format(0.01) + "stopping\n")
    with pytest.raises(stalls.LoopStalled):
        stalls.expect_no_stalls("ready\n" + line.format(0.2) + "stopping\n")
    assert stalls.without_stalls("ready\n" + line.format(0.2) + "stopping\n") == "ready\nstopping\n"
