"""The queue between informers and workers.

A key waits at most once, is worked on by one worker at a time, and if it is added meanwhile, once more afterwards
(k8s.io/client-go util/workqueue, Kubernetes 1.36).
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

import msgspec

from kubevouch.client.rate_limiters import RateLimiter, controller_rate_limiter
from kubevouch.util.clock import Clock

K = TypeVar("K", bound=Hashable)


class WorkqueueShutDown(Exception):
    """The queue is shut down and empty: a worker has nothing more to do."""


class WorkqueueGauges(msgspec.Struct, frozen=True):
    """The queue now: keys that wait, seconds worked on unfinished keys together, and on the one that takes longest."""

    depth: int
    unfinished_seconds: float
    longest_running_seconds: float


class WorkqueueMetrics(Protocol):
    """Where a queue reports: client-go's seven metrics."""

    def gauges(self, read: Callable[[], WorkqueueGauges]) -> None:
        """Called once; ``read`` gives depth, unfinished work and longest running whenever they are asked for."""
        ...

    def added(self) -> None: ...

    def retried(self) -> None: ...

    def waited(self, seconds: float) -> None:
        """A key was taken after it had been in the queue for ``seconds``."""
        ...

    def worked(self, seconds: float) -> None:
        """A key was done after ``seconds``."""
        ...


class NoMetrics:
    """Reports to nobody."""

    def gauges(self, read: Callable[[], WorkqueueGauges]) -> None:
        pass

    def added(self) -> None:
        pass

    def retried(self) -> None:
        pass

    def waited(self, seconds: float) -> None:
        pass

    def worked(self, seconds: float) -> None:
        pass


class Workqueue(Generic[K]):
    """Keys to work on. For one event loop; only :meth:`get` waits."""

    def __init__(
        self, clock: Clock, *, limiter: RateLimiter[K] | None = None, metrics: WorkqueueMetrics | None = None
    ) -> None:
        self._clock = clock
        self._limiter: RateLimiter[K] = limiter or controller_rate_limiter(clock)
        self._metrics = metrics or NoMetrics()
        self._ready: deque[K] = deque()
        self._dirty: dict[K, float] = {}  # keys to work on, with the time they were added
        self._processing: dict[K, float] = {}  # keys being worked on, with the time they were taken
        self._getters: deque[asyncio.Future[None]] = deque()
        self._shut_down = False
        self._due: dict[K, float] = {}
        self._delayed: list[tuple[float, int, K]] = []  # may hold entries that _due no longer confirms
        self._order = itertools.count()
        self._timer: asyncio.Task[None] | None = None
        self._timer_due = 0.0
        self._metrics.gauges(self._read_gauges)

    def report_to(self, metrics: WorkqueueMetrics) -> None:
        """Report to ``metrics`` from now on."""
        self._metrics = metrics
        metrics.gauges(self._read_gauges)

    def __len__(self) -> int:
        """How many keys wait; those being worked on and those that are delayed do not count."""
        return len(self._ready)

    def add(self, key: K) -> None:
        """Have ``key`` worked on. After a shutdown, does nothing."""
        if self._shut_down or key in self._dirty:
            return
        self._metrics.added()
        self._dirty[key] = self._clock.monotonic()
        if key not in self._processing:
            self._ready.append(key)
            self._wake_one()

    async def get(self) -> K:
        """The next key, which has to be given to :meth:`done`.

        Raises:
            WorkqueueShutDown: the queue is shut down, and no key waits.
        """
        while not self._ready:
            if self._shut_down:
                raise WorkqueueShutDown
            await self._wait()
        key = self._ready.popleft()
        now = self._clock.monotonic()
        self._metrics.waited(now - self._dirty.pop(key))
        self._processing[key] = now
        return key

    def done(self, key: K) -> None:
        """The work on ``key`` is over; if it was added meanwhile, it waits again."""
        taken = self._processing.pop(key)
        self._metrics.worked(self._clock.monotonic() - taken)
        if key in self._dirty:
            self._ready.append(key)
            self._wake_one()

    def add_after(self, key: K, seconds: float) -> None:
        """Add ``key`` later. Of several times for one key the earliest counts."""
        if self._shut_down:
            return
        if seconds <= 0:
            self.add(key)
            return
        due = self._clock.monotonic() + seconds
        if due >= self._due.get(key, float("inf")):
            return
        self._due[key] = due
        heapq.heappush(self._delayed, (due, next(self._order), key))
        self._arm()

    def add_rate_limited(self, key: K) -> None:
        """Add ``key`` again after a failure, when its rate limiter says so."""
        self._metrics.retried()
        self.add_after(key, self._limiter.when(key))

    def forget(self, key: K) -> None:
        """``key`` has succeeded: its next failure counts as the first."""
        self._limiter.forget(key)

    def requeues(self, key: K) -> int:
        """How often ``key`` has failed in a row."""
        return self._limiter.requeues(key)

    def shut_down(self) -> None:
        """Take no more keys and drop the delayed ones. Keys that wait are still given out."""
        self._shut_down = True
        self._due.clear()
        self._delayed.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for getter in self._getters:
            if not getter.done():
                getter.set_result(None)

    # -------------------------------------------------------------- waiting

    async def _wait(self) -> None:
        getter = asyncio.get_running_loop().create_future()
        self._getters.append(getter)
        try:
            await getter
        except asyncio.CancelledError:
            # Woken and cancelled in the same turn: the key is somebody else's now.
            if getter.done() and not getter.cancelled() and self._ready:
                self._wake_one()
            raise
        finally:
            if getter in self._getters:
                self._getters.remove(getter)

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _arm(self) -> None:
        """Have a timer for the earliest delayed key."""
        while self._delayed and self._due.get(self._delayed[0][2]) != self._delayed[0][0]:
            heapq.heappop(self._delayed)
        if not self._delayed:
            return
        earliest = self._delayed[0][0]
        if self._timer is not None:
            if self._timer_due <= earliest:
                return
            self._timer.cancel()
        self._timer_due = earliest
        self._timer = asyncio.create_task(self._fire(earliest), name="workqueue-timer")

    async def _fire(self, due: float) -> None:
        await self._clock.sleep(due - self._clock.monotonic())
        self._timer = None
        now = self._clock.monotonic()
        while self._delayed and self._delayed[0][0] <= now:
            at, _, key = heapq.heappop(self._delayed)
            if self._due.get(key) == at:
                del self._due[key]
                self.add(key)
        self._arm()

    def _read_gauges(self) -> WorkqueueGauges:
        now = self._clock.monotonic()
        running = [now - taken for taken in self._processing.values()]
        return WorkqueueGauges(len(self._ready), sum(running), max(running, default=0.0))
