"""The ledger of a standalone server: in its data directory, or in memory where the store is."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from kubevouch import wellknown
from kubevouch.api.catalog import CONFIG_MAPS
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REVOCATIONS
from kubevouch.client.interface import Client
from kubevouch.ledger.cluster import ClusterLedger
from kubevouch.ledger.entries import BEGUN, ISSUED, RESTORED, REVOKED, Entry, Query
from kubevouch.ledger.interface import Ledger
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.ledger.opening import DEFAULT_FILE
from kubevouch.ledger.store import SQLiteLedger
from kubevouch.policy.standing_decisions import in_force
from kubevouch.records import certificate_ledger
from kubevouch.revocation.lost_revocations import lost_revocations
from kubevouch.revocation.revocations import Revocations
from kubevouch.storage.options import MemorySpec, StoreSpec
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

_BATCH = 256
_PAGE = 1000

log = get_logger("standalone.ledger")


async def open_ledger(spec: StoreSpec, data_dir: Path, clock: Clock) -> Ledger:
    """Where the store is in memory, so is the ledger. Raises LedgerError."""
    if isinstance(spec, MemorySpec):
        return MemoryLedger()
    return await SQLiteLedger.open(data_dir / DEFAULT_FILE, clock)


async def begin(ledger: SQLiteLedger | ClusterLedger, client: Client, now: dt.datetime) -> None:
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


_PUT_BACK = "nothing to do: it is in force, and is put back"
_AGAIN = "look at what it was about, and revoke it again unless somebody has deleted it"


async def tell_lost_revocations(ledger: Ledger, revocations: Revocations) -> None:
    """At a start: name what the ledger has revoked and the store has not, before anybody is let in by that.

    A store that is older than the ledger tells nothing by itself, and neither does a mark that somebody has accepted.

    Raises:
        LedgerError
    """
    entries: list[Entry] = []
    query = Query(kinds=frozenset({REVOKED}), limit=_PAGE)
    while page := await ledger.find(query):
        entries += [each.entry for each in page]
        query = msgspec.structs.replace(query, after=page[-1].sequence)
    lost = lost_revocations(entries, {each.name for each in revocations})
    held = await in_force(ledger) if lost else {}
    for entry in lost:
        stands = (CERTIFICATE_REVOCATIONS.plural, entry.request) in held
        log.error(
            "a revocation is in the ledger and not in the store, which may be older", name=entry.request,
            reason=entry.reason, recorded=entry.at.isoformat(), why=entry.message, next=_PUT_BACK if stands else _AGAIN,
        )  # fmt: skip


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
