"""Opening and closing: lock, checks, connections."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import structlog

from kubevouch.storage.interface import StoreUnavailable
from kubevouch.storage.sqlite import files
from kubevouch.storage.sqlite.errors import damaged, translated
from kubevouch.storage.sqlite.rows import one_row
from kubevouch.storage.sqlite.schema import (
    LAYOUT,
    OLDEST_SQLITE,
    PAGE_BYTES,
    READER_PRAGMAS,
    TABLES,
    WRITER_PRAGMAS,
    run_script,
)

READERS = 2
"""One may be busy with a long list while the other answers gets; more would only wait for the interpreter lock."""

BUSY_SECONDS = 5.0
"""How long to wait for a lock. Only another program (sqlite3, a backup) can hold one: the store has one writer."""

CHECK_SECONDS = 2.0
"""How long an unclean shutdown may delay the next start by SQLite's own check."""

_log = structlog.get_logger("kubevouch.storage.sqlite")


@dataclass(frozen=True, slots=True)
class Database:
    """The open files: one connection that writes, and some that read."""

    path: Path
    writer: sqlite3.Connection
    readers: tuple[sqlite3.Connection, ...]
    lock: files.Lock

    def close(self) -> None:
        """Brings everything into the one file and notes that nothing is missing. The readers are closed by now."""
        with ExitStack() as stack:
            stack.callback(self.lock.release)
            stack.callback(self.writer.close)
            try:
                self.writer.execute("UPDATE meta SET value = 1 WHERE name = 'clean'")
                self.writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            except sqlite3.Error as error:
                _log.warning("store could not be closed cleanly", path=str(self.path), error=str(error))


def open_database(path: Path, max_bytes: int | None) -> Database:
    """Opens the store at ``path``, or makes it.

    Raises:
        StoreInUse, StoreDamaged, StoreUnavailable
    """
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        needed = ".".join(map(str, OLDEST_SQLITE))
        raise StoreUnavailable(f"got SQLite {sqlite3.sqlite_version}, expected {needed} or later; use a newer Python")
    try:
        path = path.resolve()
        files.make_folder(path)
        with ExitStack() as undo:
            lock = files.Lock(path)
            undo.callback(lock.release)
            files.create_if_missing(path)
            files.expect_store(path)
            files.make_private(path)
            writer = _connect(path, WRITER_PRAGMAS)
            undo.callback(writer.close)
            _expect_layout(writer, path)
            _expect_whole(writer, path)
            if max_bytes is not None:
                writer.execute(f"PRAGMA max_page_count = {max(max_bytes // PAGE_BYTES, 1)}")
            writer.execute("UPDATE meta SET value = 0 WHERE name = 'clean'")
            readers = []
            for _ in range(READERS):
                reader = _connect(path, READER_PRAGMAS)
                undo.callback(reader.close)
                readers.append(reader)
            undo.pop_all()
            return Database(path, writer, tuple(readers), lock)
    except sqlite3.Error as error:
        raise translated(error, path) from error
    except UnicodeDecodeError as error:
        # Python's module reads names and texts of the file, and SQLite's messages about them, as UTF-8.
        raise damaged(path, "octets where text belongs") from error
    except OSError as error:
        raise StoreUnavailable(
            f"{path}: got {error.strerror} for {error.filename}, expected files this user may write; check the folder"
        ) from error


def _connect(path: Path, pragmas: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        run_script(connection, pragmas)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _expect_layout(connection: sqlite3.Connection, path: Path) -> None:
    (layout,) = one_row(connection, "PRAGMA user_version")
    if layout != LAYOUT:
        raise damaged(path, f"layout {layout} where this kubevouch knows {LAYOUT} only")
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    marks = dict(connection.execute("SELECT name, value FROM meta")) if "meta" in tables else {}
    if tables != TABLES or set(marks) != {"layout", "compacted", "swept", "clean"}:
        raise damaged(path, "other tables or other rows in meta than those of a store")


def _expect_whole(connection: sqlite3.Connection, path: Path) -> None:
    """Lets SQLite check its structure when nobody noted that the last shutdown was an orderly one."""
    if one_row(connection, "SELECT value FROM meta WHERE name = 'clean'")[0]:
        return
    # A statement can only be interrupted from another thread; SQLite forgets an interrupt that comes too late.
    timer = threading.Timer(CHECK_SECONDS, connection.interrupt)
    timer.start()
    try:
        (verdict,) = one_row(connection, "PRAGMA quick_check(1)")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        verdict = "ok"
        _log.warning("store check cut short", path=str(path), seconds=CHECK_SECONDS)
    finally:
        timer.cancel()
        timer.join()
    if verdict != "ok":
        raise damaged(path, f"what SQLite's check found ({verdict})")
