"""The queue between informers and workers.

A key waits at most once, is worked on by one worker at a time, and if it is added meanwhile, once more afterwards
(k8s.io/client-go util/workqueue, Kubernetes 1.36). Unlike there, keys belong to flows, such as all of one requester:
flows take turns, however many keys each has, and none holds all workers.
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


class FlowTurns(Generic[K]):
    """Keys that wait, by flow. Flows take turns, and within each the oldest key comes first."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[K]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, flow: str, key: K) -> None:
        self._waiting.setdefault(flow, deque()).append(key)
        self._count += 1

    def take(self, may: Callable[[str], bool]) -> tuple[str, K] | None:
        """The next key, with its flow, of those that ``may`` have one; None if there is none."""
        flow = next(filter(may, self._waiting), None)
        if flow is None:
            return None
        keys = self._waiting.pop(flow)
        key = keys.popleft()
        if keys:
            self._waiting[flow] = keys  # behind all others
        self._count -= 1
        return flow, key


_PER_FREE_WORKER = 2
"""How many keys of one flow may be worked on for each worker that is free: of one flow two thirds of all workers, of
two flows two fifths each. So whoever comes finds one that is free."""


class Workqueue(Generic[K]):
    """Keys to work on. For one event loop; only :meth:`get` waits.

    Args:
        flow: the flow of a key that is added; without it all keys are of one flow.
        workers: how many keys are worked on at once; without it a flow may have any number of them.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        limiter: RateLimiter[K] | None = None,
        metrics: WorkqueueMetrics | None = None,
        flow: Callable[[K], str] | None = None,
        workers: int | None = None,
    ) -> None:
        self._clock = clock
        self._limiter: RateLimiter[K] = limiter or controller_rate_limiter(clock)
        self._metrics = metrics or NoMetrics()
        self._flow = flow
        self._workers = workers
        self._ready: FlowTurns[K] = FlowTurns()
        self._dirty: dict[K, float] = {}  # keys to work on, with the time they were added
        self._processing: dict[K, tuple[float, str]] = {}  # keys being worked on, when they were taken, their flow
        self._held: dict[str, int] = {}  # how many workers each flow has
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
            self._make_ready(key)

    def _make_ready(self, key: K) -> None:
        self._ready.add("" if self._flow is None else self._flow(key), key)
        self._wake_one()

    def flow_of(self, key: K) -> str:
        """Of a key that is worked on."""
        return self._processing[key][1]

    async def get(self) -> K:
        """The next key, which has to be given to :meth:`done`.

        Raises:
            WorkqueueShutDown: the queue is shut down, and no key waits.
        """
        while (taken := self._ready.take(self._may_have_worker)) is None:
            if self._shut_down and not self._ready:
                self._wake_one()
                raise WorkqueueShutDown
            await self._wait()
        flow, key = taken
        now = self._clock.monotonic()
        self._metrics.waited(now - self._dirty.pop(key))
        self._processing[key] = now, flow
        self._held[flow] = self._held.get(flow, 0) + 1
        return key

    def _may_have_worker(self, flow: str) -> bool:
        held = self._held.get(flow, 0)
        return not held or self._workers is None or held < _PER_FREE_WORKER * (self._workers - len(self._processing))

    def done(self, key: K) -> None:
        """The work on ``key`` is over; if it was added meanwhile, it waits again."""
        begun, flow = self._processing.pop(key)
        self._metrics.worked(self._clock.monotonic() - begun)
        self._held[flow] -= 1
        if not self._held[flow]:
            del self._held[flow]
        if key in self._dirty:
            self._make_ready(key)
        elif self._ready or self._shut_down:
            self._wake_one()  # a flow that had enough workers may have another one

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
        running = [now - taken for taken, _ in self._processing.values()]
        return WorkqueueGauges(len(self._ready), sum(running), max(running, default=0.0))
