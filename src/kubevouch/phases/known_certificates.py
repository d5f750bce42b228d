"""What is known of the certificates of a cluster from outside: what the API tells, and a ledger in a file."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from sqlite3 import Connection

import msgspec

from kubevouch import wellknown
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, CONFIG_MAPS
from kubevouch.api.kubevouch_v1alpha1.catalog import NODE_IDENTITIES
from kubevouch.client import stored
from kubevouch.client.interface import Client
from kubevouch.client.pager import PAGES, list_all
from kubevouch.ledger import reading
from kubevouch.ledger.entries import Entry, Query, Recorded
from kubevouch.ledger.interface import ReadableLedger
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.ledger.opening import connect_to_read
from kubevouch.machinery.errors import APIStatusError
from kubevouch.records import certificate_ledger
from kubevouch.revocation.known import (
    IDENTITIES,
    LEDGER,
    OTHERS_WRITE_NONE,
    RECORDS,
    RECORDS_KEEP,
    REQUESTS,
    REQUESTS_END,
    HalfKeys,
    KnownCertificates,
    Source,
    of_identity,
    of_record,
    of_request,
)


class LedgerReader:
    """The ledger in a file, read beside the process that writes it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def find(self, query: Query) -> Sequence[Recorded]:
        """See ``ledger.interface.ReadableLedger``."""
        return reading.find(self._connection, query)


class Issued(msgspec.Struct, frozen=True):
    """What is known of what was issued. ``source``: where was looked, and what each place cannot know."""

    ledger: KnownCertificates
    source: str


def ledger_file(path: Path) -> closing[Connection]:
    """Raises LedgerError."""
    return closing(connect_to_read(path, beside_writer=True))


async def everything(client: Client, ledger: ReadableLedger | None = None, path: Path | None = None) -> Issued:
    """What the API tells, and the ledger of ``path`` with it where there is one: never less than without.

    Raises:
        APIStatusError, TransportError, LedgerError
    """
    sources = await _of_cluster(client)
    if ledger is not None:
        begun = await ledger.find(Query(limit=1))
        since = f"since {begun[0].entry.at:%Y-%m-%d %H:%M} UTC: " if begun else "empty: "
        sources = (Source(LEDGER, ledger, f"{path}, {since}{OTHERS_WRITE_NONE}"), *sources)
    known = KnownCertificates(*sources)
    return Issued(known, known.told())


async def _of_cluster(client: Client) -> tuple[Source, ...]:
    """The requests of the last hour, the newest certificate of each machine and signer, and what machines have proven.

    What the user may not read is no reason to stop, and is told.
    """
    requests, records, identities = MemoryLedger(), MemoryLedger(), MemoryLedger()
    limits = REQUESTS_END
    try:
        issued = map(of_request, (await list_all(client, CERTIFICATE_SIGNING_REQUESTS, options=PAGES)).items)
        await requests.append(*sorted(filter(None, issued), key=lambda each: each.at))
    except APIStatusError as err:
        limits = _unread(err)
    found: list[Entry] = []
    since = ""
    kept = "there are none: certificate-ledger-controller writes them where it runs"
    try:
        for name in certificate_ledger.LAYOUT.names:
            stored_map = await stored.find(client, CONFIG_MAPS, name, wellknown.KUBE_SYSTEM_NAMESPACE)
            if stored_map is None:
                continue
            made = stored_map.metadata.creation_timestamp
            if name == certificate_ledger.LAYOUT.names[0] and made is not None:
                # The first of them is made when the records begin.
                since = f"since {made.datetime():%Y-%m-%d %H:%M} UTC: "
            kept = f"{since}{RECORDS_KEEP}"
            found += map(of_record, certificate_ledger.decode(stored_map.data).values())
        await records.append(*sorted(found, key=lambda each: each.at))
    except APIStatusError as err:
        kept = _unread(err)
    proven = ""
    try:
        known = map(of_identity, (await list_all(client, NODE_IDENTITIES, options=PAGES)).items)
        await identities.append(*filter(None, known))
    except APIStatusError as err:
        proven = "there is no such kind here" if err.code == 404 else _unread(err)
    return (
        Source(REQUESTS, requests, limits),
        Source(RECORDS, HalfKeys(records), kept),
        Source(IDENTITIES, identities, proven),
    )


def _unread(err: APIStatusError) -> str:
    """Raises APIStatusError for what is no lack of rights."""
    if err.code != 403:
        raise err
    return "not looked at: this user may not read them"
