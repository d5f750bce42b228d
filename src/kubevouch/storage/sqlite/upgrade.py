"""Stores of an older layout become ones of today's when they are opened."""

from __future__ import annotations

import secrets
import sqlite3
import zlib
from pathlib import Path

from kubevouch.storage.interface import Revision
from kubevouch.storage.sqlite.errors import damaged
from kubevouch.storage.sqlite.mark import Noted, write_mark
from kubevouch.storage.sqlite.rows import checksum, one_row
from kubevouch.storage.sqlite.schema import LAYOUT

_WRONG = -1


def new_identity() -> int:
    """Of a store, so that its mark and its log cannot be taken for those of another."""
    return secrets.randbits(62)


def upgraded(writer: sqlite3.Connection, path: Path, revision: Revision) -> Noted:
    """Gives a store of layout 1 an identity, a mark, and checksums over whole rows.

    Raises:
        StoreDamaged: a row was damaged before. Nothing was changed.
        sqlite3.Error, OSError
    """
    noted = Noted(new_identity(), revision)
    writer.create_function("following", 7, _following, deterministic=True)
    writer.execute("BEGIN IMMEDIATE")
    try:
        writer.execute(
            "UPDATE version SET checksum = following(checksum, revision, previous, deleted, expires, key, value)"
        )
        (wrong,) = one_row(writer, "SELECT min(revision) FROM version WHERE checksum = ?", (_WRONG,))
        if wrong is not None:
            raise damaged(path, f"a wrong checksum at revision {wrong}")
        writer.execute("INSERT INTO meta VALUES ('identity', ?)", (noted.identity,))
        writer.execute("UPDATE meta SET value = ? WHERE name = 'layout'", (LAYOUT,))
        writer.execute(f"PRAGMA user_version = {LAYOUT}")
        # Before the commit: a store of layout 1 may have a mark that means nothing, one of layout 2 needs its own.
        write_mark(path, noted)
        writer.execute("COMMIT")
    except BaseException:
        if writer.in_transaction:
            writer.execute("ROLLBACK")
        raise
    return noted


def _following(
    before: int, revision: int, previous: int, deleted: int, expires: int | None, key: str, value: bytes | None
) -> int:
    content = value or b""
    if zlib.crc32(content, zlib.crc32(key.encode(), revision & 0xFFFF_FFFF)) != before:
        return _WRONG
    return checksum(revision, previous, deleted, expires, key, content)
