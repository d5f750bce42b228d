"""Looking at the recovery keys of nodes, and deciding about them."""

from __future__ import annotations

from collections.abc import Callable

from kubevouch.api.catalog import CONFIG_MAPS
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.client import stored
from kubevouch.client.interface import Client
from kubevouch.client.pager import PAGES, list_all
from kubevouch.machinery.errors import APIStatusError
from kubevouch.records import node_recovery
from kubevouch.records.node_recovery import Record, RecoveryRecordError
from kubevouch.util.clock import Clock

REVOKED = "an operator has revoked it"


class NodeRecoveryError(Exception):
    """The node has no recovery key, or none that can be read; ``hint`` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


async def records(client: Client) -> tuple[list[Record], list[str]]:
    """All records by name of the node, and what is wrong with others. Raises APIStatusError, TransportError."""
    found, troubles = [], []
    for each in (await list_all(client, CONFIG_MAPS, node_recovery.NAMESPACE, PAGES)).items:
        if not node_recovery.is_record(each):
            continue
        try:
            found.append(node_recovery.record_of(each))
        except RecoveryRecordError as err:
            troubles.append(str(err))
    return sorted(found, key=lambda record: record.node), troubles


async def allow(client: Client, node_name: str) -> None:
    """Let the machine that holds the registered key recover again. Raises as :func:`_change` does."""
    await _change(client, node_name, node_recovery.unlock)


async def revoke(client: Client, node_name: str, clock: Clock) -> None:
    """Let nobody recover as this node, whatever key they hold. Raises as :func:`_change` does."""
    await _change(client, node_name, lambda record: node_recovery.lock(record, REVOKED, now=clock.now()))


async def forget(client: Client, node_name: str) -> None:
    """Remove the record: the next request of the node, or its next join, registers a key anew.

    Raises:
        NodeRecoveryError: there is none.
        APIStatusError, TransportError
    """
    try:
        await client.delete(CONFIG_MAPS, node_recovery.record_name(node_name), node_recovery.NAMESPACE)
    except APIStatusError as err:
        if err.code == 404:
            raise _unknown(node_name) from err
        raise


async def _change(client: Client, node_name: str, change: Callable[[Record], Record]) -> None:
    """Raises NodeRecoveryError, APIStatusError, TransportError."""

    def decide(found: ConfigMap | None) -> ConfigMap:
        if found is None:
            raise _unknown(node_name)
        try:
            return node_recovery.config_map(change(node_recovery.record_of(found)), found)
        except RecoveryRecordError as err:
            raise NodeRecoveryError(str(err), f"kubevouch recovery forget {node_name}") from err

    await stored.change(client, CONFIG_MAPS, node_recovery.record_name(node_name), node_recovery.NAMESPACE, decide)


def _unknown(node_name: str) -> NodeRecoveryError:
    return NodeRecoveryError(
        f"no recovery key is registered for node {node_name!r}", "kubevouch recovery list shows those that are"
    )
