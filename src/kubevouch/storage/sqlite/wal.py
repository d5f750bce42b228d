"""When to copy SQLite's write-ahead log into the file, and how.

Only the writer's connection does it, between two commits: SQLite up to 3.51.2 may lose pages when one connection
begins the log anew while another copies it (sqlite.org/wal.html#walresetbug), and one connection cannot race itself.
"""

from __future__ import annotations

import sqlite3
from enum import Enum

from kubevouch.storage.sqlite.rows import one_row

IDLE_BYTES = 4 * 1024 * 1024
"""Copied when nobody waits; about SQLite's own default of 1,000 pages."""

BUSY_BYTES = 16 * 1024 * 1024
"""Copied even if writes wait."""

LARGEST_FILE = 32 * 1024 * 1024
"""Readers that overlap without end keep the log from beginning anew. Beyond this they have to pause for it."""


class Checkpoint(Enum):
    """How to copy: beside the readers, or while they pause, with the log emptied."""

    PASSIVE = "PASSIVE"
    TRUNCATE = "TRUNCATE"


def checkpoint_due(pending_bytes: int, file_bytes: int, *, idle: bool) -> Checkpoint | None:
    """What to do with ``pending_bytes`` not yet copied in a log of ``file_bytes``."""
    if pending_bytes < IDLE_BYTES:
        return None
    if file_bytes >= LARGEST_FILE:
        return Checkpoint.TRUNCATE
    return Checkpoint.PASSIVE if idle or pending_bytes >= BUSY_BYTES else None


def copy_log(connection: sqlite3.Connection, checkpoint: Checkpoint, page_bytes: int) -> int:
    """Copies what it can; returns the bytes that could not be copied yet, because a reader needs the older pages.

    Nobody waits for a reader of another process, a backup perhaps: every write would wait with him. To empty the log is
    then left until it has grown by as much again.
    """
    if checkpoint is Checkpoint.PASSIVE:
        _, logged, copied = one_row(connection, "PRAGMA wal_checkpoint(PASSIVE)")
        uncopied: int = max(logged - copied, 0) * page_bytes
        return uncopied
    (patience,) = one_row(connection, "PRAGMA busy_timeout")
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        connection.execute(f"PRAGMA busy_timeout = {patience}")
    return 0
