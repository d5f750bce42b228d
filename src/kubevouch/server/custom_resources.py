"""Serves the kinds that definitions define: endpoints and caches come, change and go with them.

Source: apiextensions-apiserver pkg/apiserver/customresource_handler.go (Kubernetes 1.36).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from msgspec.structs import replace

from kubevouch.api.apiextensions_v1.conditions import ESTABLISHED, is_true
from kubevouch.api.apiextensions_v1.definitions import CustomResourceDefinition
from kubevouch.machinery.custom_object import CustomObject
from kubevouch.machinery.scheme import GroupVersionKind
from kubevouch.registry.apiextensions import custom_kinds
from kubevouch.registry.apiextensions.custom_resources import ServedKind
from kubevouch.registry.interface import Definition
from kubevouch.registry.store import ResourceStore
from kubevouch.server.customresources.conversion import Converters
from kubevouch.server.encoding import ObjectEncoder
from kubevouch.server.endpoints import Served, ServedVersion
from kubevouch.server.metrics.storage import StorageMetrics
from kubevouch.storage.watchcache.cacher import Cacher
from kubevouch.storage.watchcache.objects import CacheEvent
from kubevouch.storage.watchcache.resource_cache import ResourceCache
from kubevouch.util.worker import elsewhere

MakeStore = Callable[[Definition[CustomObject], ResourceCache[CustomObject]], ResourceStore[CustomObject]]


CustomKind = tuple[Definition[CustomObject], ResourceCache[CustomObject]]


async def no_custom_kind(_kind: GroupVersionKind) -> CustomKind | None:
    """Before there can be any."""
    return None


class CustomResources:
    """Follows the cache of definitions, so that a kind is served before anybody hears that it is established.

    Args:
        make_store: the REST storage of one version over the cache that all versions share.
        converters: whom definitions say to ask for other versions.
    """

    def __init__(
        self, cacher: Cacher, served: Served, make_store: MakeStore, metrics: StorageMetrics, converters: Converters
    ) -> None:
        self._cacher = cacher
        self._served = served
        self._make_store = make_store
        self._metrics = metrics
        self._converters = converters
        self._kinds: dict[str, _ServedDefinition] = {}

    def follow(self, definitions: ResourceCache[CustomResourceDefinition]) -> None:
        """Serve what ``definitions`` has, now and later."""

        def loaded() -> None:
            current = {stored.obj.metadata.name: stored.obj for stored in definitions.values()}
            for name in [name for name in self._kinds if name not in current]:
                self._remove(name)
            for definition in current.values():
                self._put(definition)

        definitions.on_event(self._changed)
        definitions.on_load(loaded)
        loaded()

    def __iter__(self) -> Iterator[_ServedDefinition]:
        return iter(self._kinds.values())

    def cache(self, group: str, plural: str) -> ResourceCache[CustomObject] | None:
        """The cache of a kind that is served."""
        found = self._kinds.get(f"{plural}.{group}")
        return None if found is None else found.cache

    async def kind(self, kind: GroupVersionKind) -> CustomKind | None:
        """A version of a kind that is served, and the cache of its objects, which may be in another one.

        Raises:
            StoreError, ValueError: its objects cannot be read.
        """
        for found in self._kinds.values():
            definition = found.version(kind)
            if definition is not None:
                await found.ready()
                return definition, found.cache
        return None

    async def stored(self, name: str) -> tuple[Definition[CustomObject], ResourceCache[CustomObject]] | None:
        """How a definition's objects are stored, whatever their versions. Raises ``StoreError``, ``ValueError``."""
        found = self._kinds.get(name)
        if found is None:
            return None
        await found.ready()
        return found.stored, found.cache

    def _changed(self, event: CacheEvent[CustomResourceDefinition]) -> None:
        if event.current is not None:
            self._put(event.current.obj)
        elif event.previous is not None:
            self._remove(event.previous.obj.metadata.name)

    def _put(self, definition: CustomResourceDefinition) -> None:
        name = definition.metadata.name
        known = self._kinds.get(name)
        if known is not None and not known.is_outdated_by(definition):
            known.note(definition)
            return
        if known is not None:
            self._remove(name)
        # Requests for such a group are the built-in kinds', whatever its definitions say (the director in apiserver
        # pkg/server/handler.go, Kubernetes 1.36): one of certificatesigningrequests would stand in their place.
        if definition.spec.group in self._served.built_in_groups:
            return
        # A store may hold what nobody would let in now.
        if not is_true(definition, ESTABLISHED) or not definition.spec.versions:
            return
        self._kinds[name] = _ServedDefinition(
            definition,
            ServedKind(custom_kinds.kind_of(definition), self._converters.conversion),
            self._cacher,
            self._served,
            self._make_store,
            self._metrics,
        )

    def _remove(self, name: str) -> None:
        found = self._kinds.pop(name, None)
        if found is not None:
            found.close()
            self._converters.forget(name)


class _ServedDefinition:
    """One kind in service: a cache, and a store and an endpoint for each of its served versions."""

    def __init__(
        self,
        definition: CustomResourceDefinition,
        kind: ServedKind,
        cacher: Cacher,
        served: Served,
        make_store: MakeStore,
        metrics: StorageMetrics,
    ) -> None:
        self._definition = definition
        self._kind = kind
        self._cacher = cacher
        self._served = served
        self._metrics = metrics
        codec, self._resource = kind.stored.codec, kind.stored.resource
        prefix = kind.stored.definition.key_prefix

        def load(value: bytes, revision: Any) -> CustomObject:
            return ResourceStore.at(codec.from_value(value, "", ""), revision)

        self.cache: ResourceCache[CustomObject] = cacher.register(prefix, load)
        self._endpoints: list[ServedVersion] = []
        for version in kind.versions.values():
            # What is built in comes first, as its paths do in kube-apiserver.
            if version.version.served and not served.is_built_in(version.resource.group_version):
                store = make_store(version.definition, self.cache)
                encoder = ObjectEncoder(version.resource, version.definition.printer)
                endpoint = ServedVersion(version.resource, store, encoder, custom=version, ready=self.ready)
                self._endpoints.append(endpoint)
                served.add(endpoint)
        metrics.know([(prefix, self._resource.group_resource)])
        self._filling = _Once(self._fill)
        self._compiling = _Once(self._compile)
        self.note(definition)

    def is_outdated_by(self, definition: CustomResourceDefinition) -> bool:
        """Whether what is served has to be made anew."""
        mine = self._definition
        return (
            definition.metadata.uid != mine.metadata.uid
            or definition.spec != mine.spec
            or definition.status.accepted_names != mine.status.accepted_names
        )

    def note(self, definition: CustomResourceDefinition) -> None:
        """Its definition is going, perhaps."""
        terminating = definition.metadata.deletion_timestamp is not None
        if terminating != self._kind.terminating:
            self._kind.terminating = terminating
            for endpoint in self._endpoints:
                self._served.note_change(endpoint.resource.group_version)

    def version(self, kind: GroupVersionKind) -> Definition[CustomObject] | None:
        """That of one of its kinds, if it is served."""
        version = self._kind.versions.get(kind.version)
        if version is None or not version.version.served or version.resource.gvk != kind:
            return None
        return version.definition

    async def ready(self, writes: bool = False) -> None:
        """Returns once requests can be answered; those that write, if that is asked for.

        Of hundreds of kinds most have no objects on a given server: their schemas need not be compiled.

        Raises:
            StoreError, ValueError
        """
        if not self._filling.is_done:
            await self._filling.wait()
        if writes and not self._compiling.is_done:
            await self._compiling.wait()

    async def _fill(self) -> None:
        await self._cacher.join(self.cache, self._compiling.wait)

    async def _compile(self) -> None:
        await elsewhere(self._kind.compile)

    @property
    def stored(self) -> Definition[CustomObject]:
        """Of the stored version, which objects of other versions are not brought to."""
        return replace(self._kind.stored.definition, conversion=None)

    def counted(self) -> tuple[Any, int]:
        """The resource, and how many objects it has."""
        return self._resource.group_resource, len(self.cache)

    def close(self) -> None:
        """Serve it no longer; watches end."""
        for endpoint in self._endpoints:
            self._served.remove(endpoint)
        self._cacher.unregister(self.cache)
        self._metrics.forget(self.cache.prefix)


class _Once:
    """Work that several wait for, and that is tried again by the next one if it failed."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._work = work
        self._task: asyncio.Task[None] | None = None
        self.is_done = False

    async def wait(self) -> None:
        """Raises what the work raises."""
        if self.is_done:
            return
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="custom-resources")
            self._task.add_done_callback(self._ended)
        await asyncio.shield(self._task)

    async def _run(self) -> None:
        await self._work()
        self.is_done = True

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled():
            task.exception()  # whoever waits hears of it; perhaps nobody does any more
