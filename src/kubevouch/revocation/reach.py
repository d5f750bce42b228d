"""Which certificates a revocation reaches, of those that the ledger knows."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import AsyncIterator, Iterable

import msgspec

from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import IssuedNumbers, RevocationTargets
from kubevouch.ledger.entries import ISSUED, Entry, Query
from kubevouch.ledger.interface import ReadableLedger
from kubevouch.records.node_recovery import is_recovering

_SECOND = dt.timedelta(seconds=1)
_LAST = dt.datetime.max.replace(tzinfo=dt.UTC)


def fingerprint_of(entry: Entry) -> str:
    """SHA-256 of the certificate, in hexadecimal digits."""
    return hashlib.sha256(entry.certificate).hexdigest()


def _behind(second: dt.datetime) -> dt.datetime:
    """The end of a second that counts whole; behind the last one that can be written there is none."""
    return second + _SECOND if second < _LAST - _SECOND else _LAST


async def reached(
    ledger: ReadableLedger, targets: RevocationTargets, until: dt.datetime, *, now: dt.datetime
) -> list[Entry]:
    """The certificates that have not ended, in the order in which they were issued.

    Args:
        until: what names reach was issued until then.

    Raises:
        LedgerError
    """
    found = {sequence: entry async for sequence, entry in _meant(ledger, targets, _behind(until), now)}
    return [found[sequence] for sequence in sorted(found)]


async def _meant(
    ledger: ReadableLedger, targets: RevocationTargets, before: dt.datetime, now: dt.datetime
) -> AsyncIterator[tuple[int, Entry]]:
    issued = Query(kinds=frozenset({ISSUED}), ends_after=now)
    replace = msgspec.structs.replace
    for group in targets.serials:
        for number in group.numbers:
            async for each in _all(ledger, replace(issued, serial=number)):
                if each[1].issuer_key == group.issuer:
                    yield each
    if targets.certificates:
        wanted = frozenset(targets.certificates)
        async for each in _all(ledger, issued):
            if fingerprint_of(each[1]) in wanted:
                yield each
    queries = [replace(issued, key=key) for key in targets.keys]
    queries += (replace(issued, node=node, until=before) for node in targets.nodes)
    queries += (replace(issued, requester=requester, until=before) for requester in targets.requesters)
    for query in queries:
        async for each in _all(ledger, query):
            yield each
    for user in targets.users:
        async for each in _all(ledger, replace(issued, name=user, until=before)):
            if each[1].subject == user:
                yield each
    for token in targets.tokens:
        async for each in _let_in_by(ledger, token, replace(issued, until=before)):
            yield each
    for period in targets.periods:
        if period.since is not None and period.until is not None:
            span = replace(issued, since=period.since.datetime(), until=_behind(period.until.datetime()))
            async for each in _all(ledger, span):
                if period.issuer in ("", each[1].issuer_key):
                    yield each


async def _let_in_by(ledger: ReadableLedger, token: str, issued: Query) -> AsyncIterator[tuple[int, Entry]]:
    """What a token has asked for, and what the machines that it has let in have renewed by themselves since.

    A machine that another token has let in again is that one's from then on.
    """
    nodes: dict[str, None] = {}
    # The certificate that a machine came with may have ended: what it has renewed since counts still.
    every = msgspec.structs.replace(issued, ends_after=None)
    async for sequence, entry in _all(ledger, msgspec.structs.replace(every, token=token)):
        nodes[entry.node] = None
        if not entry.node and _is_valid(entry, issued):
            yield sequence, entry
    for node in filter(None, nodes):
        is_its = False
        async for sequence, entry in _all(ledger, msgspec.structs.replace(every, node=node)):
            if entry.requester != entry.subject and not is_recovering(entry.requester):
                is_its = entry.token == token
            if is_its and _is_valid(entry, issued):
                yield sequence, entry


def _is_valid(entry: Entry, issued: Query) -> bool:
    return entry.not_after is not None and (issued.ends_after is None or entry.not_after >= issued.ends_after)


async def _all(ledger: ReadableLedger, query: Query) -> AsyncIterator[tuple[int, Entry]]:
    while True:
        page = await ledger.find(query)
        for each in page:
            yield each.sequence, each.entry
        if len(page) < query.limit:
            return
        query = msgspec.structs.replace(query, after=page[-1].sequence)


def numbers_of(entries: Iterable[Entry]) -> list[IssuedNumbers]:
    """Their serial numbers by issuer; of one that names no issuer nothing can be said."""
    found: dict[str, dict[str, None]] = {}
    for entry in entries:
        if entry.issuer_key:
            found.setdefault(entry.issuer_key, {})[entry.serial] = None
    return [IssuedNumbers(issuer=issuer, numbers=list(found[issuer])) for issuer in sorted(found)]
