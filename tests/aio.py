"""Runs the coroutine of a test on a loop of its own, and fails the test for what asyncio itself would only log.

    def test_watch_delivers_bookmarks() -> None:
        async def scenario() -> None: ...
        aio.run(scenario())

Fails when the loop was blocked, when tasks outlive the test, and when an exception reached nobody.
"""

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")

BLOCKED_SECONDS = 3.0
"""How long nobody else may get his turn, not counting the time for which this process waited for a processor."""

LAST_STEP_SECONDS = 0.2
"""How long a task may go on after its test, counted in the same way."""

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
"""For tests that run on both: `@pytest.mark.parametrize("loop", aio.LOOPS)`."""


class BlockedLoop(AssertionError):
    """Something ran for too long without giving way; the text shows where, as far as Python could see it."""


class LeftoverTasks(AssertionError):
    """Tasks were still running when the test was over: somebody neither awaited nor cancelled them."""


class UnhandledExceptions(AssertionError):
    """The loop's exception handler was called: a callback or a forgotten task raised."""


def run(coroutine: Coroutine[Any, Any, T], *, loop: str = "asyncio", blocked_seconds: float = BLOCKED_SECONDS) -> T:
    """The result of `coroutine`, run on a fresh loop of the kind `loop`, under the guards of this module."""
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        return runner.run(guarded(coroutine, blocked_seconds))


async def guarded(coroutine: Coroutine[Any, Any, T], blocked_seconds: float) -> T:
    unhandled: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    with loop_guard(blocked_seconds):
        result = await coroutine
    leftover = asyncio.all_tasks() - {asyncio.current_task()}
    if leftover:
        # Those that are about to end are nobody's mistake: a closed connection's handler still has its last step.
        leftover = await _lasting(leftover)
    if leftover:
        raise LeftoverTasks("\n".join(repr(task) for task in leftover))
    if unhandled:
        cause = next((context["exception"] for context in unhandled if "exception" in context), None)
        raise UnhandledExceptions("\n".join(str(context) for context in unhandled)) from cause
    return result


async def _lasting(tasks: set[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
    """Those that are still running after LAST_STEP_SECONDS in which this process had a processor."""
    begun = time.monotonic() - processor_delays()
    while tasks and time.monotonic() - processor_delays() < begun + LAST_STEP_SECONDS:
        _, tasks = await asyncio.wait(tasks, timeout=LAST_STEP_SECONDS / 4)
    return tasks


@contextmanager
def loop_guard(blocked_seconds: float = BLOCKED_SECONDS) -> Iterator[None]:
    """Raises BlockedLoop at its end if the running loop left a callback waiting for longer than `blocked_seconds`.

    asyncio's debug mode finds slow callbacks too, but it changes what aiohttp answers to an error, slows every task
    and cannot say which line was at fault. A thread that keeps asking for a turn can: it sees the loop's stack.
    """
    watchdog = _Watchdog(asyncio.get_running_loop(), blocked_seconds)
    watchdog.start()
    try:
        yield
    finally:
        watchdog.stop()
    if watchdog.findings:
        raise BlockedLoop("\n".join(watchdog.findings))


class _Watchdog(threading.Thread):
    def __init__(self, loop: asyncio.AbstractEventLoop, blocked_seconds: float) -> None:
        super().__init__(name="loop-watchdog", daemon=True)
        self.findings: list[str] = []
        self._loop = loop
        self._loop_thread = threading.get_ident()
        self._blocked_seconds = blocked_seconds
        self._stopped = threading.Event()
        self._stopped_at = float("inf")

    def stop(self) -> None:
        # While this joins, the loop gives nobody a turn: that is no finding.
        self._stopped_at = time.monotonic()
        self._stopped.set()
        self.join()

    def run(self) -> None:
        while not self._stopped.wait(self._blocked_seconds / 4):
            self._ask_for_a_turn()

    def _ask_for_a_turn(self) -> None:
        turn = threading.Event()
        turns: list[float] = []

        def take_turn() -> None:
            turns.append(time.monotonic())
            turn.set()

        this_thread = threading.get_native_id()  # its own waits lengthen no turn of the loop
        starved = processor_delays(this_thread)
        asked = time.monotonic()
        self._loop.call_soon_threadsafe(take_turn)
        stack = "in code that held the interpreter lock\n"
        while not turn.wait(0.01) and not self._stopped.is_set() and time.monotonic() < asked + self._blocked_seconds:
            pass
        if not (turn.is_set() or self._stopped.is_set()):
            stack = "".join(traceback.format_stack(sys._current_frames()[self._loop_thread]))
            while not (turn.wait(0.01) or self._stopped.is_set()):
                pass
        waited = (turns[0] if turns else min(time.monotonic(), self._stopped_at)) - asked
        if waited > self._blocked_seconds:
            # Other programs had the processors, or a thread that lost its own held the interpreter lock meanwhile.
            waited -= max(processor_delays(this_thread) - starved, 0.0)
        if waited > self._blocked_seconds:
            self.findings.append(f"the event loop was blocked for {waited:.1f} s, when last seen:\n{stack}")


async def until(happened: Callable[[], bool]) -> None:
    """Gives way until it has; the test's own time limit ends what never does."""
    while not happened():  # noqa: ASYNC110 - what happens is seen from outside only
        await asyncio.sleep(0)


def processor_delays(besides: int = 0) -> float:
    """Seconds for which threads of this process were ready to run and had no processor; 0 where nobody counts.

    ``besides`` is a thread, by its ID in the kernel, that does not count.
    """
    nanoseconds = 0
    for statistics in Path("/proc/self/task").glob("*/schedstat"):
        if statistics.parent.name == str(besides):
            continue
        try:
            nanoseconds += int(
                statistics.read_text().split()[1]
            )  # run_delay: docs.kernel.org/scheduler/sched-stats.html
        except (FileNotFoundError, ProcessLookupError):  # the thread has ended
            continue
    return nanoseconds / 1e9
