"""Long pure work off the event loop: on one thread for requests, one for controllers and one for CA keys.

The time of each thread is shared out among flows: whoever used least of it is next. A job cannot be interrupted, so
what others wait for has a thread without long jobs: no request waits for the expressions of a controller, and no
signature for either.

A request with a large body, or about a large object, has its stages (reading, patching, tracking of fields, validation,
encoding) done here, each with :func:`compute`; small requests do them where they are. Objects are frozen, and a stage
reads nothing that others change, so it makes no difference to the result.

What takes long whatever its size, such as compiling and evaluating expressions, is done here by :func:`elsewhere`, and
a signature that takes long by :func:`with_key`. A controller says for whom it works with :func:`working_for`.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from typing import Any, Generic, TypeVar, cast
from weakref import WeakKeyDictionary

import msgspec

T = TypeVar("T")

# Few threads: they and the loop take turns at the interpreter, and of many the loop would be one.
_SWITCH_SECONDS, _USUAL_SWITCH_SECONDS = 0.0005, sys.getswitchinterval()
_REQUESTS = ThreadPoolExecutor(1, thread_name_prefix="ThreadPoolExecutor-worker")
_CONTROLLERS = ThreadPoolExecutor(1, thread_name_prefix="ThreadPoolExecutor-controllers")
_KEYS = ThreadPoolExecutor(1, thread_name_prefix="ThreadPoolExecutor-keys")

# From here on a body is dear: the worst one of this length holds the loop for 20 ms, twice what a join costs in all.
LARGE_BYTES = 8 * 1024


_PLACE = threading.local()
# Of a pause of long work: how long it is at most, how many there are at once, and in what time an idle loop answers.
_PAUSE_SECONDS, _MOST_PAUSES, _IDLE_SECONDS = 0.05, 8, 0.0005


class FairQueue(Generic[T]):
    """Whose turn it is: the flow that has used least, whatever it sends. Pure.

    A flow that comes begins where the one stands whose turn was last, so that nobody saves up time.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, deque[T]] = {}
        self._used: dict[str, float] = {}
        self._now = 0.0

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def count(self, flow: str) -> int:
        """How many jobs of ``flow`` wait."""
        return len(self._waiting.get(flow, ()))

    def add(self, flow: str, job: T) -> None:
        queue = self._waiting.get(flow)
        if queue is None:
            queue = self._waiting[flow] = deque()
            self._used[flow] = max(self._used.get(flow, 0.0), self._now)
        queue.append(job)

    def take(self) -> tuple[str, T] | None:
        """The next job, with its flow; None if there is none."""
        if not self._waiting:
            return None
        flow = min(self._waiting, key=self._used.__getitem__)
        self._now = self._used[flow]
        queue = self._waiting[flow]
        job = queue.popleft()
        if not queue:
            del self._waiting[flow]
        return flow, job

    def charge(self, flow: str, seconds: float) -> None:
        """``flow`` has used so much."""
        self._used[flow] = self._used.get(flow, self._now) + seconds
        if not self._waiting:
            self._used.clear()  # nobody is in anybody's way
        elif len(self._used) > 2 * len(self._waiting) + 64:
            self._used = {key: at for key, at in self._used.items() if at > self._now or key in self._waiting}


class _Job(msgspec.Struct, frozen=True, eq=False):
    work: Callable[[], Any]
    result: asyncio.Future[Any]


class _Outcome(msgspec.Struct):
    """Emptied once it has been passed on: asyncio's future around the thread's one is part of a cycle (both know the
    callbacks that chain them), which would keep the request and what was read from it."""

    value: Any
    error: BaseException | None
    seconds: float


def beside_loop(work: Callable[[], T]) -> T:
    """What ``work`` gives or raises, on a thread of its own, from which the loop gets the interpreter when it has work.

    Python takes the interpreter from a thread after 5 ms, for which each turn of the loop would wait: a join would
    take ten times as long. So short an interval at all times would cost a join a tenth more, for then the loop and the
    store's threads take the interpreter from each other. Of several at once, the last to end ends it.
    """
    _interval.shorten()
    _PLACE.beside = True
    try:
        return work()
    finally:
        _PLACE.beside = False
        _interval.restore()


class _SwitchInterval:
    """Short as long as anybody needs it to be."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0

    def shorten(self) -> None:
        with self._lock:
            self._users += 1
            sys.setswitchinterval(_SWITCH_SECONDS)

    def restore(self) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                sys.setswitchinterval(_USUAL_SWITCH_SECONDS)


_interval = _SwitchInterval()


def is_beside_loop() -> bool:
    """Whether this is inside of :func:`beside_loop`, where work may take long."""
    return getattr(_PLACE, "beside", False)


def give_way_to_loop() -> None:
    """To be called in the course of long work on a thread for controllers: the loop does what is due before it goes on.

    A loop that answers at once has nothing else to do. One that is always busy is waited for a few times, so that the
    work ends at last.
    """
    loop = getattr(_PLACE, "loop", None)
    if loop is None:
        return
    for _ in range(_MOST_PAUSES):
        answered = threading.Event()
        begun = time.perf_counter()
        try:
            loop.call_soon_threadsafe(answered.set)
        except RuntimeError:
            return  # it has ended
        if answered.wait(_PAUSE_SECONDS) and time.perf_counter() - begun < _IDLE_SECONDS:
            return


def _timed(loop: asyncio.AbstractEventLoop, work: Callable[[], Any]) -> _Outcome:
    _PLACE.loop = loop
    begun = time.thread_time()
    try:
        return _Outcome(beside_loop(work), None, time.thread_time() - begun)
    # Raised again where it is waited for. No other name may hold it: this frame is in its traceback, and a cycle would
    # keep the body of the request until somebody looks for cycles.
    except Exception as err:  # noqa: BLE001
        return _Outcome(None, err, time.thread_time() - begun)
    finally:
        _PLACE.loop = None


class Worker:
    """The use of a thread, from one event loop: that for requests by one server, unless another one is given.

    ``jobs`` and ``seconds`` say what it has done.
    """

    def __init__(self, thread: ThreadPoolExecutor = _REQUESTS) -> None:
        self._thread = thread
        self._queue: FairQueue[_Job] = FairQueue()
        self._busy = False
        self.jobs = 0
        self.seconds = 0.0

    @property
    def waiting(self) -> int:
        return len(self._queue)

    async def run(self, flow: str, work: Callable[..., T], *args: Any) -> T:
        """What ``work(*args)`` returns or raises. If this call is cancelled, work that has not begun is left out."""
        loop = asyncio.get_running_loop()
        job = _Job(partial(work, *args), loop.create_future())
        self._queue.add(flow, job)
        self._begin(loop)
        try:
            return cast("T", await job.result)
        finally:
            del job  # an error's traceback has this frame, and the job the error

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._busy and (following := self._queue.take()) is not None:
            flow, job = following
            if job.result.done():
                continue  # nobody waits for it any more
            self._busy = True
            running = loop.run_in_executor(self._thread, _timed, loop, job.work)
            running.add_done_callback(partial(self._done, loop, flow, job))

    def _done(self, loop: asyncio.AbstractEventLoop, flow: str, job: _Job, running: asyncio.Future[_Outcome]) -> None:
        self._busy = False
        if running.cancelled():
            job.result.cancel()
            return
        outcome = running.result()
        value, error = outcome.value, outcome.error
        outcome.value = outcome.error = None
        self.jobs += 1
        self.seconds += outcome.seconds
        self._queue.charge(flow, outcome.seconds)
        if not job.result.done():
            if error is not None:
                job.result.set_exception(error)
            else:
                job.result.set_result(value)
        self._begin(loop)


class Share(msgspec.Struct):
    """A request's part of the worker's time.

    Args:
        worker: None has everything done where it is.
        flow: whose time it is.
        is_large: whether its stages run on the worker; see :meth:`weigh`.
    """

    worker: Worker | None = None
    flow: str = ""
    is_large: bool = False

    def weigh(self, size: int) -> None:
        """The request is about so many bytes."""
        if size > LARGE_BYTES and self.worker is not None:
            self.is_large = True

    async def compute(self, work: Callable[..., T], *args: Any) -> T:
        """``work(*args)``, on the worker if the request is large."""
        if self.worker is None or not self.is_large:
            return work(*args)
        return await self.worker.run(self.flow, work, *args)


_current: ContextVar[Share] = ContextVar("share", default=Share())  # noqa: B039 - without a worker it is never large


class sharing:  # noqa: N801 - a context manager; a generator would take three times as long, for every request
    """Inside, :func:`compute` and :func:`weigh` mean ``share``."""

    __slots__ = ("_share", "_token")

    def __init__(self, share: Share) -> None:
        self._share = share

    def __enter__(self) -> None:
        self._token = _current.set(self._share)

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)


def weigh(size: int) -> None:
    """The current request, if there is one, is about so many bytes."""
    if size > LARGE_BYTES:
        _current.get().weigh(size)


def is_large() -> bool:
    """Whether the current request is."""
    return _current.get().is_large


async def compute(work: Callable[..., T], *args: Any) -> T:
    """``work(*args)``, on the worker if the current request is large. For pure work that grows with an object."""
    share = _current.get()
    if share.is_large and share.worker is not None:
        return await share.worker.run(share.flow, work, *args)
    return work(*args)


def current_flow() -> str:
    """For whom this is done; empty if nobody has said so."""
    return _current.get().flow


async def elsewhere(work: Callable[[], T]) -> T:
    """What ``work`` gives or raises, computed beside the loop, for whomever it is: for what cannot be cut into slices.

    A request's on the thread for requests, what a controller does on the thread for controllers.
    """
    share = _current.get()
    worker = share.worker or _of_loop().requests
    return await worker.run(share.flow, work)


def working_for(flow: str) -> sharing:
    """Inside, which is a controller's, what is done beside the loop is done for ``flow``."""
    return sharing(Share(_of_loop().controllers, flow))


async def with_key(work: Callable[[], T]) -> T:
    """What ``work`` gives or raises, done on the thread for CA keys: a signature of up to 50 ms.

    A signature that waits for others is that of a machine which joins.
    """
    return await _of_loop().keys.run(current_flow(), work)


class _Workers(msgspec.Struct, frozen=True):
    requests: Worker
    controllers: Worker
    keys: Worker


_workers: WeakKeyDictionary[asyncio.AbstractEventLoop, _Workers] = WeakKeyDictionary()


def _of_loop() -> _Workers:
    """Those of the running loop that belong to no server."""
    loop = asyncio.get_running_loop()
    found = _workers.get(loop)
    if found is None:
        found = _workers[loop] = _Workers(Worker(), Worker(_CONTROLLERS), Worker(_KEYS))
    return found
