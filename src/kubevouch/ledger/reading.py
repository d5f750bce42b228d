"""What can be asked of a ledger's file, over any connection: that of its writer, or one that may only read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from kubevouch.ledger import entries, proofs, terms
from kubevouch.ledger.entries import Entry, Query, Recorded, matches
from kubevouch.ledger.errors import damaged
from kubevouch.ledger.proofs import Node
from kubevouch.ledger.schema import NODE_LEVEL, SEGMENT

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

Columns = tuple[str, int, int | None]


def microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def columns_of(entry: Entry) -> Columns:
    """What is kept of an entry beside its body: kind, time, end."""
    end = None if entry.not_after is None else microseconds(entry.not_after)
    return entry.kind, microseconds(entry.at), end


def one(connection: sqlite3.Connection, statement: str, *values: object) -> Any:
    """The first column of the first row, None if there is no row."""
    row = connection.execute(statement, values).fetchone()
    return None if row is None else row[0]


def meta(connection: sqlite3.Connection, name: str, path: Path) -> str:
    """Raises LedgerDamaged if there is no such row."""
    value = one(connection, "SELECT value FROM meta WHERE name = ?", name)
    if not isinstance(value, str):
        raise damaged(path, f"no {name} in its table meta")
    return value


def size_of(connection: sqlite3.Connection) -> int:
    last = one(connection, "SELECT max(sequence) FROM entry")
    return 0 if last is None else last + 1


@contextmanager
def moment(connection: sqlite3.Connection) -> Iterator[None]:
    """All that is read inside is of one commit."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")


def find(connection: sqlite3.Connection, query: Query) -> list[Recorded]:
    """What ``query`` looks for."""
    with moment(connection):
        full = one(connection, "SELECT count(*) FROM segment")
        end = size_of(connection)
        wanted = [terms.number_of(term) for term in entries.terms_wanted(query)]
        rows = _by_terms(connection, query, wanted, full, end) if wanted else _by_segments(connection, query, full, end)
        recorded = (Recorded(sequence, entries.decode(body)) for sequence, body in rows)
        return list(islice((each for each in recorded if matches(query, each.sequence, each.entry)), query.limit))


def _by_terms(
    connection: sqlite3.Connection, query: Query, wanted: list[bytes], full: int, end: int
) -> Iterator[tuple[int, bytes]]:
    kinds, values = _of_kinds(query)
    statement = f"SELECT body FROM entry WHERE sequence = ?{kinds}"  # noqa: S608 - placeholders only
    for sequence in _candidates(connection, wanted, full, query.newest_first):
        if query.after < sequence < (end if query.before is None else query.before):
            body = one(connection, statement, sequence, *values)
            if body is not None:
                yield sequence, body


def _candidates(connection: sqlite3.Connection, wanted: list[bytes], full: int, newest_first: bool) -> Iterator[int]:
    """The entries that have all terms, in the order asked for; a segment is looked at when it is its turn."""
    rows = connection.execute("SELECT sequence, terms FROM entry WHERE sequence >= ?", (full * SEGMENT,))
    unfilled = [at for at, packed in rows if all(terms.has(packed, number) for number in wanted)]
    if newest_first:
        yield from reversed(unfilled)
    rarest, *others = wanted
    order = " DESC" if newest_first else ""
    for segment, places in connection.execute(
        f"SELECT segment, places FROM posting WHERE bucket = ? ORDER BY segment{order}",  # noqa: S608 - one of two words
        (terms.bucket_of(rarest),),
    ):
        offsets = terms.offsets(places, rarest)
        for number in others if offsets else ():
            more = one(
                connection,
                "SELECT places FROM posting WHERE bucket = ? AND segment = ?",
                terms.bucket_of(number),
                segment,
            )
            offsets = sorted(set(offsets).intersection(terms.offsets(more or b"", number)))
        for offset in reversed(offsets) if newest_first else offsets:
            yield segment * SEGMENT + offset
    if not newest_first:
        yield from unfilled


def terms_unfilled(connection: sqlite3.Connection) -> list[bytes]:
    """The packed terms of every entry that is in no full segment yet."""
    with moment(connection):
        full = one(connection, "SELECT count(*) FROM segment")
        rows = connection.execute("SELECT terms FROM entry WHERE sequence >= ?", (full * SEGMENT,))
        return [packed for (packed,) in rows]


def terms_filled(connection: sqlite3.Connection, bucket: int) -> set[bytes]:
    """The numbers of a bucket's terms in all full segments."""
    rows = connection.execute("SELECT places FROM posting WHERE bucket = ?", (bucket,))
    return set().union(*(terms.numbers(places) for (places,) in rows))


def _by_segments(connection: sqlite3.Connection, query: Query, full: int, end: int) -> Iterator[tuple[int, bytes]]:
    kinds, values = _of_kinds(query)
    conditions, bounds = _of_times(query)
    direction = " DESC" if query.newest_first else ""
    statement = (
        f"SELECT sequence, body FROM entry WHERE sequence BETWEEN ? AND ?{kinds}{conditions}"  # noqa: S608 - placeholders only
        f" ORDER BY sequence{direction}"
    )
    first, last = query.after + 1, (end if query.before is None else min(query.before, end)) - 1
    stretches = [*_segments(connection, query), (full * SEGMENT, end - 1)]
    for begin, stop in reversed(stretches) if query.newest_first else stretches:
        stretch = max(begin, first), min(stop, last)
        if stretch[0] <= stretch[1]:
            yield from connection.execute(statement, (*stretch, *values, *bounds))


def _segments(connection: sqlite3.Connection, query: Query) -> list[tuple[int, int]]:
    """The first and last entry of each full segment that may hold what is looked for."""
    low, high = _microseconds(query.since), _microseconds(query.until)
    first, last = _microseconds(query.ends_after), _microseconds(query.ends_before)
    found = []
    for number, first_at, last_at, first_end, last_end, kinds, signers in connection.execute("SELECT * FROM segment"):
        if query.kinds and query.kinds.isdisjoint(kinds.split("\0")):
            continue
        if query.signer and query.signer not in signers.split("\0"):
            continue
        if (low is not None and last_at < low) or (high is not None and first_at >= high):
            continue
        is_about_ends = first is not None or last is not None
        if is_about_ends and (
            first_end is None or (first is not None and last_end < first) or (last is not None and first_end >= last)
        ):
            continue
        found.append((number * SEGMENT, (number + 1) * SEGMENT - 1))
    return found


def _microseconds(moment: datetime | None) -> int | None:
    return None if moment is None else microseconds(moment)


def _of_kinds(query: Query) -> tuple[str, list[str]]:
    kinds = sorted(query.kinds)
    return (f" AND kind IN ({', '.join('?' * len(kinds))})", kinds) if kinds else ("", [])


def _of_times(query: Query) -> tuple[str, list[int]]:
    conditions, values = "", []
    for bound, condition in (
        (query.since, "at >= ?"), (query.until, "at < ?"),
        (query.ends_after, "not_after >= ?"), (query.ends_before, "not_after < ?"),
    ):  # fmt: skip
        if bound is not None:
            conditions += f" AND {condition}"
            values.append(microseconds(bound))
    return conditions, values


def segment_row(number: int, rows: Iterable[tuple[str, int, int | None, str]]) -> tuple[object, ...]:
    """The row of ``segment`` over entries of these kinds, times, ends and signers."""
    kinds, times, ends, signers = (list(each) for each in zip(*rows, strict=True))
    known = [end for end in ends if end is not None]
    return (
        number, min(times), max(times), min(known, default=None), max(known, default=None),
        "\0".join(sorted(set(kinds))), "\0".join(sorted(set(signers))),
    )  # fmt: skip


class _Signer(msgspec.Struct, frozen=True):
    signer: str = ""


signer_in = msgspec.json.Decoder(_Signer)
"""The signer of an encoded entry, without decoding the rest."""


def hash_of(connection: sqlite3.Connection, node: Node) -> bytes:
    """The hash of a complete node of the tree."""
    level, position = node
    if level >= NODE_LEVEL:
        kept = one(connection, "SELECT hash FROM node WHERE level = ? AND position = ?", level, position)
        if kept is None:
            raise sqlite3.DatabaseError(f"the hash of the tree's node {level}/{position} is missing")
        return bytes(kept)
    first = position << level
    rows = connection.execute(
        "SELECT body FROM entry WHERE sequence BETWEEN ? AND ? ORDER BY sequence", (first, first + (1 << level) - 1)
    )
    frontier = proofs.Frontier()
    for (body,) in rows:
        frontier.append(proofs.leaf_hash(body))
    if frontier.size != 1 << level:
        raise sqlite3.DatabaseError(f"entries behind {first} are missing")
    return frontier.root()


def hashes(connection: sqlite3.Connection, ranges: Iterable[proofs.Range]) -> list[bytes]:
    return [proofs.range_hash(each, lambda node: hash_of(connection, node)) for each in ranges]
