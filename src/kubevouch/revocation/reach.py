"""Which certificates a revocation reaches, of all that are known."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator, Callable, Iterable

import msgspec

from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import IssuedNumbers, RevocationTargets
from kubevouch.ledger.entries import ISSUED, Entry, Query
from kubevouch.records.node_recovery import is_recovering
from kubevouch.revocation.known import KnownCertificate, KnownCertificates, asked_at, joined

_SECOND = dt.timedelta(seconds=1)
_LAST = dt.datetime.max.replace(tzinfo=dt.UTC)


def _behind(second: dt.datetime) -> dt.datetime:
    """The end of a second that counts whole; behind the last one that can be written there is none."""
    return second + _SECOND if second < _LAST - _SECOND else _LAST


async def reached(
    known: KnownCertificates, targets: RevocationTargets, until: dt.datetime, *, now: dt.datetime
) -> list[KnownCertificate]:
    """The certificates that have not ended, in the order in which they were issued.

    Args:
        until: what names reach was asked for until then.

    Raises:
        LedgerError
    """
    found = [each async for each in _meant(known, targets, _behind(until), now)]
    return joined((name, each.entry) for each in found for name in each.sources)


async def _meant(
    known: KnownCertificates, targets: RevocationTargets, before: dt.datetime, now: dt.datetime
) -> AsyncIterator[KnownCertificate]:
    issued = Query(kinds=frozenset({ISSUED}), ends_after=now)
    replace = msgspec.structs.replace

    def in_time(entry: Entry) -> bool:
        return asked_at(entry) < before

    for group in targets.serials:
        for number in group.numbers:
            for each in await known.all(replace(issued, serial=number)):
                if each.entry.issuer_key == group.issuer:
                    yield each
    if targets.certificates:
        for each in await known.of_fingerprints(issued, frozenset(targets.certificates)):
            yield each
    for key in targets.keys:
        for each in await known.all(replace(issued, key=key)):
            yield each
    queries = [replace(issued, node=node) for node in targets.nodes]
    queries += (replace(issued, requester=requester) for requester in targets.requesters)
    for query in queries:
        for each in await known.all(query, in_time):
            yield each
    for user in targets.users:
        for each in await known.all(replace(issued, name=user), in_time):
            if each.entry.subject == user:
                yield each
    for token in targets.tokens:
        async for each in _let_in_by(known, token, issued, in_time):
            yield each
    for period in targets.periods:
        if period.since is not None and period.until is not None:
            span = replace(issued, since=period.since.datetime(), until=_behind(period.until.datetime()))
            for each in await known.all(span):
                if period.issuer in ("", each.entry.issuer_key):
                    yield each


async def _let_in_by(
    known: KnownCertificates, token: str, issued: Query, in_time: Callable[[Entry], bool]
) -> AsyncIterator[KnownCertificate]:
    """What a token has asked for, and what the machines that it has let in have renewed by themselves since.

    A machine that another token has let in again is that one's from then on. What has let it in may be known from one
    source, and what it has renewed from another.
    """
    nodes: dict[str, None] = {}
    # The certificate that a machine came with may have ended: what it has renewed since counts still.
    every = msgspec.structs.replace(issued, ends_after=None)
    for each in await known.all(msgspec.structs.replace(every, token=token), in_time):
        nodes[each.entry.node] = None
        if not each.entry.node and _is_valid(each.entry, issued):
            yield each
    for node in filter(None, nodes):
        is_its = False
        for each in await known.all(msgspec.structs.replace(every, node=node)):
            entry = each.entry
            if entry.token:
                # Records name the token with what the machine has renewed, too.
                is_its = entry.token == token
            elif entry.requester != entry.subject and not is_recovering(entry.requester):
                is_its = False
            if is_its and _is_valid(entry, issued) and in_time(entry):
                yield each


def _is_valid(entry: Entry, issued: Query) -> bool:
    return entry.not_after is not None and (issued.ends_after is None or entry.not_after >= issued.ends_after)


def numbers_of(entries: Iterable[Entry]) -> list[IssuedNumbers]:
    """Their serial numbers by issuer; of one that names no issuer nothing can be said."""
    found: dict[str, dict[str, None]] = {}
    for entry in entries:
        if entry.issuer_key:
            found.setdefault(entry.issuer_key, {})[entry.serial] = None
    return [IssuedNumbers(issuer=issuer, numbers=list(found[issuer])) for issuer in sorted(found)]
