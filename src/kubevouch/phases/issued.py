"""Which certificates were issued, and which of them count: questions to a ledger, one page after the other."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import msgspec

from kubevouch.ledger.entries import DISCARDED, ISSUED, REVOKED, Entry, Query, Recorded
from kubevouch.ledger.store import read

PAGE = 500
_FIRST, _LAST = dt.datetime.min.replace(tzinfo=dt.UTC), dt.datetime.max.replace(tzinfo=dt.UTC)


def pages(path: Path, query: Query) -> Iterator[Recorded]:
    """All that ``query`` looks for, up to its limit, without holding them all. Raises LedgerError."""
    left = query.limit
    while left > 0:
        page = read(path, msgspec.structs.replace(query, limit=min(PAGE, left)))
        yield from page
        left -= len(page)
        if len(page) < PAGE:
            return
        last = page[-1].sequence
        query = msgspec.structs.replace(query, before=last) if query.newest_first else _behind(query, last)


def _behind(query: Query, last: int) -> Query:
    return msgspec.structs.replace(query, after=last)


def expiring(path: Path, now: dt.datetime, within: dt.timedelta, limit: int) -> list[Recorded]:
    """Certificates that end in this time, soonest first, and have not been followed by one that ends later.

    A machine that renews leaves certificates that end every few weeks, and nobody has to do anything about them.

    Raises:
        LedgerError
    """
    kinds = frozenset({ISSUED})
    found = []
    for each in pages(path, Query(kinds=kinds, ends_after=now, ends_before=now + within, limit=limit)):
        subject, signer = each.entry.subject, each.entry.signer
        later = Query(
            kinds=kinds, name=subject, signer=signer, ends_after=each.entry.not_after or _LAST, newest_first=True
        )
        if not any(_supersedes(other.entry, each.entry) for other in (read(path, later) if subject else ())):
            found.append(each)
    return sorted(found, key=lambda each: each.entry.not_after or _FIRST)


def _supersedes(other: Entry, entry: Entry) -> bool:
    return (
        other.subject == entry.subject
        and set(other.names) >= set(entry.names)
        and (other.not_after or _FIRST) > (entry.not_after or _FIRST)
    )


def story(path: Path, serial: str) -> list[Recorded]:
    """All that is known of a certificate and of its request, oldest first. Raises LedgerError."""
    about = read(path, Query(serial=serial))
    uids = {each.entry.uid for each in about if each.entry.uid}
    known = {each.sequence: each for each in about}
    for uid in uids:
        known |= {each.sequence: each for each in read(path, Query(uid=uid))}
    return [known[sequence] for sequence in sorted(known)]


def standing(entries: list[Recorded], serial: str, now: dt.datetime) -> str:
    """``valid``, ``expired``, ``discarded`` or ``revoked``, by what :func:`story` has told."""
    mine = [each.entry for each in entries if each.entry.serial == serial]
    kinds = {each.kind for each in mine}
    for kind in (REVOKED, DISCARDED):
        if kind in kinds:
            return kind
    ends = [each.not_after for each in mine if each.not_after is not None]
    return "expired" if ends and max(ends) < now else "valid"
