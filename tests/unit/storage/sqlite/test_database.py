"""What a commit is worth: with another setting than these an acknowledged write can be lost, or a Secret be found."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubevouch.storage.sqlite.database import open_database

FULL, ON = 2, 1


@pytest.mark.parametrize(
    ("pragma", "value"),
    [("synchronous", FULL), ("secure_delete", ON), ("wal_autocheckpoint", 0), ("journal_mode", "wal")],
)
def test_how_the_writer_writes(tmp_path: Path, pragma: str, value: object) -> None:
    database = open_database(tmp_path / "store.db", None)
    try:
        assert database.writer.execute(f"PRAGMA {pragma}").fetchone() == (value,)
    finally:
        database.close()


def test_readers_write_nothing(tmp_path: Path) -> None:
    database = open_database(tmp_path / "store.db", None)
    try:
        assert {reader.execute("PRAGMA query_only").fetchone() for reader in database.readers} == {(ON,)}
    finally:
        database.close()
