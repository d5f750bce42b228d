"""Tasks that are looked after: named, contained when they crash, restarted by policy, ended together."""

from __future__ import annotations

import asyncio
import random as random_module
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from enum import Enum
from types import TracebackType

from kubevouch.util import backoff
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

log = get_logger("util.tasks")

Work = Callable[[], Awaitable[None]]


class PlannedEnd(Exception):
    """What a task raises to end all by ``ESCALATE``, as it is meant to: nothing has crashed."""


class OnCrash(Enum):
    """What becomes of a task that raised."""

    RESTART = "restart"
    """It starts again after a back-off. A task that returns has finished and is not started again."""
    CONTAIN = "contain"
    """It stays down; the others go on."""
    ESCALATE = "escalate"
    """The supervisor ends all tasks and raises what the task raised."""


def restart_delays() -> Iterator[float]:
    """1 s, 2 s … 30 s: kube-controller-manager restarts a worker after 1 s; the growth spares a broken dependency."""
    return backoff.exponential(1.0, 30.0)


# A task that ran this long before it crashed starts over with the shortest delay.
_CALM_SECONDS = 120.0


class Supervisor:
    """A group of tasks that live inside an ``async with`` block.

    Leaving the block cancels what still runs and waits until it has ended. A task's crash is logged and treated by its
    :class:`OnCrash`; it never cancels the block's own code except by ``ESCALATE``.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        delays: Callable[[], Iterator[float]] = restart_delays,
        random: backoff.Random = random_module.random,
    ) -> None:
        self._clock = clock
        self._delays = delays
        self._random = random
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: Exception | None = None
        self._owner: asyncio.Task[object] | None = None
        self._interrupted = False
        self._closing = False

    async def __aenter__(self) -> Supervisor:
        self._owner = asyncio.current_task()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        cancelled = await self._end()
        if self._interrupted and self._owner is not None:
            # Our own interruption is taken back; a cancellation from outside that came as well goes on.
            cancelled = self._owner.uncancel() > 0
        if cancelled:
            raise asyncio.CancelledError
        if self._failure is not None and (error is None or self._interrupted):
            raise self._failure

    @property
    def running(self) -> list[str]:
        """The names of the tasks that have not ended, sorted."""
        return sorted(task.get_name() for task in self._tasks)

    def start(self, name: str, work: Work, on_crash: OnCrash = OnCrash.RESTART) -> asyncio.Task[None]:
        """Run ``work()`` in a task of its own. ``work`` is called again for each restart."""
        if self._closing:
            raise RuntimeError(f"task {name} was started after its supervisor had stopped")
        task = asyncio.create_task(self._run(name, work, on_crash), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def wait(self) -> None:
        """Until every task has ended by itself."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def stop(self) -> None:
        """Cancel every task and wait until all have ended, even if this call is cancelled meanwhile."""
        if await self._end():
            raise asyncio.CancelledError

    async def _end(self) -> bool:
        """Whether the wait for the tasks' end was cancelled."""
        self._closing = True
        cancelled = False
        for task in self._tasks:
            task.cancel()
        while self._tasks:
            try:
                await asyncio.wait(self._tasks)
            except asyncio.CancelledError:
                cancelled = True
        return cancelled

    async def _run(self, name: str, work: Work, on_crash: OnCrash) -> None:
        delays = backoff.CalmingBackoff(self._delays, _CALM_SECONDS)
        while True:
            try:
                await work()
                return
            except Exception as err:  # the worker boundary
                if not isinstance(err, PlannedEnd):
                    log.error("task crashed", task=name, policy=on_crash.value, exc_info=err)
                if on_crash is OnCrash.ESCALATE:
                    self._escalate(err)
                if on_crash is not OnCrash.RESTART:
                    return
            delay = delays.next(self._clock.monotonic())
            await self._clock.sleep(backoff.jittered(delay, self._random, 0.1))

    def _escalate(self, err: Exception) -> None:
        if self._failure is not None:
            return
        self._failure = err
        current = asyncio.current_task()
        for task in self._tasks:
            if task is not current:
                task.cancel()
        if self._owner is not None and not self._closing:
            self._interrupted = True
            self._owner.cancel()


@asynccontextmanager
async def deadline(clock: Clock, seconds: float | None) -> AsyncIterator[None]:
    """``asyncio.timeout`` on an injected clock: the block has ``seconds`` of ``clock`` time, None for no limit.

    Raises:
        TimeoutError: the time passed before the block was done.
    """
    if seconds is None:
        yield
        return
    async with asyncio.timeout(None) as scope:

        async def expire() -> None:
            await clock.sleep(seconds)
            scope.reschedule(asyncio.get_running_loop().time())

        timer = asyncio.create_task(expire())
        try:
            yield
        finally:
            timer.cancel()
