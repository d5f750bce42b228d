"""The objects of a definition go before it does.

Source: apiextensions-apiserver pkg/controller/finalizer/crd_finalizer.go (Kubernetes 1.36).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence

from kubevouch.api.apiextensions_v1.conditions import (
    CLEANUP_FINALIZER,
    ESTABLISHED,
    FALSE,
    TERMINATING,
    TRUE,
    Finding,
    is_true,
    with_finding,
)
from kubevouch.api.apiextensions_v1.definitions import CustomResourceDefinition
from kubevouch.authentication.interface import UserInfo
from kubevouch.machinery.custom_object import CustomObject
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import DeleteOptions, replace_metadata
from kubevouch.machinery.text.times import Time
from kubevouch.registry.interface import Context
from kubevouch.registry.store import ResourceStore
from kubevouch.util.clock import Clock

# Deleted side by side: they share a commit.
_SLICE = 64
POLL_SECONDS, PATIENCE_SECONDS = 1.0, 60.0

Write = Callable[[CustomResourceDefinition], Awaitable[CustomResourceDefinition | None]]
Objects = Callable[[str], Awaitable[ResourceStore[CustomObject] | None]]

_IN_PROGRESS = Finding(
    TERMINATING, TRUE, "InstanceDeletionInProgress", "CustomResource deletion is in progress"
)  # fmt: skip
_COMPLETED = Finding(TERMINATING, FALSE, "InstanceDeletionCompleted", "removed all instances")
_NEVER_ESTABLISHED = Finding(TERMINATING, FALSE, "NeverEstablished", "resource was never established")


class ObjectsRemain(Exception):
    """Not all objects have gone; ``finding`` says why."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.finding = Finding(TERMINATING, TRUE, reason, message)


def waits_for_its_objects(definition: CustomResourceDefinition) -> bool:
    """Whether it is to be deleted once its objects have gone."""
    meta = definition.metadata
    return meta.deletion_timestamp is not None and CLEANUP_FINALIZER in meta.finalizers


class Finalizer:
    """Deletes the objects of definitions.

    Args:
        write: stores a definition's status; None if somebody else was first.
        objects: the storage of a definition's objects, past admission and conversion; None if it has none.
    """

    def __init__(self, user: UserInfo, clock: Clock, write: Write, objects: Objects) -> None:
        self._user = user
        self._clock = clock
        self._write = write
        self._objects = objects

    async def finalize(self, definition: CustomResourceDefinition) -> None:
        """Raises :class:`ObjectsRemain`, ``APIStatusError``."""
        begun = await self._write(self._with(definition, _IN_PROGRESS))
        if begun is None:
            return
        finding = _NEVER_ESTABLISHED
        if is_true(begun, ESTABLISHED):
            try:
                await self._delete_all(begun.metadata.name)
            except ObjectsRemain as err:
                await self._write(self._with(begun, err.finding))
                raise
            finding = _COMPLETED
        finalizers = [each for each in begun.metadata.finalizers if each != CLEANUP_FINALIZER]
        await self._write(self._with(replace_metadata(begun, finalizers=finalizers), finding))

    def _with(self, definition: CustomResourceDefinition, finding: Finding) -> CustomResourceDefinition:
        return with_finding(definition, finding, Time.of(self._clock.now()))

    async def _delete_all(self, name: str) -> None:
        objects = await self._objects(name)
        if objects is None:
            return
        keys = [(each.obj.metadata.namespace, each.obj.metadata.name) for each in objects.cache.values()]
        failures: list[str] = []
        for some in _slices(keys):
            failures += filter(None, await asyncio.gather(*(self._delete(objects, *key) for key in some)))
        if failures:
            texts = list(dict.fromkeys(failures))
            why = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
            raise ObjectsRemain("InstanceDeletionFailed", f"could not issue all deletes: {why}")
        begun = self._clock.monotonic()
        # Asked for each time: when the definition changes, its objects get another cache.
        while (left := await self._objects(name)) is not None and len(left.cache):
            if self._clock.monotonic() - begun >= PATIENCE_SECONDS:
                why = "could not confirm zero CustomResources remaining: timed out waiting for the condition"
                raise ObjectsRemain("InstanceDeletionCheck", why)
            await self._clock.sleep(POLL_SECONDS)

    async def _delete(self, objects: ResourceStore[CustomObject], namespace: str, name: str) -> str:
        """What went wrong."""
        ctx = Context(self._user, self._clock.now(), own=True)
        try:
            await objects.delete(ctx, namespace, name, DeleteOptions())
        except APIStatusError as err:
            return "" if err.code == 404 else str(err)
        return ""


def _slices(keys: Sequence[tuple[str, str]]) -> Iterator[Sequence[tuple[str, str]]]:
    return (keys[start : start + _SLICE] for start in range(0, len(keys), _SLICE))
