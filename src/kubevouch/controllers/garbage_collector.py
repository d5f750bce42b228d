"""garbage-collector-controller: deletes what has lost its owners, and lets owners go as their deletion asks.

An owner reference holds within the namespace of the object that has it; objects of the cluster can only belong to
objects of the cluster. Whoever refers to a kind that is not served keeps its object, for nobody can tell whether the
owner is there. An owner that is in another namespace is reported as an Event.

Source: pkg/controller/garbagecollector (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from kubevouch import wellknown
from kubevouch.api.catalog import EVENTS, NAMESPACES
from kubevouch.api.core_v1.events import WARNING
from kubevouch.api.core_v1.references import ObjectReference
from kubevouch.api.kubevouch_v1alpha1 import GROUP as OWN_GROUP
from kubevouch.api.meta_v1 import BACKGROUND, FOREGROUND, ORPHAN
from kubevouch.client.cache.informer import Registration, SharedInformer
from kubevouch.client.interface import MERGE_PATCH, STRATEGIC_MERGE_PATCH, Client, TransportError
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.custom_kinds import CustomKind, CustomKinds
from kubevouch.controllers.event_recorder import EventRecorder
from kubevouch.controllers.interface import DONE, Context, IgnorableError, Request, Result
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.custom_object import CustomObject
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import DeleteOptions, Object, ObjectMeta, OwnerReference, Preconditions
from kubevouch.machinery.scheme import Resource
from kubevouch.machinery.text.gotext import quote
from kubevouch.util.logger import get_logger

log = get_logger("controllers")

NAME = wellknown.GARBAGE_COLLECTOR_CONTROLLER

WORKERS = 20  # kube-controller-manager's --concurrent-gc-syncs
_OWNERS = "ownerUID"  # the index of dependents


def is_orphaning(meta: ObjectMeta) -> bool:
    """Whether it is being deleted and its dependents are to stay."""
    return meta.deletion_timestamp is not None and wellknown.ORPHAN_FINALIZER in meta.finalizers


def is_deleting_dependents(meta: ObjectMeta) -> bool:
    """Whether it is being deleted and its dependents are to go first."""
    return meta.deletion_timestamp is not None and wellknown.FOREGROUND_FINALIZER in meta.finalizers


def blocks(dependent: ObjectMeta, owner_uid: str) -> bool:
    """Whether the owner, deleted in the foreground, has to wait for ``dependent``."""
    return any(ref.uid == owner_uid and ref.block_owner_deletion for ref in dependent.owner_references)


def policy_of(meta: ObjectMeta) -> str:
    """How an object that nobody owns any more is deleted: as its finalizers ask."""
    if wellknown.ORPHAN_FINALIZER in meta.finalizers:
        return ORPHAN
    return FOREGROUND if wellknown.FOREGROUND_FINALIZER in meta.finalizers else BACKGROUND


class Owners(msgspec.Struct):
    """The references of one object, by what became of the owner."""

    solid: list[OwnerReference] = msgspec.field(default_factory=list)
    dangling: list[OwnerReference] = msgspec.field(default_factory=list)
    waiting: list[OwnerReference] = msgspec.field(default_factory=list)

    def add(self, reference: OwnerReference, owner: ObjectMeta | None) -> None:
        """``owner`` is what is found under the reference's name, None if nothing is."""
        if owner is None or owner.uid != reference.uid:
            self.dangling.append(reference)
        elif is_deleting_dependents(owner):
            self.waiting.append(reference)
        else:
            self.solid.append(reference)


class UnknownOwnerError(Exception):
    """A reference names a kind that is not served, or one of a namespace from outside of it."""


class Item(NamedTuple):
    """An object with the handle of its kind."""

    resource: Resource[Any]
    obj: Object

    @property
    def request(self) -> Request:
        meta = self.obj.metadata
        return Request(meta.name, meta.namespace, str(self.resource.group_resource))


class Graph:
    """Who belongs to whom, as the caches know it."""

    def __init__(self, informers: Sequence[SharedInformer[Any]], resources: Sequence[Resource[Any]]) -> None:
        self._caches: dict[str, SharedInformer[Any]] = {}
        self._kinds = {(each.api_version, each.kind): each for each in resources}
        for informer in informers:
            self._follow(informer)

    def _follow(self, informer: SharedInformer[Any]) -> None:
        self._caches[str(informer.resource.group_resource)] = informer
        informer.indexer.add_index(_OWNERS, _owner_uids)

    def add(self, kind: CustomKind, informer: SharedInformer[Any]) -> None:
        """A kind that has come."""
        self._follow(informer)
        for api_version in kind.api_versions:
            self._kinds[api_version, kind.resource.kind] = kind.resource

    def remove(self, kind: CustomKind) -> SharedInformer[Any] | None:
        """Forget a kind that has gone, and give back what followed it."""
        for api_version in kind.api_versions:
            self._kinds.pop((api_version, kind.resource.kind), None)
        return self._caches.pop(str(kind.resource.group_resource), None)

    def item(self, request: Request) -> Item | None:
        informer = self._caches.get(request.resource)
        if informer is None:
            return None
        key = f"{request.namespace}/{request.name}" if request.namespace else request.name
        obj = informer.indexer.get(key)
        return None if obj is None else Item(informer.resource, obj)

    def dependents(self, uid: str) -> Iterator[Item]:
        for informer in list(self._caches.values()):
            for obj in informer.indexer.by_index(_OWNERS, uid):
                yield Item(informer.resource, obj)

    def owner_kind(self, reference: OwnerReference, namespace: str) -> Resource[Any]:
        """Raises :class:`UnknownOwnerError`."""
        resource = self._kinds.get((reference.api_version, reference.kind))
        if resource is None:
            raise UnknownOwnerError(f"{reference.api_version} {reference.kind} is not served")
        if resource.namespaced and not namespace:
            raise UnknownOwnerError(f"an object of the cluster cannot belong to the {reference.kind} {reference.name}")
        return resource

    def owner(self, reference: OwnerReference, namespace: str) -> Item | None:
        """The owner, if the caches have it under its UID."""
        try:
            resource = self.owner_kind(reference, namespace)
        except UnknownOwnerError:
            return None
        kind = str(resource.group_resource)
        if kind not in self._caches:
            return None
        item = self.item(Request(reference.name, namespace if resource.namespaced else "", kind))
        return item if item is not None and item.obj.metadata.uid == reference.uid else None

    def is_elsewhere(self, reference: OwnerReference, namespace: str) -> bool:
        """Whether the owner is in a namespace where an object of ``namespace`` cannot have it."""
        resource = self._kinds.get((reference.api_version, reference.kind))
        if resource is None or not resource.namespaced or str(resource.group_resource) not in self._caches:
            return False
        cache = self._caches[str(resource.group_resource)].indexer
        found = (cache.get(f"{other}/{reference.name}") for other in self._namespaces() if other != namespace)
        return any(obj is not None and obj.metadata.uid == reference.uid for obj in found)

    def _namespaces(self) -> list[str]:
        informer = self._caches.get(str(NAMESPACES.group_resource))
        return [] if informer is None else informer.indexer.keys()

    def needs_look(self, meta: ObjectMeta) -> bool:
        """Whether the collector has to do something about an object, or to find out."""
        if meta.deletion_timestamp is not None:
            return is_orphaning(meta) or is_deleting_dependents(meta)
        owners = (self.owner(reference, meta.namespace) for reference in meta.owner_references)
        return any(owner is None or is_deleting_dependents(owner.obj.metadata) for owner in owners)

    def waiting_owners(self, meta: ObjectMeta) -> Iterator[Item]:
        """Owners that wait for this object, or others, to go."""
        for reference in meta.owner_references:
            owner = self.owner(reference, meta.namespace)
            if owner is not None and is_deleting_dependents(owner.obj.metadata):
                yield owner


def _owner_uids(obj: Object) -> Iterable[str]:
    return {reference.uid for reference in obj.metadata.owner_references}


class Trigger:
    """Hears of the changes of one resource."""

    def __init__(self, add: Callable[[Request], None], graph: Graph, resource: Resource[Any]) -> None:
        self._add = add
        self._graph = graph
        self._resource = resource

    def on_add(self, obj: Object, *, initial: bool) -> None:  # noqa: ARG002 - a start is no different
        if self._graph.needs_look(obj.metadata):
            self._add(Item(self._resource, obj).request)
        if is_deleting_dependents(obj.metadata):
            self._tell(self._graph.dependents(obj.metadata.uid))

    def on_update(self, old: Object, new: Object) -> None:
        if old.metadata.uid != new.metadata.uid:
            self.on_delete(old, missed=True)
        elif old.metadata.owner_references:
            self._tell(self._graph.waiting_owners(old.metadata))
        self.on_add(new, initial=False)

    def on_delete(self, obj: Object, *, missed: bool) -> None:  # noqa: ARG002
        self._tell(self._graph.dependents(obj.metadata.uid))
        self._tell(self._graph.waiting_owners(obj.metadata))

    def _tell(self, items: Iterable[Item]) -> None:
        for item in items:
            self._add(item.request)


class GarbageCollector:
    def __init__(self, client: Client, graph: Graph, recorder: EventRecorder) -> None:
        self._client = client
        self._graph = graph
        self._recorder = recorder

    async def reconcile(self, request: Request) -> Result:
        item = self._graph.item(request)
        if item is None or not self._graph.needs_look(item.obj.metadata):
            return DONE
        try:
            # The cache may be late: nothing happens but on what the server says now.
            live = await self._live(item.resource, request.name, request.namespace)
            if live is not None and live.metadata.uid == item.obj.metadata.uid:
                await self._settle(Item(item.resource, live))
        except UnknownOwnerError as err:
            log.debug("owner cannot be found out", controller=NAME, **request._asdict(), err=str(err))
        except APIStatusError as err:
            # Gone by itself, or changed meanwhile: the look that was just taken does not count.
            if err.code == 409:
                raise IgnorableError(str(err)) from err
            if err.code != 404:
                raise
        return DONE

    async def _settle(self, item: Item) -> None:
        meta = item.obj.metadata
        if is_orphaning(meta):
            await self._orphan(item)
        elif is_deleting_dependents(meta):
            await self._let_go(item)
        elif meta.deletion_timestamp is None and meta.owner_references:
            for reference in meta.owner_references:
                if self._graph.is_elsewhere(reference, meta.namespace):
                    await self._report(item, reference)
            await self._collect(item)

    async def _report(self, item: Item, owner: OwnerReference) -> None:
        resource, meta = item.resource, item.obj.metadata
        about = ObjectReference(
            kind=resource.kind, namespace=meta.namespace, name=meta.name, uid=meta.uid, api_version=resource.api_version
        )
        place = f"{owner.api_version}/{owner.kind}, namespace: {meta.namespace}, name: {owner.name}, uid: {owner.uid}"
        text = f"ownerRef [{place}] does not exist in namespace {quote(meta.namespace)}"
        try:
            await self._recorder.record(about, WARNING, "OwnerRefInvalidNamespace", text)
        except (APIStatusError, TransportError) as err:
            log.warning("an event is lost", controller=NAME, err=str(err))

    async def _live(self, resource: Resource[Any], name: str, namespace: str) -> Object | None:
        try:
            found: Object = await self._client.get(resource, name, namespace)
        except APIStatusError as err:
            if err.code == 404:
                return None
            raise
        return found

    # -------------------------------------------------------------- owners that are going

    async def _orphan(self, item: Item) -> None:
        uid = item.obj.metadata.uid
        for dependent in list(self._graph.dependents(uid)):
            await self._release(dependent, [uid])
        await self._remove_finalizer(item, wellknown.ORPHAN_FINALIZER)

    async def _let_go(self, item: Item) -> None:
        """Each dependent comes as a request of its own; the owner comes again when one of them has changed or gone."""
        uid = item.obj.metadata.uid
        if not any(blocks(each.obj.metadata, uid) for each in self._graph.dependents(uid)):
            await self._remove_finalizer(item, wellknown.FOREGROUND_FINALIZER)

    async def _remove_finalizer(self, item: Item, finalizer: str) -> None:
        meta = item.obj.metadata
        rest = [each for each in meta.finalizers if each != finalizer]
        await self._patch(item, {"resourceVersion": meta.resource_version, "finalizers": rest}, merge=True)

    # -------------------------------------------------------------- objects without owners

    async def _collect(self, item: Item) -> None:
        meta = item.obj.metadata
        owners = Owners()
        for reference in meta.owner_references:
            resource = self._graph.owner_kind(reference, meta.namespace)
            namespace = meta.namespace if resource.namespaced else ""
            owner = await self._live(resource, reference.name, namespace)
            owners.add(reference, None if owner is None else owner.metadata)
        if owners.solid:
            lost = [reference.uid for reference in (*owners.dangling, *owners.waiting)]
            if lost:
                await self._release(item, lost)
            return
        dependents = list(self._graph.dependents(meta.uid))
        if not (owners.waiting and dependents):
            await self._delete(item, policy_of(meta))
            return
        if any(is_deleting_dependents(each.obj.metadata) for each in dependents):
            # A circle: everyone would wait for everyone.
            await self._unblock(item)
            await self._delete(item, FOREGROUND, checks_version=False)
        else:
            await self._delete(item, FOREGROUND)

    async def _delete(self, item: Item, policy: str, *, checks_version: bool = True) -> None:
        meta = item.obj.metadata
        unchanged = Preconditions(uid=meta.uid, resource_version=meta.resource_version if checks_version else None)
        options = DeleteOptions(preconditions=unchanged, propagation_policy=policy)
        await self._client.delete(item.resource, meta.name, meta.namespace, options)
        log.info("collected", controller=NAME, resource=str(item.resource.group_resource), name=meta.name,
                 namespace=meta.namespace, policy=policy)  # fmt: skip

    async def _release(self, item: Item, owners: Iterable[str]) -> None:
        lost = set(owners)
        changes: Mapping[str, Any] = {"ownerReferences": [{"$patch": "delete", "uid": uid} for uid in lost]}
        custom = item.resource.codec.schema is None
        if custom:
            changes = _replaced(item, lambda each: each.uid not in lost)
        try:
            await self._patch(item, changes, merge=custom)
        except APIStatusError as err:
            if err.code != 404:
                raise

    async def _unblock(self, item: Item) -> None:
        references = [
            {"uid": reference.uid, "blockOwnerDeletion": False}
            for reference in item.obj.metadata.owner_references
            if reference.block_owner_deletion
        ]
        if references and item.resource.codec.schema is None:
            freed = [structs.replace(each, block_owner_deletion=False) for each in item.obj.metadata.owner_references]
            await self._patch(item, _listed(item, freed), merge=True)
        elif references:
            await self._patch(item, {"ownerReferences": references})

    async def _patch(self, item: Item, changes: Mapping[str, Any], *, merge: bool = False) -> None:
        """The UID makes it a conflict when another object has taken the name."""
        meta = item.obj.metadata
        patch = {"metadata": {**changes, "uid": meta.uid}}
        kind = MERGE_PATCH if merge else STRATEGIC_MERGE_PATCH
        await self._client.patch(item.resource, meta.name, patch, kind, meta.namespace)


def _replaced(item: Item, keep: Callable[[OwnerReference], bool]) -> dict[str, Any]:
    return _listed(item, [each for each in item.obj.metadata.owner_references if keep(each)])


def _listed(item: Item, references: Sequence[OwnerReference]) -> dict[str, Any]:
    """The whole list, for objects that have no strategic merge; it holds for the version that was read."""
    trees = [json_codec.to_builtins(each) for each in references]
    return {"resourceVersion": item.obj.metadata.resource_version, "ownerReferences": trees}


def build(context: Context) -> QueueController | None:
    # Kubernetes' ignores events too: they are many, own nothing, and time takes them.
    collected = [resource for resource in context.resources if resource != EVENTS]
    if not collected:
        return None
    client = context.connect(NAME)
    informers = [context.informers.informer(resource, client=client) for resource in collected]
    graph = Graph(informers, context.resources)
    collector = GarbageCollector(client, graph, EventRecorder(client, context.clock, NAME))
    controller = QueueController(NAME, collector, context.clock, workers=WORKERS)
    for informer in informers:
        controller.follow(informer, Trigger(controller.queue.add, graph, informer.resource))

    handlers: dict[str, Registration[CustomObject]] = {}

    def came(kind: CustomKind) -> None:
        informer = context.informers.informer(kind.resource, client=client)
        graph.add(kind, informer)
        trigger = Trigger(controller.queue.add, graph, kind.resource)
        handlers[str(kind.resource.group_resource)] = informer.add_handler(trigger)

    def went(kind: CustomKind) -> None:
        informer = graph.remove(kind)
        if informer is None:
            return
        informer.remove_handler(handlers.pop(str(kind.resource.group_resource)))
        if kind.resource.group == OWN_GROUP:
            # Other controllers decide by it, and its definition is put back.
            context.informers.rest(informer)
        else:
            context.informers.forget(informer)

    CustomKinds(context.informers, client, came, went)
    return controller
