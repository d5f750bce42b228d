"""Keeps a copy of a collection in step with the server: list, then watch, for ever.

Contract and numbers: k8s.io/client-go tools/cache/reflector.go (Kubernetes 1.36). One difference: every failure to
connect, not only a refused connection, is waited out on the last version without a new list, so that an outage does
not end in every client listing everything.
"""

from __future__ import annotations

import random as random_module
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from kubevouch.client.cache.indexer import object_key
from kubevouch.client.interface import (
    Client,
    ConnectFailed,
    EventType,
    ListOptions,
    NotKubernetes,
    TransportError,
    WatchEvent,
    WatchOptions,
    WatchStream,
)
from kubevouch.client.pager import PAGE_SIZE, Collection, is_expired, is_too_large_version, list_all
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import Object
from kubevouch.machinery.scheme import Resource
from kubevouch.util import backoff
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger
from kubevouch.util.tasks import deadline

log = get_logger("client.reflector")

T = TypeVar("T", bound=Object)
T_contra = TypeVar("T_contra", bound=Object, contravariant=True)

BACKOFF_BASE_SECONDS = 0.8
BACKOFF_CAP_SECONDS = 30.0
BACKOFF_CALM_SECONDS = 120.0
WATCH_SECONDS = 300  # up to twice as much, so that not all clients come back at once
SHORT_WATCH_SECONDS = 1.0
# A server that does not know sendInitialEvents may take the watch for an ordinary one, whose end of the list nobody
# announces. client-go waits for ever and warns every ten seconds.
SILENT_LIST_SECONDS = 10.0
OPENING_SECONDS = 30.0  # a busy server may keep a request in its queue for 15 s before it answers at all

ClientError = APIStatusError | TransportError


class Sink(Protocol[T_contra]):
    """Where a reflector puts what it sees. Called in order, never from two places at once."""

    async def replace(self, items: Sequence[T_contra]) -> None:
        """The whole collection: what is not among ``items`` is gone."""
        ...

    def put(self, obj: T_contra) -> None:
        """Added or changed."""
        ...

    def remove(self, obj: T_contra) -> None:
        """Deleted; this was its last state."""
        ...


def _log_error(err: ClientError) -> None:
    if isinstance(err, APIStatusError) and err.code == 404:
        log.info("the collection is not there", error=str(err))  # a kind that came at run time has gone
    else:
        log.warning("list or watch failed", error=str(err))


class Reflector(Generic[T]):
    """Follows one collection, or the part of it that the selectors leave."""

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        sink: Sink[T],
        *,
        clock: Clock,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        random: backoff.Random = random_module.random,
        streaming_lists: bool = True,
        on_error: Callable[[ClientError], None] = _log_error,
    ) -> None:
        self._client = client
        self._resource = resource
        self._sink = sink
        self._clock = clock
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._random = random
        self._streaming_lists = streaming_lists
        self._on_error = on_error
        self._version = ""
        self._version_lost = False  # the server does not know the version any more, or not yet
        self._server_pages = False  # it pages even where a cache could have answered
        self._delays = backoff.CalmingBackoff(
            lambda: backoff.added_jitter(backoff.exponential(BACKOFF_BASE_SECONDS, BACKOFF_CAP_SECONDS), random),
            BACKOFF_CALM_SECONDS,
        )

    @property
    def resource_version(self) -> str:
        """The version that the copy is at; empty before the first list."""
        return self._version

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            try:
                await self._list_and_watch()
                log.warning("a watch ended at once and brought nothing", resource=self._resource.plural)
            except (APIStatusError, TransportError) as err:
                if isinstance(err, APIStatusError) and is_expired(err.status):
                    log.info("listing again, the version has expired", resource=self._resource.plural)
                else:
                    self._on_error(err)
            await self._back_off()

    async def _back_off(self) -> None:
        await self._clock.sleep(self._delays.next(self._clock.monotonic()))

    async def _list_and_watch(self) -> None:
        """Returns when the last watch was of no use; everything else that ends it is raised."""
        stream = await self._stream_list() if self._streaming_lists else None
        if stream is None:
            await self._list()
            stream = self._open(self._version)
        while await self._follow(stream):
            stream = self._open(self._version)

    def _open(self, version: str, *, initial: bool = False) -> WatchStream[T]:
        options = WatchOptions(
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            resource_version=version,
            send_initial_events=initial,
            timeout_seconds=int(backoff.jittered(WATCH_SECONDS, self._random, 1.0)),
        )
        return self._client.watch(self._resource, self._namespace, options)

    # -------------------------------------------------------------- lists

    async def _list(self) -> None:
        version = self._relist_version()
        try:
            collection = await self._read(version)
        except APIStatusError as err:
            if not (is_expired(err.status) or is_too_large_version(err.status)):
                raise
            self._version_lost = True
            collection = await self._read("")
        if version == "0" and collection.paged:
            self._server_pages = True
        await self._replace(collection.items, collection.resource_version)

    def _relist_version(self) -> str:
        """Nothing for the newest state, 0 for any state that a cache has, or at least as new as what we had."""
        return "" if self._version_lost else self._version or "0"

    async def _read(self, version: str) -> Collection[T]:
        in_pages = version in ("", "0") or self._server_pages
        options = ListOptions(
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            limit=PAGE_SIZE if in_pages else 0,
            resource_version=version or None,
        )
        return await list_all(self._client, self._resource, self._namespace, options)

    async def _replace(self, items: Sequence[T], version: str) -> None:
        self._version_lost = False
        self._version = version
        await self._sink.replace(items)

    async def _stream_list(self) -> WatchStream[T] | None:
        """A watch that has delivered the initial state and goes on from there; None when the server has no such."""
        while True:
            stream = self._open("" if self._version_lost else self._version, initial=True)
            keep = False
            try:
                keep = await self._take_initial(stream)
                if keep:
                    return stream
            except TimeoutError:
                log.warning("the server does not end the initial events of a watch", resource=self._resource.plural)
                self._streaming_lists = False
                return None
            except ConnectFailed as err:
                self._on_error(err)
            except NotKubernetes as err:
                log.info("no streaming list", resource=self._resource.plural, error=str(err))
                return None
            except APIStatusError as err:
                if is_expired(err.status) or is_too_large_version(err.status):
                    self._version_lost = True
                elif err.code != 429:
                    log.info("no streaming list", resource=self._resource.plural, error=str(err))
                    return None
            finally:
                if not keep:
                    await stream.aclose()
            await self._back_off()

    async def _take_initial(self, stream: WatchStream[T]) -> bool:
        """True when the initial events were complete, False when the stream ended before.

        Raises:
            TimeoutError: nothing came for ten seconds, or at first for thirty.
            APIStatusError, TransportError
        """
        items: dict[str, T] = {}
        patience = OPENING_SECONDS
        while True:
            try:
                async with deadline(self._clock, patience):
                    event = await anext(stream)
            except StopAsyncIteration:
                return False
            patience = SILENT_LIST_SECONDS
            obj = _object_of(event)
            if event.ends_initial_events:
                await self._replace(list(items.values()), obj.metadata.resource_version)
                return True
            if event.type is EventType.DELETED:
                items.pop(object_key(obj), None)
            elif event.type is not EventType.BOOKMARK:
                items[object_key(obj)] = obj

    # -------------------------------------------------------------- watches

    async def _follow(self, stream: WatchStream[T]) -> bool:
        """Take events until the stream ends. True when another one may go on from the last version.

        Raises:
            APIStatusError, TransportError: none may, so everything has to be listed again.
        """
        started = self._clock.monotonic()
        events = 0
        try:
            async for event in stream:
                events += 1
                self._take(event)
        except ConnectFailed as err:
            if not events:
                self._on_error(err)
                await self._back_off()
            return True
        except APIStatusError as err:
            if err.code != 429:
                raise
            await self._back_off()
            return True
        finally:
            await stream.aclose()
        return events > 0 or self._clock.monotonic() - started >= SHORT_WATCH_SECONDS

    def _take(self, event: WatchEvent[T]) -> None:
        obj = _object_of(event)
        if event.type is EventType.DELETED:
            self._sink.remove(obj)
        elif event.type is not EventType.BOOKMARK:
            self._sink.put(obj)
        self._version = obj.metadata.resource_version


def _object_of(event: WatchEvent[T]) -> T:
    """Raises :class:`APIStatusError` for an ERROR event."""
    if event.status is not None:
        raise APIStatusError(event.status)
    assert event.object is not None  # the codec gives every other event one
    return event.object
