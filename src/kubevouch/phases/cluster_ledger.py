"""A ledger in a cluster, for commands that look into one: read whole, checked, and copied to a file."""

from __future__ import annotations

from pathlib import Path

from kubevouch.client.interface import Client
from kubevouch.ledger import cluster
from kubevouch.ledger.cluster import Loaded
from kubevouch.ledger.entries import Query
from kubevouch.ledger.interface import LedgerUnavailable, ReadableLedger
from kubevouch.ledger.opening import DEFAULT_FILE
from kubevouch.ledger.store import SQLiteLedger
from kubevouch.util.clock import SystemClock

_BATCH = 1000


async def read(client: Client) -> Loaded:
    """The whole ledger of the cluster, every entry of which was checked.

    Raises:
        LedgerDamaged, LedgerUnavailable: also where there is none.
    """
    loaded = await cluster.load(client)
    if not loaded.position.size:
        raise LedgerUnavailable(
            f"there is no ledger in the namespace {cluster.NAMESPACE}; kubevouch controllers --ledger cluster keeps one"
        )
    return loaded


async def find_ledger(client: Client) -> ReadableLedger | None:
    """What the cluster's ledger has at this moment; None where there is none.

    Raises:
        LedgerDamaged, LedgerUnavailable
    """
    loaded = await cluster.load(client)
    return loaded.entries if loaded.position.size else None


async def copy(client: Client, folder: Path) -> Path:
    """Every entry, under its sequence, in a file in ``folder`` with a key of its own; returns its path.

    Raises:
        LedgerDamaged, LedgerUnavailable
    """
    loaded = await read(client)
    path = folder / DEFAULT_FILE
    ledger = await SQLiteLedger.open(path, SystemClock())
    try:
        after = -1
        while page := await loaded.entries.find(Query(after=after, limit=_BATCH)):
            for each in page:
                after = each.sequence
            await ledger.append(*(each.entry for each in page))
    finally:
        await ledger.close()
    return path
