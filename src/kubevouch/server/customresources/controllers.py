"""The loops that say of each definition what is to be said of it.

Names are judged by one worker, so that of two definitions that want one name the second sees what the first has got.
Conditions are written with the resourceVersion that they were made from: of several API servers one writes, and the
others look again.
"""

from __future__ import annotations

import asyncio

import structlog

from kubevouch.api.apiextensions_v1.definitions import CustomResourceDefinition
from kubevouch.api.catalog import CUSTOM_RESOURCE_DEFINITIONS
from kubevouch.client.interface import Client
from kubevouch.client.workqueue import Workqueue
from kubevouch.machinery.errors import APIStatusError, Reason, loggable
from kubevouch.machinery.text.times import Time
from kubevouch.server.customresources.judgement import judged
from kubevouch.storage.watchcache.objects import CacheEvent
from kubevouch.storage.watchcache.resource_cache import ResourceCache
from kubevouch.util.clock import Clock

log = structlog.get_logger("customresources")

_OVERTAKEN = (Reason.CONFLICT, Reason.NOT_FOUND)


class DefinitionControllers:
    """Follows the definitions, and writes their status.

    Args:
        client: acts as the API server.
    """

    def __init__(self, cache: ResourceCache[CustomResourceDefinition], client: Client, clock: Clock) -> None:
        self._cache = cache
        self._client = client
        self._clock = clock
        self._names: Workqueue[str] = Workqueue(clock)
        self._tasks: list[asyncio.Task[None]] = []
        cache.on_event(self._changed)
        cache.on_load(self._loaded)

    def start(self) -> None:
        """Begin, with caches that are loaded."""
        self._loaded()
        self._tasks.append(asyncio.create_task(self._judge_names(), name="definition-names"))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._names.shut_down()

    def _loaded(self) -> None:
        for stored in self._cache.values():
            self._names.add(stored.obj.metadata.name)

    def _changed(self, event: CacheEvent[CustomResourceDefinition]) -> None:
        if event.current is not None:
            self._names.add(event.current.obj.metadata.name)
        elif event.previous is not None:
            # Its names are free.
            self._again(event.previous.obj)

    def _again(self, definition: CustomResourceDefinition) -> None:
        for other in self._group(definition.spec.group):
            if other.metadata.name != definition.metadata.name:
                self._names.add(other.metadata.name)

    def _group(self, group: str) -> list[CustomResourceDefinition]:
        return [stored.obj for stored in self._cache.values() if stored.obj.spec.group == group]

    def _current(self, name: str) -> CustomResourceDefinition | None:
        found = self._cache.get(f"{self._cache.prefix}{name}")
        return None if found is None else found.obj

    async def _judge_names(self) -> None:
        while True:
            name = await self._names.get()
            try:
                await self._judge(name)
            except Exception as err:  # noqa: BLE001 - the worker boundary: one object's failure is no other's business
                log.error("a definition could not be judged", name=name, err=loggable(err))
                self._names.add_rate_limited(name)
            else:
                self._names.forget(name)
            finally:
                self._names.done(name)

    async def _judge(self, name: str) -> None:
        definition = self._current(name)
        if definition is None:
            return
        found = judged(definition, self._group(definition.spec.group), Time.of(self._clock.now()))
        if found is definition:
            return
        if await self._write(found) is not None and found.status.accepted_names != definition.status.accepted_names:
            self._again(definition)  # it may have let go of a name

    async def _write(self, definition: CustomResourceDefinition) -> CustomResourceDefinition | None:
        """What is stored now; None if somebody else was first, of which an event tells."""
        try:
            return await self._client.update(CUSTOM_RESOURCE_DEFINITIONS, definition, subresource="status")
        except APIStatusError as err:
            if err.reason in _OVERTAKEN:
                return None
            raise
