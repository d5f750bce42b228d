"""Forgetting old versions, a few at a time.

The mark ``compacted`` moves first and at once: from then on nobody reads what is below. The rows are taken away
afterwards in steps, each its own transaction, between which the writer serves others; the mark ``swept`` says how far
that came, so that a later compaction goes on after a crash.

A row is not needed when the key has a later one at or below the mark, and a deletion is not needed at all. So it is
enough to look at every row up to the mark once: the one before it goes, and if it is a deletion, it goes itself.
"""

from __future__ import annotations

import sqlite3

import msgspec

from kubevouch.storage.interface import FutureRevision, Revision
from kubevouch.storage.sqlite.queries import read_revision
from kubevouch.storage.sqlite.rows import one_row
from kubevouch.util.clock import Clock

STEP_SECONDS = 0.005
"""What one step may take, and with it the longest a write waits for compaction on a fast disk."""

FEWEST_ROWS = 16
MOST_ROWS = 2048

_STEP = (
    """
DELETE FROM current WHERE deleted AND revision > :swept AND revision <= :upto
    AND key IN (SELECT key FROM version WHERE revision > :swept AND revision <= :upto AND deleted)
""",
    """
DELETE FROM version WHERE revision IN (
    SELECT previous FROM version WHERE revision > :swept AND revision <= :upto AND previous > 0
)
""",
    "DELETE FROM version WHERE revision > :swept AND revision <= :upto AND deleted",
    "UPDATE meta SET value = :upto WHERE name = 'swept'",
)

_UPTO = """
SELECT coalesce(max(revision), :compacted), count(*) FROM (
    SELECT revision FROM version WHERE revision > :swept AND revision <= :compacted ORDER BY revision LIMIT :rows
)
"""


class Step(msgspec.Struct, frozen=True):
    """What a step did: rows taken away, rows to look at in the next one, and whether any are left."""

    removed: int
    rows: int
    done: bool


def begin(connection: sqlite3.Connection, revision: Revision) -> None:
    """Moves the mark below which nobody reads; never backwards.

    Raises:
        FutureRevision
    """
    newest = read_revision(connection)
    if revision > newest:
        raise FutureRevision(revision, newest)
    connection.execute("UPDATE meta SET value = max(value, ?) WHERE name = 'compacted'", (revision,))


def step(connection: sqlite3.Connection, rows: int, clock: Clock) -> Step:
    """Looks at the next ``rows`` rows."""
    began = clock.monotonic()
    connection.execute("BEGIN IMMEDIATE")
    (swept,) = one_row(connection, "SELECT value FROM meta WHERE name = 'swept'")
    (compacted,) = one_row(connection, "SELECT value FROM meta WHERE name = 'compacted'")
    upto, found = one_row(connection, _UPTO, {"swept": swept, "compacted": compacted, "rows": rows})
    if found < rows:
        upto = compacted
    before = connection.total_changes
    for statement in _STEP:
        connection.execute(statement, {"swept": swept, "upto": upto})
    removed = connection.total_changes - before - 1
    connection.execute("COMMIT")
    return Step(removed, following_rows(rows, clock.monotonic() - began), upto >= compacted)


def following_rows(rows: int, seconds: float) -> int:
    """How many rows to look at after a step over ``rows`` took ``seconds``."""
    if seconds > STEP_SECONDS:
        return max(rows // 2, FEWEST_ROWS)
    if seconds < STEP_SECONDS / 2:
        return min(rows * 2, MOST_ROWS)
    return rows
