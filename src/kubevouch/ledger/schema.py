"""How a ledger is laid out in SQLite.

``entry``       one row for each entry, only ever appended; ``body`` is what is hashed and proven, ``link`` ties it to
                those before it, the other columns repeat parts of the body so that it need not be decoded to be passed
``node``        hashes of complete Merkle trees of 256 leaves and more; those below are made from the entries
``segment``     of every 1,024 entries: what times, kinds and signers there are, so that others need not be looked at
``posting``     of every segment, in 256 buckets: which entries have a term, as ``terms`` packs it
``checkpoint``  those that were signed to be published
``meta``        the origin, the public key, and the signed head: what the last commit left

An index over all entries would have each of them change a page for each of its terms, at random: 1,000,000 entries
would write 30 GB of log. A segment's terms are written together when it is full, and never touched again; a search
reads one short row of each segment. What is in no full segment yet is found by its ``terms``.
"""

from __future__ import annotations

APPLICATION_ID = 0x6B76_6C67  # "kvlg"
LAYOUT = 1
PAGE_BYTES = 4096

SEGMENT = 1024
BUCKETS = 256
NODE_LEVEL = 8
"""The lowest level of the tree that is kept: a proof reads at most two stretches of 256 entries."""

CREATE = f"""
PRAGMA page_size = {PAGE_BYTES};
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {LAYOUT};
PRAGMA journal_mode = WAL;
BEGIN;
CREATE TABLE entry (
    sequence INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    at INTEGER NOT NULL,
    not_after INTEGER,
    link BLOB NOT NULL,
    terms BLOB NOT NULL,
    body BLOB NOT NULL
) STRICT;
CREATE TABLE node (
    level INTEGER NOT NULL,
    position INTEGER NOT NULL,
    hash BLOB NOT NULL,
    PRIMARY KEY (level, position)
) STRICT, WITHOUT ROWID;
CREATE TABLE segment (
    number INTEGER PRIMARY KEY,
    first_at INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    first_end INTEGER,
    last_end INTEGER,
    kinds TEXT NOT NULL,
    signers TEXT NOT NULL
) STRICT;
CREATE TABLE posting (
    bucket INTEGER NOT NULL,
    segment INTEGER NOT NULL,
    places BLOB NOT NULL,
    PRIMARY KEY (bucket, segment)
) STRICT, WITHOUT ROWID;
CREATE TABLE checkpoint (
    size INTEGER PRIMARY KEY,
    note TEXT NOT NULL
) STRICT;
CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
COMMIT;
"""

TABLES = frozenset({"entry", "node", "segment", "posting", "checkpoint", "meta"})
ORIGIN, KEY, HEAD, COPIED = "origin", "key", "head", "copied"
"""The rows of meta; ``copied`` is there only in a copy, until it is opened to be written."""
