"""storage/sqlite/wal.py: copying the log never waits for somebody else's reader."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from kubevouch.storage.sqlite.wal import Checkpoint, copy_log

FOR_EVER = 3_600_000
"""Milliseconds. A wait of this length is what the test's own time limit ends."""


def test_a_reader_of_another_process_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as writer,
        closing(sqlite3.connect(path, isolation_level=None)) as reader,
    ):
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute(f"PRAGMA busy_timeout = {FOR_EVER}")
        writer.execute("CREATE TABLE t (x)")
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM t").fetchall()
        writer.execute("INSERT INTO t VALUES (1)")
        assert copy_log(writer, Checkpoint.TRUNCATE, 4096) == 0
        assert copy_log(writer, Checkpoint.PASSIVE, 4096) > 0, "what the reader holds up is still to be copied"
        assert writer.execute("PRAGMA busy_timeout").fetchone() == (FOR_EVER,)
        reader.execute("COMMIT")
        copy_log(writer, Checkpoint.TRUNCATE, 4096)
        assert (tmp_path / "log.db-wal").stat().st_size == 0
