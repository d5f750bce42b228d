"""Is this the store that was left here? Looked at before anything is written, so that a refusal changes nothing.

SQLite's own close of a file copies the log into it and deletes the log, which would take what a damaged log still
holds. So the file is read over a connection that may not write.
"""

from __future__ import annotations

import mmap
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from kubevouch.storage.interface import Revision
from kubevouch.storage.sqlite import log_frames
from kubevouch.storage.sqlite.errors import damaged, loss
from kubevouch.storage.sqlite.mark import NO_SALTS, Noted, mark_of, read_mark
from kubevouch.storage.sqlite.queries import read_revision
from kubevouch.storage.sqlite.rows import one_row
from kubevouch.storage.sqlite.schema import LAYOUT, MARKS, PAGE_BYTES, READER_PRAGMAS, TABLES, run_script
from kubevouch.util import files
from kubevouch.util.logger import get_logger

CHECK_SECONDS = 2.0
"""How long each of the checks of the whole file may delay a start."""

UNMARKED_LAYOUT = 1
"""Stores of this layout have no mark and no identity, and checksums over less."""

_log = get_logger("kubevouch.storage.sqlite")

# Each row of current is the version it names, and no version is later than what current says of its key.
_STRAY = """
SELECT (
    SELECT c.key FROM current AS c LEFT JOIN version AS v ON v.revision = c.revision
    WHERE v.key IS NOT c.key OR v.deleted IS NOT c.deleted OR v.expires IS NOT c.expires LIMIT 1
), (
    SELECT v.key FROM version AS v LEFT JOIN current AS c ON c.key = v.key
    WHERE c.revision IS NULL OR c.revision < v.revision LIMIT 1
)
"""


class Examined(msgspec.Struct, frozen=True):
    """What was found in a store that may be opened."""

    layout: int
    revision: Revision
    noted: Noted | None


def examine(path: Path) -> Examined:
    """Looks at the store at ``path``, whose lock is held.

    Raises:
        StoreDamaged
        sqlite3.Error, OSError, UnicodeDecodeError
    """
    with reading(path) as connection:
        layout = expect_layout(connection, path)
        expect_whole(connection, path)
        expect_agreement(connection, path)
        revision = read_revision(connection)
        if layout == UNMARKED_LAYOUT:
            return Examined(layout, revision, None)
        noted = read_mark(path)
        expect_acknowledged(path, identity_of(connection), revision, noted)
        with opened_log(path) as log:
            if log is not None and noted is not None and log_frames.salts_of(log) != noted.doubtful:
                expect_no_commit_behind(path, log)
        return Examined(layout, revision, noted)


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that leaves the file and its log as they are."""
    # Without a log there is nothing to bring into order, and SQLite would leave files of its own behind.
    alone = "" if log_bytes(path) else "&immutable=1"
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro{alone}", uri=True, isolation_level=None)) as connection:
        run_script(connection, READER_PRAGMAS)
        yield connection


def log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def log_bytes(path: Path) -> int:
    """The size of the write-ahead log's file."""
    try:
        return log_of(path).stat().st_size
    except FileNotFoundError:
        return 0


def log_salts(path: Path) -> bytes:
    """The salts of the store's log, which change when it begins anew."""
    with opened_log(path) as log:
        return log_frames.salts_of(log) if log is not None else NO_SALTS


def identity_of(connection: sqlite3.Connection) -> int:
    return int(one_row(connection, "SELECT value FROM meta WHERE name = 'identity'")[0])


def expect_layout(connection: sqlite3.Connection, path: Path) -> int:
    (layout,) = one_row(connection, "PRAGMA user_version")
    if layout not in (LAYOUT, UNMARKED_LAYOUT):
        raise damaged(path, f"layout {layout} where this kubevouch knows {LAYOUT} only")
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    marks = dict(connection.execute("SELECT name, value FROM meta")) if "meta" in tables else {}
    if tables != TABLES or set(marks) != (MARKS if layout == LAYOUT else MARKS - {"identity"}):
        raise damaged(path, "other tables or other rows in meta than those of a store")
    return int(layout)


def expect_whole(connection: sqlite3.Connection, path: Path) -> None:
    """Lets SQLite check its structure when nobody noted that the last shutdown was an orderly one."""
    if one_row(connection, "SELECT value FROM meta WHERE name = 'clean'")[0]:
        return
    verdict = _in_time(connection, path, "PRAGMA quick_check(1)")
    if verdict not in (None, ("ok",)):
        raise damaged(path, f"what SQLite's check found ({verdict[0]})")


def expect_agreement(connection: sqlite3.Connection, path: Path) -> None:
    """Raises StoreDamaged unless ``current`` says what ``version`` does: it has no checksums."""
    stray = _in_time(connection, path, _STRAY)
    if stray not in (None, (None, None)):
        raise damaged(path, f"two accounts of {stray[0] or stray[1]}")


def expect_acknowledged(path: Path, identity: int, revision: Revision, noted: Noted | None) -> None:
    """Raises LossFound unless the store reaches as far as its mark."""
    if noted is None:
        raise loss(path, f"no mark ({mark_of(path).name}) that says how far this store once was")
    if noted.identity != identity:
        raise loss(path, f"the mark ({mark_of(path).name}) of another store")
    if noted.revision > revision:
        missing = noted.revision - revision
        raise loss(
            path,
            f"revision {revision} as the newest, where {noted.revision} was acknowledged: {missing} lost to damage, or"
            " this is an older copy",
        )


def expect_no_commit_behind(path: Path, log: mmap.mmap) -> None:
    """Raises LossFound if the log holds commits that SQLite does not read."""
    read = frames_read(path)
    if log_frames.Log(log, PAGE_BYTES).lost_behind(read) is not None:
        raise loss(path, f"a log ({log_of(path).name}) damaged at frame {read + 1}, with commits behind it")


@contextmanager
def opened_log(path: Path) -> Iterator[mmap.mmap | None]:
    """The bytes of the write-ahead log; None if there is no log or nothing in it."""
    if log_bytes(path) < log_frames.HEADER_BYTES:
        yield None
        return
    with log_of(path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        yield content


def frames_read(path: Path) -> int:
    """How many frames of its log SQLite reads; a connection that has read it is still open.

    Closing the index's file drops that connection's locks on it, which nobody needs while the store's own lock is held.
    """
    return log_frames.frames_read(files.read_regular(path.with_name(path.name + "-shm"), log_frames.INDEX_BYTES))


def _in_time(connection: sqlite3.Connection, path: Path, statement: str) -> tuple[object, ...] | None:
    """The row that ``statement`` gives; None if it takes longer than a start may."""
    # A statement can only be interrupted from another thread; SQLite forgets an interrupt that comes too late.
    timer = threading.Timer(CHECK_SECONDS, connection.interrupt)
    timer.start()
    try:
        return one_row(connection, statement)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        _log.warning("store check cut short; kubevouch store verify checks all", path=str(path), seconds=CHECK_SECONDS)
        return None
    finally:
        timer.cancel()
        timer.join()
