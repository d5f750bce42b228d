"""The loop around a reconciler: events in, requests through a rate-limited queue, several workers.

Source: pkg/controller/certificates/certificate_controller.go (Kubernetes 1.36), whose shape all controllers share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Generic, TypeVar

from kubevouch.client.cache.informer import EventHandler, SharedInformer
from kubevouch.client.interface import TransportError
from kubevouch.client.rate_limiters import RateLimiter
from kubevouch.client.workqueue import Workqueue, WorkqueueShutDown
from kubevouch.controllers.interface import IgnorableError, ReconcileError, Reconciler, Request, UnansweredError
from kubevouch.controllers.outside_questions import OutsideQuestions
from kubevouch.machinery.errors import APIStatusError, loggable
from kubevouch.machinery.meta import Object
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger
from kubevouch.util.tasks import Supervisor
from kubevouch.util.tracing import Kind, Origins, Tracer, active
from kubevouch.util.turns import Pace, pace
from kubevouch.util.worker import working_for

log = get_logger("controllers")

T = TypeVar("T", bound=Object)

_EXPECTED = (ReconcileError, APIStatusError, TransportError)

Requests = Callable[[T], Iterable[Request]]


def _namespace_of(request: Request) -> str:
    return request.namespace


class Trigger(Generic[T]):
    """An event handler that asks which requests a changed object makes."""

    def __init__(
        self,
        add: Callable[[Request], None],
        on_add: Requests[T] | None,
        on_update: Requests[T] | None,
        on_delete: Requests[T] | None,
    ) -> None:
        self._add = add
        self._requests = (on_add, on_update, on_delete)

    def on_add(self, obj: T, *, initial: bool) -> None:  # noqa: ARG002 - a start is no different from any other change
        self._tell(0, obj)

    def on_update(self, old: T, new: T) -> None:  # noqa: ARG002 - the state counts, not what led to it
        self._tell(1, new)

    def on_delete(self, obj: T, *, missed: bool) -> None:  # noqa: ARG002
        self._tell(2, obj)

    def _tell(self, event: int, obj: T) -> None:
        requests = self._requests[event]
        if requests is not None:
            for request in requests(obj):
                self._add(request)


class QueueController:
    """A ``controllers.interface.Controller`` that works on what its triggers ask for."""

    def __init__(
        self,
        name: str,
        reconciler: Reconciler,
        clock: Clock,
        *,
        workers: int = 1,
        limiter: RateLimiter[Request] | None = None,
        turn: Pace | None = None,
        flow: Callable[[Request], str] | None = None,
    ) -> None:
        """Args:
        turn: what the workers keep to; that of the running loop if it is not given.
        flow: for whom a request is worked on. Whoever has many keeps nobody else waiting. Without it, the namespace.
        """
        self._name = name
        self._reconciler = reconciler
        self._clock = clock
        self._workers = workers
        self._turn = turn
        self._busy = 0
        self._informers: list[SharedInformer[Any]] = []
        self._tracer: tuple[Tracer, Origins] | None = None
        self.queue: Workqueue[Request] = Workqueue(clock, limiter=limiter, flow=flow or _namespace_of, workers=workers)
        self.questions = OutsideQuestions(clock, self.queue.add)

    @property
    def name(self) -> str:
        return self._name

    @property
    def is_idle(self) -> bool:
        return not self._busy and not len(self.queue) and not len(self.questions)

    def watch(
        self,
        informer: SharedInformer[T],
        *,
        on_add: Requests[T] | None = None,
        on_update: Requests[T] | None = None,
        on_delete: Requests[T] | None = None,
        resync_seconds: float | None = None,
    ) -> None:
        """Have changes of ``informer``'s collection make requests; work starts once it is filled."""
        self.follow(informer, Trigger(self.queue.add, on_add, on_update, on_delete), resync_seconds)

    def trace(self, tracer: Tracer, origins: Origins) -> None:
        """Have each reconcile be a span in the trace that created the object, of the kind that is watched first."""
        self._tracer = tracer, origins

    def follow(
        self, informer: SharedInformer[T], handler: EventHandler[T], resync_seconds: float | None = None
    ) -> None:
        """Have ``handler``, which adds to the queue, hear of changes; work starts once the collection is filled."""
        self._informers.append(informer)
        informer.add_handler(handler, resync_seconds=resync_seconds)

    async def run(self) -> None:
        for informer in self._informers:
            await informer.wait_synced()
        log.info("controller started", controller=self._name)
        try:
            async with Supervisor(self._clock) as tasks:
                for number in range(self._workers):
                    tasks.start(f"{self._name}-{number}", self._work)
                await tasks.wait()
        finally:
            await self.questions.close()

    def close(self) -> None:
        self.queue.shut_down()

    async def _work(self) -> None:
        turn = self._turn or pace()
        while True:
            # One that finds nothing to do never waits, and over a store in memory neither does one that issues.
            await turn.keep()
            try:
                request = await self.queue.get()
            except WorkqueueShutDown:
                return
            self._busy += 1
            try:
                await self._reconcile(request)
            finally:
                self._busy -= 1
                self.queue.done(request)

    async def _reconcile(self, request: Request) -> None:
        try:
            with working_for(f"{self._name} {self.queue.flow_of(request)}"), self._span(request):
                result = await self._reconciler.reconcile(request)
        except UnansweredError:
            # Its answer wakes it, so that no worker waits.
            return
        except Exception as err:  # noqa: BLE001 - the worker boundary: one object's failure is no other's business
            self._report(request, err)
            self.queue.add_rate_limited(request)
            return
        self.queue.forget(request)
        if result.requeue_after is not None:
            self.queue.add_after(request, result.requeue_after)

    def _span(self, request: Request) -> AbstractContextManager[object]:
        """Objects that no trace created make no span."""
        if self._tracer is None or not self._informers:
            return nullcontext()
        tracer, origins = self._tracer
        about = self._informers[0].resource
        parent = origins.get((about.group, about.plural, request.namespace, request.name))
        if not parent:
            return nullcontext()
        return active(tracer.start(self._name, Kind.INTERNAL, {"name": request.name}, parent=parent))

    def _report(self, request: Request, err: Exception) -> None:
        about = {"controller": self._name, "name": request.name, "namespace": request.namespace, "err": loggable(err)}
        if isinstance(err, IgnorableError):
            log.debug("reconcile failed", **about)
        elif isinstance(err, _EXPECTED):
            log.error("reconcile failed", **about)
        else:
            log.error("reconcile crashed", **{**about, "err": type(err).__name__}, exc_info=err)
