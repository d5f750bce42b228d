"""Which certificates were issued, and which of them count: questions to a ledger, one page after the other."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import msgspec

from kubevouch.ledger.entries import DISCARDED, ISSUED, REVOKED, Entry, Query, Recorded
from kubevouch.ledger.store import read

PAGE = 1000
_FIRST = dt.datetime.min.replace(tzinfo=dt.UTC)


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
    alive = Query(kinds=frozenset({ISSUED}), ends_after=now, limit=1 << 62)
    ending = list(pages(path, msgspec.structs.replace(alive, ends_before=now + within, limit=limit)))
    open_ends: dict[tuple[str, str], list[Recorded]] = {}
    for each in ending:
        if each.entry.subject:
            open_ends.setdefault((each.entry.signer, each.entry.subject), []).append(each)
    # Once through what is alive: a search for each would read the index as often as there are machines.
    followed: set[int] = set()
    for other in pages(path, alive) if open_ends else ():
        for each in open_ends.get((other.entry.signer, other.entry.subject), ()):
            if _supersedes(other.entry, each.entry):
                followed.add(each.sequence)
    left = (each for each in ending if each.sequence not in followed)
    return sorted(left, key=lambda each: each.entry.not_after or _FIRST)


def _supersedes(other: Entry, entry: Entry) -> bool:
    return set(other.names) >= set(entry.names) and (other.not_after or _FIRST) > (entry.not_after or _FIRST)


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
