"""The loops that say of each definition what is to be said of it.

Names are judged by one worker, so that of two definitions that want one name the second sees what the first has got.
Conditions are written with the resourceVersion that they were made from: of several API servers one writes, and the
others look again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kubevouch.api.apiextensions_v1.conditions import TERMINATING, without_condition
from kubevouch.api.apiextensions_v1.definitions import CustomResourceDefinition
from kubevouch.api.catalog import CUSTOM_RESOURCE_DEFINITIONS
from kubevouch.authentication.interface import UserInfo
from kubevouch.client.interface import Client
from kubevouch.client.workqueue import Workqueue
from kubevouch.machinery.errors import APIStatusError, Reason, loggable
from kubevouch.machinery.meta import replace_metadata
from kubevouch.machinery.text.times import Time
from kubevouch.server.customresources.finalizer import Finalizer, Objects, ObjectsRemain, waits_for_its_objects
from kubevouch.server.customresources.judgement import judged
from kubevouch.storage.watchcache.objects import CacheEvent
from kubevouch.storage.watchcache.resource_cache import ResourceCache
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger
from kubevouch.util.turns import pace

log = get_logger("customresources")

# Of one each is deleted at a time; some may have to wait for others' finalizers.
_FINALIZERS = 5
_OVERTAKEN = (Reason.CONFLICT, Reason.NOT_FOUND)


class DefinitionControllers:
    """Follows the definitions, and writes their status.

    Args:
        user: the API server.
        client: acts as it.
        objects: see :class:`.finalizer.Finalizer`.
    """

    def __init__(
        self,
        cache: ResourceCache[CustomResourceDefinition],
        user: UserInfo,
        client: Client,
        clock: Clock,
        objects: Objects,
    ) -> None:
        self._cache = cache
        self._client = client
        self._clock = clock
        self._names: Workqueue[str] = Workqueue(clock)
        self._deletions: Workqueue[str] = Workqueue(clock)
        self._finalizer = Finalizer(user, clock, self._write, objects)
        self._tasks: list[asyncio.Task[None]] = []
        cache.on_event(self._changed)
        cache.on_load(self._loaded)

    def start(self) -> None:
        """Begin, with caches that are loaded."""
        self._loaded()
        self._work("definition-names", self._names, self._judge)
        for number in range(_FINALIZERS):
            self._work(f"definition-finalizer-{number}", self._deletions, self._finalize)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._names.shut_down()
        self._deletions.shut_down()

    # -------------------------------------------------------------- events

    def _loaded(self) -> None:
        for stored in self._cache.values():
            self._names.add(stored.obj.metadata.name)
            if waits_for_its_objects(stored.obj):
                self._deletions.add(stored.obj.metadata.name)

    def _changed(self, event: CacheEvent[CustomResourceDefinition]) -> None:
        previous = None if event.previous is None else event.previous.obj
        if event.current is None:
            if previous is not None:
                self._again(previous)  # its names are free
            return
        current = event.current.obj
        self._names.add(current.metadata.name)
        if waits_for_its_objects(current) and (previous is None or _told(previous) != _told(current)):
            self._deletions.add(current.metadata.name)

    def _again(self, definition: CustomResourceDefinition) -> None:
        for other in self._group(definition.spec.group):
            if other.metadata.name != definition.metadata.name:
                self._names.add(other.metadata.name)

    def _group(self, group: str) -> list[CustomResourceDefinition]:
        return [stored.obj for stored in self._cache.values() if stored.obj.spec.group == group]

    def _current(self, name: str) -> CustomResourceDefinition | None:
        found = self._cache.get(f"{self._cache.prefix}{name}")
        return None if found is None else found.obj

    # -------------------------------------------------------------- work

    def _work(self, title: str, queue: Workqueue[str], do: Callable[[str], Awaitable[None]]) -> None:
        async def run() -> None:
            turn = pace()
            while True:
                # One that finds nothing to do never waits.
                await turn.keep()
                name = await queue.get()
                try:
                    await do(name)
                except ObjectsRemain as err:
                    log.warning("objects of a definition remain", name=name, err=str(err))
                    queue.add_rate_limited(name)
                except Exception as err:  # noqa: BLE001 - the worker boundary: one's failure is no other's business
                    log.error("a definition's status could not be settled", name=name, err=loggable(err))
                    queue.add_rate_limited(name)
                else:
                    queue.forget(name)
                finally:
                    queue.done(name)

        self._tasks.append(asyncio.create_task(run(), name=title))

    async def _finalize(self, name: str) -> None:
        definition = self._current(name)
        if definition is not None and waits_for_its_objects(definition):
            await self._finalizer.finalize(definition)

    async def _judge(self, name: str) -> None:
        definition = self._current(name)
        if definition is None:
            return
        # Of hundreds, at a start, none has new names.
        is_named = definition.spec.names == definition.status.accepted_names
        group = () if is_named else self._group(definition.spec.group)
        found = judged(definition, group, Time.of(self._clock.now()))
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


def _told(definition: CustomResourceDefinition) -> CustomResourceDefinition:
    """Without what the finalizer writes: it would follow itself."""
    told: CustomResourceDefinition = replace_metadata(definition, resource_version="", managed_fields=[])
    return without_condition(told, TERMINATING)
