# ruff: noqa: S608 - the statements are constants
"""How the store is laid out in SQLite.

``version``   one row for each revision, only ever appended; compaction takes rows away
``current``   one row for each key: the revision of its last write; a deleted key stays until compaction
``meta``      the compaction's two marks, the layout's number, and whether the last shutdown was an orderly one

``version.previous`` is the revision of the key's version before this one, deletions included, 0 if there was none. An
old state is read by going back along it from ``current``, so no index over (key, revision) has to be kept up with
every write. ``expires`` is in microseconds since 1970. ``checksum`` is CRC-32 over all the rest of the row: it finds
what SQLite's own checks do not look at, and a value in the wrong row. ``current`` has none: what it says of a key is
compared with ``version`` when the store is opened. ``meta.identity`` tells this store from every other; the mark beside
it bears the same (``mark``).

The numbers that are not constants of this file: an 8 KiB page holds three or four objects of this field (a CSR with
its certificate has 2 to 3 KB) where a 4 KiB page holds one; writes of 2 KB were a quarter faster with it.
"""

from __future__ import annotations

import sqlite3

APPLICATION_ID = 0x6B76_6F75  # "kvou"
LAYOUT = 2
PAGE_BYTES = 8192

OLDEST_SQLITE = (3, 38, 0)
"""The first with the -> and ->> operators in every build; STRICT tables came with 3.37."""

CREATE = f"""
PRAGMA page_size = {PAGE_BYTES};
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {LAYOUT};
PRAGMA journal_mode = WAL;
BEGIN;
CREATE TABLE version (
    revision INTEGER PRIMARY KEY,
    previous INTEGER NOT NULL,
    deleted INTEGER NOT NULL,
    expires INTEGER,
    checksum INTEGER NOT NULL,
    key TEXT NOT NULL,
    value BLOB
) STRICT;
CREATE TABLE current (
    key TEXT PRIMARY KEY,
    revision INTEGER NOT NULL,
    deleted INTEGER NOT NULL,
    expires INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX current_expires ON current (expires) WHERE expires IS NOT NULL;
CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta VALUES ('layout', {LAYOUT}), ('compacted', 1), ('swept', 1), ('clean', 1);
COMMIT;
"""

TABLES = frozenset({"version", "current", "meta"})
MARKS = frozenset({"layout", "compacted", "swept", "clean", "identity"})

# cache_size: in KiB. Reads of what is current come from the watch cache; the rest is in the system's own cache.
# secure_delete: a Secret that compaction forgets is overwritten in the file.
# wal_autocheckpoint: checkpoints are made by the writer between two commits, not by a commit that somebody waits for.
WRITER_PRAGMAS = """
PRAGMA synchronous = FULL;
PRAGMA wal_autocheckpoint = 0;
PRAGMA secure_delete = ON;
PRAGMA temp_store = MEMORY;
PRAGMA cache_size = -8192;
"""

READER_PRAGMAS = """
PRAGMA query_only = ON;
PRAGMA temp_store = MEMORY;
PRAGMA cache_size = -2048;
"""


def run_script(connection: sqlite3.Connection, script: str) -> None:
    """Runs statements one by one; ``executescript`` would commit first, whatever the state."""
    for statement in script.split(";"):
        if statement.strip():
            connection.execute(statement)
