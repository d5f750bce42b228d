"""Shared caches and those who want to know of changes (k8s.io/client-go tools/cache/shared_informer.go)."""

from __future__ import annotations

import asyncio
import random as random_module
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar, cast

import msgspec

from kubevouch.client.cache.indexer import Indexer, IndexFunction, by_namespace, object_key
from kubevouch.client.cache.lister import NAMESPACE_INDEX, Lister
from kubevouch.client.cache.reflector import Reflector
from kubevouch.client.interface import Client, ListOptions
from kubevouch.machinery.meta import Object, replace_metadata
from kubevouch.machinery.scheme import Resource
from kubevouch.util import backoff
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger
from kubevouch.util.tasks import OnCrash, Supervisor
from kubevouch.util.turns import give_way

log = get_logger("client.informer")

T = TypeVar("T", bound=Object)
T_contra = TypeVar("T_contra", bound=Object, contravariant=True)

MINIMUM_RESYNC_SECONDS = 1.0
# kube-controller-manager's --min-resync-period, drawn between once and twice that.
FACTORY_RESYNC_SECONDS = 12 * 3600.0
# Objects of a list before others have their turn: a few milliseconds, with handlers that only add keys to queues.
_SLICE = 250


class EventHandler(Protocol[T_contra]):
    """Hears of changes, in order, after the cache has them. Must be quick: it usually only adds a key to a queue."""

    def on_add(self, obj: T_contra, *, initial: bool) -> None:
        """``initial``: it was there before the informer, or the handler, was."""
        ...

    def on_update(self, old: T_contra, new: T_contra) -> None:
        """Changed, perhaps several times since ``old``; a resync gives the same object twice."""
        ...

    def on_delete(self, obj: T_contra, *, missed: bool) -> None:
        """``missed``: the deletion was not seen, ``obj`` is the last state that was (client-go's tombstone)."""
        ...


class ChangeHandler(Generic[T]):
    """An :class:`EventHandler` for whom the state counts, not what led to it.

    Args:
        changed: is told the last state of whatever changed, and whether it is gone.
    """

    def __init__(self, changed: Callable[[T, bool], None]) -> None:
        self._changed = changed

    def on_add(self, obj: T, *, initial: bool) -> None:  # noqa: ARG002
        self._changed(obj, False)

    def on_update(self, old: T, new: T) -> None:  # noqa: ARG002
        self._changed(new, False)

    def on_delete(self, obj: T, *, missed: bool) -> None:  # noqa: ARG002
        self._changed(obj, True)


class KeyHandler(ChangeHandler[T]):
    """Hands the key of whatever changed to a work queue."""

    def __init__(self, add: Callable[[str], None], key: Callable[[T], str] = object_key) -> None:
        super().__init__(lambda obj, _gone: add(key(obj)))


def strip_managed_fields(obj: T) -> T:
    """A transform: managedFields are half of an object and nobody here reads them."""
    return cast("T", replace_metadata(obj, managed_fields=[])) if obj.metadata.managed_fields else obj


class Registration(msgspec.Struct, Generic[T], eq=False):
    """A handler of an informer; give it to :meth:`SharedInformer.remove_handler`."""

    handler: EventHandler[T]
    resync_seconds: float


class SharedInformer(Generic[T]):
    """One copy of a collection for all who want it."""

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        *,
        clock: Clock,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        indexes: Mapping[str, IndexFunction[T]] | None = None,
        transform: Callable[[T], T] | None = None,
        resync_seconds: float = 0.0,
        random: backoff.Random = random_module.random,
        streaming_lists: bool = True,
    ) -> None:
        """``resync_seconds`` is for handlers that name no period of their own; 0 never resyncs."""
        self.resource = resource
        self.namespace = namespace
        self.selectors = ListOptions(label_selector=label_selector, field_selector=field_selector)
        self.indexer: Indexer[T] = Indexer({NAMESPACE_INDEX: by_namespace, **(indexes or {})})
        self.lister: Lister[T] = Lister(self.indexer)
        self._clock = clock
        self._transform = transform
        self._resync_seconds = resync_seconds
        self._registrations: list[Registration[T]] = []
        self._synced = asyncio.Event()
        self._tasks: Supervisor | None = None
        self._reflector = Reflector(
            client,
            resource,
            self,
            clock=clock,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            random=random,
            streaming_lists=streaming_lists,
        )

    @property
    def synced(self) -> bool:
        """Whether the cache has been filled once, and every handler has heard of it."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        await self._synced.wait()

    @property
    def resource_version(self) -> str:
        """The version that the cache is at."""
        return self._reflector.resource_version

    def add_handler(self, handler: EventHandler[T], *, resync_seconds: float | None = None) -> Registration[T]:
        """Tell ``handler`` of what is there, now, and of every change from here on.

        ``resync_seconds`` None takes the informer's own period, 0 never resyncs, anything else is at least a second.
        """
        period = self._resync_seconds if resync_seconds is None else resync_seconds
        registration = Registration(handler, max(period, MINIMUM_RESYNC_SECONDS) if period > 0 else 0.0)
        self._registrations.append(registration)
        for obj in self.indexer.values():
            _tell(handler.on_add, obj, initial=True)
        self._start_resync(registration)
        return registration

    def remove_handler(self, registration: Registration[T]) -> None:
        """Tell its handler nothing more."""
        self._registrations.remove(registration)

    async def run(self) -> None:
        """Follow the collection until cancelled."""
        if self._tasks is not None:
            raise RuntimeError(f"the informer of {self.resource.plural} is running already")
        async with Supervisor(self._clock) as self._tasks:
            try:
                self._tasks.start(f"reflector-{self.resource.plural}", self._reflector.run, OnCrash.ESCALATE)
                for registration in self._registrations:
                    self._start_resync(registration)
                await self._tasks.wait()
            finally:
                # Before the supervisor ends: a handler that comes meanwhile is told of nothing more.
                self._tasks = None

    def _start_resync(self, registration: Registration[T]) -> None:
        if self._tasks is not None and registration.resync_seconds > 0:
            self._tasks.start(f"resync-{self.resource.plural}", lambda: self._resync(registration))

    async def _resync(self, registration: Registration[T]) -> None:
        while True:
            await self._clock.sleep(registration.resync_seconds)
            if registration not in self._registrations:
                return
            for number, key in enumerate(self.indexer.keys(), 1):
                if number % _SLICE == 0:
                    await give_way()
                obj = self.indexer.get(key)
                if obj is not None:  # else it has gone meanwhile
                    _tell(registration.handler.on_update, obj, obj)

    # -------------------------------------------------------------- what the reflector sees

    async def replace(self, items: Sequence[T]) -> None:
        gone = set(self.indexer.keys())
        for number, obj in enumerate(items, 1):
            gone.discard(object_key(obj))
            self._put(obj, initial=not self.synced)
            if number % _SLICE == 0:
                await give_way()
        for number, key in enumerate(gone, 1):
            if number % _SLICE == 0:
                await give_way()
            former = self.indexer.remove(key)
            if former is not None:
                self._deleted(former, missed=True)
        self._synced.set()

    def put(self, obj: T) -> None:
        self._put(obj, initial=False)

    def remove(self, obj: T) -> None:
        if self.indexer.remove(object_key(obj)) is not None:
            self._deleted(self._transformed(obj), missed=False)

    def _put(self, obj: T, *, initial: bool) -> None:
        obj = self._transformed(obj)
        former = self.indexer.put(obj)
        if former is None:
            for registration in list(self._registrations):
                _tell(registration.handler.on_add, obj, initial=initial)
        elif former.metadata.resource_version != obj.metadata.resource_version:
            for registration in list(self._registrations):
                _tell(registration.handler.on_update, former, obj)

    def _deleted(self, obj: T, *, missed: bool) -> None:
        for registration in list(self._registrations):
            _tell(registration.handler.on_delete, obj, missed=missed)

    def _transformed(self, obj: T) -> T:
        return obj if self._transform is None else self._transform(obj)


def _tell(method: Callable[..., None], *args: object, **kwargs: object) -> None:
    """One handler's failure is no other handler's business."""
    try:
        method(*args, **kwargs)
    except Exception as err:  # the plug-in boundary: handlers are somebody else's
        log.error("an event handler crashed", handler=getattr(method, "__qualname__", repr(method)), exc_info=err)


class InformerFactory:
    """Makes each informer once, for whoever asks, and runs them all."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        *,
        random: backoff.Random = random_module.random,
        resync_seconds: float | None = None,
        streaming_lists: bool = True,
    ) -> None:
        """``resync_seconds`` None draws 12 to 24 hours, 0 never resyncs."""
        self._client = client
        self._clock = clock
        self._random = random
        self._resync_seconds = (
            backoff.jittered(FACTORY_RESYNC_SECONDS, random, 1.0) if resync_seconds is None else resync_seconds
        )
        self._streaming_lists = streaming_lists
        self._informers: dict[tuple[str, ...], SharedInformer[Any]] = {}
        self._running: dict[tuple[str, ...], asyncio.Task[None]] = {}
        self._resting: dict[tuple[str, ...], SharedInformer[Any]] = {}
        self._tasks: Supervisor | None = None

    def informer(
        self,
        resource: Resource[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        client: Client | None = None,
    ) -> SharedInformer[T]:
        """The informer of a collection. Asked for while the factory runs, it starts at once.

        ``client`` reads the collection instead of the factory's own; of several who share it, the first one's counts.
        """
        key = (resource.group, resource.version, resource.plural, namespace, label_selector, field_selector)
        if key not in self._informers:
            resting = self._resting.pop(key, None)
            self._informers[key] = resting or SharedInformer(
                client or self._client,
                resource,
                clock=self._clock,
                namespace=namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                transform=strip_managed_fields,
                resync_seconds=self._resync_seconds,
                random=self._random,
                streaming_lists=self._streaming_lists,
            )
            if self._tasks is not None:
                self._start(self._tasks, key)
        return self._informers[key]

    def forget(self, informer: SharedInformer[Any]) -> None:
        """End an informer of a collection that is no more; who asks for it again gets another one."""
        key = self._end(informer)
        if key is not None:
            self._running.pop(key, None)

    def rest(self, informer: SharedInformer[Any]) -> None:
        """Likewise, of a collection that comes back: whoever asks for it again has this one go on, for all who share
        it. Its copy stays until then."""
        key = self._end(informer)
        if key is not None:
            self._resting[key] = informer

    def _end(self, informer: SharedInformer[Any]) -> tuple[str, ...] | None:
        key = next((key for key, each in self._informers.items() if each is informer), None)
        if key is not None:
            del self._informers[key]
            if key in self._running:
                self._running[key].cancel()
        return key

    @property
    def informers(self) -> list[SharedInformer[Any]]:
        """Those that have been asked for so far."""
        return list(self._informers.values())

    async def wait_synced(self) -> None:
        """Until every informer that has been asked for is filled."""
        for informer in list(self._informers.values()):
            await informer.wait_synced()

    async def run(self) -> None:
        """Run all informers until cancelled."""
        async with Supervisor(self._clock) as self._tasks:
            try:
                for key in list(self._informers):
                    self._start(self._tasks, key)
                await asyncio.Event().wait()
            finally:
                # Before the supervisor ends: whoever asks for one more meanwhile gets one that never starts.
                self._tasks = None

    def _start(self, tasks: Supervisor, key: tuple[str, ...]) -> None:
        informer, former = self._informers[key], self._running.get(key)

        async def run() -> None:
            if former is not None:
                await asyncio.wait({former})
            await informer.run()

        self._running[key] = tasks.start(f"informer-{informer.resource.plural}", run)
