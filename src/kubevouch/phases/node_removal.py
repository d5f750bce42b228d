"""Taking a machine out of service: its certificates are locked out first, then its Node is deleted.

NodeRemovalError    there is nothing to remove or to lift; ``hint`` says what to do
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import msgspec

from kubevouch.api.catalog import CONFIG_MAPS, NODES
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REVOCATIONS
from kubevouch.client import stored
from kubevouch.client.config_map_overflow import data_of, find, find_further, write
from kubevouch.client.interface import Client
from kubevouch.client.pager import PAGES, list_all
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki.policy import DEFAULT_SIGNING_DURATION
from kubevouch.records import node_recovery
from kubevouch.records.node_recovery import RecoveryRecordError
from kubevouch.revocation import node_records
from kubevouch.revocation.node_records import NodeRecord, NodeRecordsFullError
from kubevouch.revocation.node_revocation import is_of_node, of_node
from kubevouch.util.clock import Clock

REMOVED = "an operator has removed it"


class NodeRemovalError(Exception):
    """There is nothing to remove or to lift; ``hint`` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Removed(msgspec.Struct, frozen=True):
    """What was done. ``until``: when the last of its certificates ends, at the latest."""

    node: str
    until: dt.datetime
    node_deleted: bool


async def remove(client: Client, node_name: str, why: str = "") -> Removed:
    """Lock the node's certificates out, and delete its Node. It can be done again, and for a node that has no Node.

    Raises:
        NodeRemovalError, APIStatusError, TransportError
    """
    meta = ObjectMeta(name=f"{node_records.PREFIX}time", namespace=node_records.NAMESPACE)
    now = await stored.server_time(client, CONFIG_MAPS, ConfigMap(metadata=meta))
    until = now + DEFAULT_SIGNING_DURATION
    record = await _change(
        client,
        node_name,
        lambda record: node_records.removed(record, now, until, lock=True, why=why or REMOVED),
    )
    await _lock_recovery(client, node_name, now, record.why)
    await _revoke(client, node_name, record.locked or now, record.why)
    try:
        await client.delete(NODES, node_name)
    except APIStatusError as err:
        if err.code != 404:
            raise
        return Removed(node_name, until, node_deleted=False)
    return Removed(node_name, until, node_deleted=True)


async def lift(client: Client, node_name: str, clock: Clock) -> None:
    """Let the certificates of a node count again that have not ended; its name is free for everybody.

    Raises:
        NodeRemovalError: it is not locked out.
        APIStatusError, TransportError
    """

    def lifted(record: NodeRecord) -> NodeRecord:
        if node_records.current(record, clock.now()).locked is None:
            raise NodeRemovalError(f"node {node_name} is not locked out", "kubevouch node lockouts shows who is")
        return node_records.lifted(record)

    await _change(client, node_name, lifted)
    try:
        revocations = (await list_all(client, CERTIFICATE_REVOCATIONS, "", PAGES)).items
    except APIStatusError as err:
        if err.code != 404:
            raise
        return
    for each in revocations:
        if is_of_node(each, node_name):
            await client.delete(CERTIFICATE_REVOCATIONS, each.metadata.name)


async def _revoke(client: Client, node_name: str, moment: dt.datetime, why: str) -> None:
    """So that CRLs, OCSP and other servers hear of it, too."""
    try:
        await client.create(CERTIFICATE_REVOCATIONS, of_node(node_name, moment, why, "kubevouch node remove"))
    except APIStatusError as err:
        # There already, or of a kind that this cluster does not have.
        if err.code not in (404, 409):
            raise


async def lockouts(client: Client, clock: Clock) -> dict[str, NodeRecord]:
    """Who is locked out, by name. Raises APIStatusError, TransportError."""
    found: dict[str, NodeRecord] = {}
    for name in node_records.CONFIG_MAPS:
        config_map = await stored.find(client, CONFIG_MAPS, name, node_records.NAMESPACE)
        for node, record in node_records.decode({} if config_map is None else config_map.data).items():
            found[node] = node_records.joined((found.get(node, node_records.NONE), record))
    now = clock.now()
    current = {name: node_records.current(record, now) for name, record in found.items()}
    return {name: current[name] for name in sorted(current) if current[name].locked is not None}


async def _change(client: Client, node_name: str, change: Callable[[NodeRecord], NodeRecord]) -> NodeRecord:
    first, *further = node_records.config_maps_of(node_name)

    async def write_all() -> NodeRecord:
        found = {first: await find(client, first), **await find_further(client, further)}
        data = data_of(found)
        changed = change(node_records.record_in(data.values(), node_name))
        for name, entries in node_records.placed(data, {node_name: changed}).changed.items():
            await write(client, found[name], name, entries)
        return changed

    try:
        return await stored.unopposed(write_all)
    except NodeRecordsFullError as err:
        raise NodeRemovalError(str(err), "kubevouch node lift NODE makes room") from err


async def _lock_recovery(client: Client, node_name: str, now: dt.datetime, why: str) -> None:
    """Its recovery key would bring it back once its certificate has ended."""

    def decide(found: ConfigMap | None) -> ConfigMap | None:
        if found is None:
            return None
        try:
            record = node_recovery.lock(node_recovery.record_of(found), why, now=now)
        except RecoveryRecordError:
            # Nobody recovers with what cannot be read.
            return None
        return node_recovery.config_map(record, found)

    await stored.change(client, CONFIG_MAPS, node_recovery.record_name(node_name), node_recovery.NAMESPACE, decide)
