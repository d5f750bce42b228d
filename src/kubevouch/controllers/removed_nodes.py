"""node-removal-controller: writes down which Nodes are gone: their names are free, or their machines locked out.

It compares the Nodes with those it has written down, so that it also learns of a deletion that happened while it did
not run. A Node that is only marked for deletion counts as gone: a finalizer keeps nobody in. Source: kubevouch's own.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from contextlib import suppress

import msgspec

from kubevouch import wellknown
from kubevouch.api.catalog import NODES
from kubevouch.api.core_v1 import Node
from kubevouch.api.core_v1.events import WARNING
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REVOCATIONS
from kubevouch.client.cache.lister import Lister
from kubevouch.client.config_map_overflow import data_of, find, find_further, write
from kubevouch.client.interface import Client
from kubevouch.client.workqueue import Workqueue
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import DONE, Context, ReconcileError, Request, Result
from kubevouch.controllers.recovery_records import RecoveryRecords
from kubevouch.machinery.errors import APIStatusError
from kubevouch.records import node_recovery
from kubevouch.revocation import node_records
from kubevouch.revocation.node_records import LAYOUT, SHARDS, NodeRecord, NodeRecordsFullError, shard_of
from kubevouch.revocation.node_revocation import of_node
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger
from kubevouch.util.settled_time import SettledTime

log = get_logger("controllers.removed_nodes")

NAME = wellknown.NODE_REMOVAL_CONTROLLER
SHARD_INDEX = "record-shard"
BATCH_SECONDS = 10.0
"""New Nodes of this time share a write. A deletion is written at once."""
DELETED = "its Node was deleted"
LOCKED_OUT_EVENT = "NodeLockedOut"
# So that what has ended goes.
_SWEEP_SECONDS = 86400.0


class RemovedNodes:
    """One request for each ConfigMap of records.

    Args:
        lock: whether the certificates of a deleted Node are locked out.
        lifetime: the longest of certificates that are signed here.
        recovery: the records of recovery keys, where nodes may recover: a locked out node may not.
    """

    def __init__(
        self,
        client: Client,
        nodes: Lister[Node],
        clock: Clock,
        *,
        lock: bool,
        lifetime: dt.timedelta,
        recovery: RecoveryRecords | None,
    ) -> None:
        self._client = client
        self._nodes = nodes
        self._clock = clock
        self._settled = SettledTime(clock)
        self._lock = lock
        self._lifetime = lifetime
        self._recovery = recovery
        self._deleted: dict[str, str] = {}

    def note_deletion(self, node: Node) -> None:
        """Remember a Node that went, until its record is written: one deleted within the batch has no record yet."""
        self._deleted[node.metadata.name] = node.metadata.uid

    async def reconcile(self, request: Request) -> Result:
        shard = request.name
        nodes = {
            node.metadata.name: node.metadata.uid
            for node in self._nodes.by_index(SHARD_INDEX, shard)
            if node.metadata.deletion_timestamp is None
        }
        first, *further = LAYOUT.path(shard)
        stored = {first: await find(self._client, first), **await find_further(self._client, further)}
        data = data_of(stored)
        former, now = node_records.records_of(data.values(), shard), self._clock.now()
        deleted = {name: uid for name, uid in self._deleted.items() if shard_of(name) == shard}
        known = former | {
            name: msgspec.structs.replace(record, uid=uid)
            for name, uid in deleted.items()
            if not (record := former.get(name, node_records.NONE)).uid
        }
        records = node_records.followed(
            known, nodes, now, now + self._lifetime, lock=self._lock, why=DELETED, settled=self._settled.now()
        )
        gone = dict.fromkeys(former.keys() - records.keys(), node_records.NONE)
        changes = gone | {name: record for name, record in records.items() if former.get(name) != record}
        full = None
        try:
            placed = node_records.placed(data, changes)
        except NodeRecordsFullError as err:
            placed, full = err.placed, err
        for name, entries in placed.changed.items():
            # A conflict with somebody else's write raises, and comes again.
            await write(self._client, stored[name], name, entries)
        await self._tell(known, {name: each for name, each in records.items() if name not in placed.left_over})
        if full is not None:
            raise ReconcileError(f"{first}: {full}") from full
        for name, uid in deleted.items():
            if self._deleted.get(name) == uid:
                del self._deleted[name]
        return Result(_SWEEP_SECONDS) if records else DONE

    async def _tell(self, former: Mapping[str, NodeRecord], records: Mapping[str, NodeRecord]) -> None:
        for name, record in records.items():
            before = former.get(name, node_records.NONE)
            if before.uid and not record.uid:
                log.info("a node is gone", node=name, locked_out=record.locked is not None)
            if record.locked is None or record.locked == before.locked:
                continue
            why = record.why
            await self._revoke(name, record.locked, why)
            if self._recovery is None:
                continue

            def locked(found: node_recovery.Record | None, why: str = why) -> node_recovery.Record | None:
                return None if found is None else node_recovery.lock(found, why, now=self._clock.now())

            await self._recovery.change(name, locked)
            await self._recovery.tell(name, WARNING, LOCKED_OUT_EVENT, f"its certificates are locked out: {why}")

    async def _revoke(self, name: str, moment: dt.datetime, why: str) -> None:
        """So that CRLs, OCSP and other servers hear of it, too."""
        try:
            await self._client.create(CERTIFICATE_REVOCATIONS, of_node(name, moment, why, NAME))
        except APIStatusError as err:
            # There already, or of a kind that this cluster does not have.
            if err.code not in (404, 409):
                raise


class _Nodes:
    """Hears of Nodes that come, a little later, and of those that go, at once."""

    def __init__(self, queue: Workqueue[Request], reconciler: RemovedNodes) -> None:
        self._queue = queue
        self._reconciler = reconciler

    def on_add(self, obj: Node, *, initial: bool) -> None:  # noqa: ARG002
        self._queue.add_after(_request(obj), BATCH_SECONDS)

    def on_update(self, old: Node, new: Node) -> None:
        if old.metadata.uid != new.metadata.uid or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp:
            self._gone(old)

    def on_delete(self, obj: Node, *, missed: bool) -> None:  # noqa: ARG002
        if obj.metadata.deletion_timestamp is None:
            self._gone(obj)
        else:  # Noted when it was marked. Since then somebody may have lifted the lock.
            self._queue.add(_request(obj))

    def _gone(self, node: Node) -> None:
        self._reconciler.note_deletion(node)
        self._queue.add(_request(node))


def _request(node: Node) -> Request:
    return Request(shard_of(node.metadata.name))


def _shards(node: Node) -> Iterable[str]:
    return (shard_of(node.metadata.name),)


def build(context: Context) -> QueueController:
    client = context.connect(NAME)
    informer = context.informers.informer(NODES, client=client)
    with suppress(ValueError):
        informer.indexer.add_index(SHARD_INDEX, _shards)
    recovery = None
    if context.recovery is not None:
        recoverer = context.connect(wellknown.NODE_RECOVERY_CONTROLLER)
        recovery = RecoveryRecords(recoverer, context.clock, wellknown.NODE_RECOVERY_CONTROLLER)
    reconciler = RemovedNodes(
        client,
        informer.lister,
        context.clock,
        lock=context.lock_out_deleted_nodes,
        lifetime=context.certificate_lifetime,
        recovery=recovery,
    )
    controller = QueueController(NAME, reconciler, context.clock)
    controller.follow(informer, _Nodes(controller.queue, reconciler))
    for shard in SHARDS:
        controller.queue.add(Request(shard))
    return controller
