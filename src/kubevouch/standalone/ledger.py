"""The ledger of a standalone server: in its data directory, or in memory where the store is."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from pathlib import Path

from kubevouch import wellknown
from kubevouch.api.catalog import CONFIG_MAPS
from kubevouch.client.interface import Client
from kubevouch.ledger.entries import BEGUN, ISSUED, RESTORED, Entry, Query
from kubevouch.ledger.interface import Ledger
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.ledger.opening import DEFAULT_FILE
from kubevouch.ledger.store import SQLiteLedger
from kubevouch.records import certificate_ledger
from kubevouch.storage.options import MemorySpec, StoreSpec
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

_BATCH = 256

log = get_logger("standalone.ledger")


async def open_ledger(spec: StoreSpec, data_dir: Path, clock: Clock) -> Ledger:
    """Where the store is in memory, so is the ledger. Raises LedgerError."""
    if isinstance(spec, MemorySpec):
        return MemoryLedger()
    return await SQLiteLedger.open(data_dir / DEFAULT_FILE, clock)


async def begin(ledger: SQLiteLedger, client: Client, now: dt.datetime) -> None:
    """The first entries of a ledger that is new, or that was copied: since when, and what is known from before.

    A data directory may be older than the ledger. The records of names (``records.certificate_ledger``) then tell which
    certificates are alive, though neither what they say in full nor who has approved them.

    Raises:
        APIStatusError, TransportError, LedgerError
    """
    if ledger.copied:
        message = f"it goes on from a copy of {ledger.copied}; what was written to the other one later is not here"
        await ledger.append(Entry(kind=RESTORED, at=now, message=message))
    if await ledger.find(Query(kinds=frozenset({BEGUN}), limit=1)):
        return
    found = 0
    listed = await client.list(CONFIG_MAPS, wellknown.KUBE_SYSTEM_NAMESPACE)
    for config_map in listed.items:
        if not config_map.metadata.name.startswith(certificate_ledger.PREFIX):
            continue
        entries = list(_entries(certificate_ledger.decode(config_map.data).values(), now))
        for at in range(0, len(entries), _BATCH):
            await ledger.append(*entries[at : at + _BATCH])
        found += len(entries)
    message = "nothing was written down before"
    if found:
        message = f"{found} certificates were issued before and may be alive; who approved them is not known"
        log.warning("the ledger begins after certificates were issued", certificates=found)
    # The last, so that a start that is cut short begins anew: what is found twice is told twice.
    await ledger.append(Entry(kind=BEGUN, at=now, message=message))


def _entries(issued: Iterable[certificate_ledger.IssuedCertificate], now: dt.datetime) -> Iterator[Entry]:
    for each in issued:
        yield Entry(
            kind=ISSUED,
            at=now,
            signer=each.signer_name,
            reason="FoundInRecords",
            message="it was issued before this ledger began",
            serial=each.serial,
            issuer_key=each.authority,
            subject=each.common_name,
            not_before=each.not_before,
            not_after=each.not_after,
            token=each.token,
            node=each.machine,
        )
