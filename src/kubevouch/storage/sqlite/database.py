"""Opening and closing: lock, checks, connections."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack
from pathlib import Path

import msgspec

from kubevouch.storage.interface import StoreUnavailable
from kubevouch.storage.sqlite import files
from kubevouch.storage.sqlite.errors import damaged, translated, unusable
from kubevouch.storage.sqlite.examination import examine, log_of, log_salts
from kubevouch.storage.sqlite.mark import Mark, mark_of
from kubevouch.storage.sqlite.schema import OLDEST_SQLITE, PAGE_BYTES, READER_PRAGMAS, WRITER_PRAGMAS, run_script
from kubevouch.storage.sqlite.upgrade import upgraded
from kubevouch.util.held_files import HeldFiles
from kubevouch.util.logger import get_logger

READERS = 2
"""One may be busy with a long list while the other answers gets; more would only wait for the interpreter lock."""

BUSY_SECONDS = 5.0
"""How long to wait for a lock. Only another program (sqlite3, a backup) can hold one: the store has one writer."""

_BESIDE = ("-shm", ".lock")

_log = get_logger("kubevouch.storage.sqlite")


class Database(msgspec.Struct, frozen=True):
    """The open files: one connection that writes, and some that read."""

    path: Path
    writer: sqlite3.Connection
    readers: tuple[sqlite3.Connection, ...]
    lock: files.Lock
    mark: Mark
    held: HeldFiles

    def close(self) -> None:
        """Brings everything into the one file and notes that nothing is missing. The readers are closed by now."""
        with ExitStack() as stack:
            stack.callback(self.lock.release)
            stack.callback(self._close_mark)
            stack.callback(self.writer.close)
            try:
                self.writer.execute("UPDATE meta SET value = 1 WHERE name = 'clean'")
                self.writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            except sqlite3.Error as error:
                _log.warning("store could not be closed cleanly", path=str(self.path), error=str(error))

    def _close_mark(self) -> None:
        try:
            self.mark.close()
        except OSError as error:
            _log.warning("store mark could not be written", path=str(self.path), error=str(error))


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
            examined = examine(path)
            writer = _connect(path, WRITER_PRAGMAS)
            undo.callback(writer.close)
            noted = examined.noted or upgraded(writer, path, examined.revision)
            mark = Mark(path, noted)
            undo.callback(mark.close)
            _begin_log(writer, mark, path)
            mark.advance(examined.revision)
            mark.sync()
            if max_bytes is not None:
                writer.execute(f"PRAGMA max_page_count = {max(max_bytes // PAGE_BYTES, 1)}")
            writer.execute("UPDATE meta SET value = 0 WHERE name = 'clean'")
            readers = []
            for _ in range(READERS):
                reader = _connect(path, READER_PRAGMAS)
                undo.callback(reader.close)
                readers.append(reader)
            # By now SQLite has made all of its own.
            held = HeldFiles((path, log_of(path), mark_of(path), *(files.companion(path, each) for each in _BESIDE)))
            undo.pop_all()
            return Database(path, writer, tuple(readers), lock, mark, held)
    except sqlite3.Error as error:
        raise translated(error, path) from error
    except UnicodeDecodeError as error:
        # Python's module reads names and texts of the file, and SQLite's messages about them, as UTF-8.
        raise damaged(path, "octets where text belongs") from error
    except OSError as error:
        raise unusable(path, error, "files that this user may write; check the folder") from error


def _begin_log(writer: sqlite3.Connection, mark: Mark, path: Path) -> None:
    """Brings what an unclean shutdown left in the log into the file and empties the log.

    A commit that was cut off by a kill leaves frames behind the last whole one; in a log that went on, they would look
    like a commit that was lost.
    """
    salts = log_salts(path)
    try:
        writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except sqlite3.Error as error:  # no room in the file, perhaps; the log can still be read
        _log.warning("store checkpoint failed", path=str(path), error=str(error))
        mark.doubt(salts)


def _connect(path: Path, pragmas: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        run_script(connection, pragmas)
    except sqlite3.Error:
        connection.close()
        raise
    return connection
