"""namespace-controller: empties a namespace that is being deleted, then lets it go.

Source: pkg/controller/namespace/deletion (Kubernetes 1.36).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from kubevouch import wellknown
from kubevouch.api.catalog import NAMESPACES
from kubevouch.api.core_v1 import Namespace, NamespaceCondition
from kubevouch.api.core_v1.namespaces import TERMINATING
from kubevouch.client.cache.lister import Lister
from kubevouch.client.interface import Client, TransportError
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.custom_kinds import CustomKinds
from kubevouch.controllers.interface import DONE, Context, ReconcileError, Request, Result, request_of
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.scheme import Resource
from kubevouch.machinery.text.times import Time
from kubevouch.util.clock import Clock

NAME = wellknown.NAMESPACE_CONTROLLER

WORKERS = 10  # kube-controller-manager's --concurrent-namespace-syncs
# Half of the 15 s that Kubernetes gives finalizers, and one.
REMAINING_SECONDS = 8.0

# Type, reason and message when all is well (…/deletion/status_condition_utils.go).
_WELL = (
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    ("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
)


class Remains(msgspec.Struct):
    """What a pass could not remove: objects by resource and by finalizer, and what was answered instead."""

    objects: Counter[str] = msgspec.field(default_factory=Counter)
    finalizers: Counter[str] = msgspec.field(default_factory=Counter)
    failures: list[str] = msgspec.field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.objects or self.failures)


def conditions(remains: Remains, now: Time, former: Sequence[NamespaceCondition]) -> list[NamespaceCondition]:
    """What the namespace's status says of ``remains``; a condition whose status stays keeps its time."""
    found = {}
    if remains.failures:
        text = "; ".join(remains.failures)
        found["NamespaceDeletionContentFailure"] = (
            "ContentDeletionFailed",
            f"Failed to delete all resource types, {len(remains.failures)} remaining: {text}",
        )
    if remains.objects:
        found["NamespaceContentRemaining"] = (
            "SomeResourcesRemain",
            f"Some resources are remaining: {_counted(remains.objects, 'has')}",
        )
    if remains.finalizers:
        found["NamespaceFinalizersRemaining"] = (
            "SomeFinalizersRemain",
            f"Some content in the namespace has finalizers remaining: {_counted(remains.finalizers, 'in')}",
        )
    times = {(condition.type, condition.status): condition.last_transition_time for condition in former}
    made = []
    for kind, reason, message in _WELL:
        status = wellknown.CONDITION_TRUE if kind in found else wellknown.CONDITION_FALSE
        reason, message = found.get(kind, (reason, message))
        made.append(
            NamespaceCondition(
                type=kind,
                status=status,
                last_transition_time=times.get((kind, status)) or now,
                reason=reason,
                message=message,
            )
        )
    known = {kind for kind, _, _ in _WELL}
    return [*(condition for condition in former if condition.type not in known), *made]


def _counted(counts: Counter[str], verb: str) -> str:
    return ", ".join(f"{what} {verb} {count} resource instances" for what, count in sorted(counts.items()))


class NamespaceDeleter:
    def __init__(
        self, client: Client, namespaces: Lister[Namespace], resources: Iterable[Resource[Any]], clock: Clock
    ) -> None:
        """``resources`` is looked through anew each time."""
        self._client = client
        self._namespaces = namespaces
        self._resources = resources
        self._clock = clock

    async def reconcile(self, request: Request) -> Result:
        cached = self._namespaces.get(request.name)
        if cached is None or not is_going(cached):
            return DONE
        try:
            return await self._empty(await self._client.get(NAMESPACES, request.name))
        except APIStatusError as err:
            if err.code == 404:
                return DONE
            raise

    async def _empty(self, namespace: Namespace) -> Result:
        # 1. Nothing new may come in.
        if namespace.status.phase != TERMINATING:
            namespace = await self._write_status(namespace, phase=TERMINATING)
        if not is_going(namespace):
            return DONE
        # 2. What is in it goes.
        remains = await self._delete_content(namespace.metadata.name)
        if remains:
            told = conditions(remains, Time.of(self._clock.now()), namespace.status.conditions)
            if told != namespace.status.conditions:
                await self._write_status(namespace, conditions=told)
            if remains.failures:
                raise ReconcileError("; ".join(remains.failures))
            return Result(REMAINING_SECONDS)
        # 3. So does the namespace.
        finalizers = [each for each in namespace.spec.finalizers if each != wellknown.NAMESPACE_FINALIZER]
        spec = msgspec.structs.replace(namespace.spec, finalizers=finalizers)
        await self._client.update(NAMESPACES, msgspec.structs.replace(namespace, spec=spec), subresource="finalize")
        return DONE

    async def _write_status(self, namespace: Namespace, **changes: Any) -> Namespace:
        status = msgspec.structs.replace(namespace.status, **changes)
        changed = msgspec.structs.replace(namespace, status=status)
        return await self._client.update(NAMESPACES, changed, subresource="status")

    async def _delete_content(self, namespace: str) -> Remains:
        remains = Remains()
        for resource in self._resources:
            try:
                await self._client.delete_collection(resource, namespace)
                left = (await self._client.list(resource, namespace)).items
            except (APIStatusError, TransportError) as err:
                # One resource that fails does not keep the others.
                remains.failures.append(f"{resource.plural}: {err}")
                continue
            if left:
                remains.objects[f"{resource.plural}.{resource.group}"] += len(left)
            for obj in left:
                remains.finalizers.update(obj.metadata.finalizers)
        return remains


def is_going(namespace: Namespace) -> bool:
    """Whether it is being deleted and waits for this controller."""
    waits = wellknown.NAMESPACE_FINALIZER in namespace.spec.finalizers
    return namespace.metadata.deletion_timestamp is not None and waits


def _requests(namespace: Namespace) -> Iterable[Request]:
    return (request_of(namespace),) if is_going(namespace) else ()


class _Content:
    """What there may be in a namespace, in the order in which it goes: first what may need built-in kinds to end."""

    def __init__(self, resources: Iterable[Resource[Any]], custom: CustomKinds) -> None:
        self._resources = [resource for resource in resources if resource.namespaced]
        self._custom = custom

    def __iter__(self) -> Iterator[Resource[Any]]:
        yield from (resource for resource in self._custom if resource.namespaced)
        yield from self._resources


def build(context: Context) -> QueueController:
    client = context.connect(NAME)
    namespaces = context.informers.informer(NAMESPACES, client=client)
    content = _Content(context.resources, CustomKinds(context.informers, client))
    deleter = NamespaceDeleter(client, namespaces.lister, content, context.clock)
    controller = QueueController(NAME, deleter, context.clock, workers=WORKERS, flow=lambda request: request.name)
    controller.watch(namespaces, on_add=_requests, on_update=_requests)
    return controller
