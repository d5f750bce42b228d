# ruff: noqa: S608 - statements are put together from constants of this file; every value is a parameter
"""Everything that is read: one key, a page at a revision, history, what is due. Each function is one snapshot."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from kubevouch.storage.feed import Stretch
from kubevouch.storage.interface import Compacted, FutureRevision, KeyValue, Page, Revision, StoreDamaged, StoreEvent
from kubevouch.storage.sqlite.batch import Held
from kubevouch.storage.sqlite.rows import (
    UNBOUNDED,
    Change,
    Entry,
    Values,
    Version,
    decoded,
    one_row,
    values_sql,
    version_sql,
)
from kubevouch.storage.write import prefix_end

ROWS_IN_A_STEP = 256
"""Of the largest value, 1.5 MiB, so many stay below SQLite's limit of 1 GB for a joined blob, twice over."""

REVISIONS_IN_A_STEP = 2048
"""How much history is searched at a time for the few rows under a prefix."""

Bounds = dict[str, int | str | bytes]

# The newest row may be a deletion that compaction has taken away; then compaction is at that revision or above.
_REVISION = "max(coalesce((SELECT max(revision) FROM version), 1), (SELECT value FROM meta WHERE name = 'compacted'))"
_COMPACTED = "(SELECT value FROM meta WHERE name = 'compacted')"

_GET = f"""
SELECT {_REVISION}, CASE WHEN c.key IS NOT NULL THEN {version_sql("v")} END, v.value
FROM (SELECT 1)
    LEFT JOIN current AS c ON c.key = ?
    LEFT JOIN version AS v ON v.revision = c.revision
"""

_STATE = f"""
SELECT {_REVISION},
    json_group_array(json_array(c.key, {version_sql("v")})), {values_sql("v.value")}
FROM json_each(?) AS k CROSS JOIN current AS c ON c.key = k.value JOIN version AS v ON v.revision = c.revision
"""

# The revision a key had *at*: its last one, or if that came later, the first along the chain that did not.
_REVISION_AT = """
CASE WHEN c.revision <= :at THEN c.revision ELSE (
    WITH RECURSIVE back (revision) AS (
        SELECT c.revision
        UNION ALL
        SELECT b.previous FROM back JOIN version AS b ON b.revision = back.revision WHERE back.revision > :at
    )
    SELECT min(revision) FROM back
) END
"""

_KEYS_NOW = "SELECT key, revision FROM current WHERE key >= :low AND key < :high AND NOT deleted"
_KEYS_AT = f"SELECT c.key, {_REVISION_AT} AS revision FROM current AS c WHERE c.key >= :low AND c.key < :high"


def _page_sql(keys: str) -> str:
    return f"""
SELECT json_group_array(json_array(key, {version_sql("page")})), {values_sql("value")} FROM (
    SELECT k.key, v.revision, v.previous, v.deleted, v.expires, v.checksum, v.value
    FROM ({keys}) AS k CROSS JOIN version AS v ON v.revision = k.revision AND NOT v.deleted
    ORDER BY k.key LIMIT :limit
) AS page
"""


_PAGE_NOW = _page_sql(_KEYS_NOW)
_PAGE_AT = _page_sql(_KEYS_AT)
_TOTAL_NOW = "SELECT count(*) FROM current WHERE key >= :low AND key < :high AND NOT deleted"
_TOTAL_AT = f"""
SELECT count(*) FROM ({_KEYS_AT}) AS k CROSS JOIN version AS v ON v.revision = k.revision AND NOT v.deleted
"""

_HISTORY = f"""
SELECT json_group_array(json_array(
        w.key, {version_sql("w")}, CASE WHEN p.revision IS NOT NULL THEN {version_sql("p")} END)),
    {values_sql("w.value")}, {values_sql("p.value")}
FROM (
    SELECT * FROM version WHERE revision > :after AND revision <= :upto AND key >= :low AND key < :high
    ORDER BY revision LIMIT :limit
) AS w LEFT JOIN version AS p ON p.revision = w.previous AND NOT p.deleted
"""

_DUE = """
SELECT json_group_array(json_array(key, revision)) FROM (
    SELECT key, revision FROM current WHERE expires <= ? ORDER BY expires, key LIMIT ?
)
"""


def read_revision(connection: sqlite3.Connection) -> Revision:
    """The store's revision."""
    return Revision(one_row(connection, f"SELECT {_REVISION}")[0])


def read_key(connection: sqlite3.Connection, path: Path, key: str) -> tuple[Revision, KeyValue | None]:
    """A key as it is, and the store's revision."""
    revision, described, value = one_row(connection, _GET, (key,))
    if described is None:
        return Revision(revision), None
    version = decoded(described, Version, path)
    held = Values(value, path).take(key, version)
    return Revision(revision), None if version.deleted else held


def read_state(connection: sqlite3.Connection, path: Path, keys: Sequence[str]) -> tuple[Revision, dict[str, Held]]:
    """The store's revision and those of ``keys`` it remembers."""
    text = msgspec.json.encode(keys).decode()
    revision, described, joined = one_row(connection, _STATE, (text,))
    values = Values(joined, path)
    state = {}
    for entry in decoded(described, list[Entry], path):
        content: KeyValue | StoreDamaged | None
        try:
            content = values.take(entry.key, entry.version)
        except StoreDamaged as damage:
            content = damage
        else:
            content = None if entry.version.deleted else content
        state[entry.key] = Held(Revision(entry.version.revision), content)
    return Revision(revision), state


def read_page(
    connection: sqlite3.Connection, path: Path, prefix: str, start: str, limit: int, revision: Revision | None
) -> tuple[Revision, Page]:
    """A page, and the store's revision.

    Raises:
        Compacted, FutureRevision, StoreDamaged
    """
    bounds: Bounds = {"low": max(prefix, start), "high": prefix_end(prefix) or UNBOUNDED}
    with _snapshot(connection):
        newest, compacted = one_row(connection, f"SELECT {_REVISION}, {_COMPACTED}")
        at = bounds["at"] = newest if revision is None else revision
        _expect_kept(at, compacted, newest)
        page_sql, total_sql = (_PAGE_NOW, _TOTAL_NOW) if at == newest else (_PAGE_AT, _TOTAL_AT)
        total = one_row(connection, total_sql, bounds)[0] if limit else None
        items: list[KeyValue] = []
        for step in _steps(limit):
            found = _read_rows(connection, path, page_sql, {**bounds, "limit": step})
            items += found
            if len(found) < step:
                break
            bounds["low"] = found[-1].key + "\x00"
    if total is None:
        total = len(items)
    return Revision(newest), Page(items, Revision(at), len(items) < total, total)


def _steps(limit: int) -> Iterator[int]:
    """How many rows to read at a time until ``limit`` is reached; 0 is no limit."""
    left = limit
    while left > 0 or not limit:
        yield min(left, ROWS_IN_A_STEP) if limit else ROWS_IN_A_STEP
        left -= ROWS_IN_A_STEP


def _read_rows(connection: sqlite3.Connection, path: Path, page_sql: str, bounds: Bounds) -> list[KeyValue]:
    described, joined = one_row(connection, page_sql, bounds)
    values = Values(joined, path)
    return [values.take(entry.key, entry.version) for entry in decoded(described, list[Entry], path)]


def read_history(
    connection: sqlite3.Connection, path: Path, prefix: str, after: Revision, upto: Revision
) -> tuple[Revision, Stretch]:
    """The next events under ``prefix``, and the store's revision. It may take several calls to reach ``upto``.

    Raises:
        Compacted, StoreDamaged
    """
    with _snapshot(connection):
        newest, compacted = one_row(connection, f"SELECT {_REVISION}, {_COMPACTED}")
        _expect_kept(after, compacted, newest)
        end = min(after + REVISIONS_IN_A_STEP, upto)
        bounds: Bounds = {
            "after": after,
            "upto": end,
            "low": prefix,
            "high": prefix_end(prefix) or UNBOUNDED,
            "limit": ROWS_IN_A_STEP,
        }
        described, joined, replaced = one_row(connection, _HISTORY, bounds)
    values, previous_values = Values(joined, path), Values(replaced, path)
    events = []
    for change in decoded(described, list[Change], path):
        previous = None if change.previous is None else previous_values.take(change.key, change.previous)
        written = values.take(change.key, change.version).value
        value = None if change.version.deleted else written
        events.append(StoreEvent(change.key, Revision(change.version.revision), value, previous))
    reached = events[-1].revision if len(events) == ROWS_IN_A_STEP else Revision(end)
    return Revision(newest), Stretch(events, reached)


def read_due(connection: sqlite3.Connection, path: Path, now: int, limit: int) -> list[tuple[str, Revision]]:
    """Keys whose time was over at ``now``, with their revisions, the longest overdue first."""
    (described,) = one_row(connection, _DUE, (now, limit))
    return decoded(described, list[tuple[str, Revision]], path)


def read_next_expiry(connection: sqlite3.Connection) -> int | None:
    """When the next key is due."""
    expires: int | None = one_row(connection, "SELECT min(expires) FROM current WHERE expires IS NOT NULL")[0]
    return expires


@contextmanager
def _snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """All reads within see the same state. Inside the writer's transaction they do so anyway."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("COMMIT")


def _expect_kept(revision: int, compacted: int, newest: int) -> None:
    if revision > newest:
        raise FutureRevision(Revision(revision), Revision(newest))
    if revision < compacted:
        raise Compacted(Revision(revision), Revision(compacted))
