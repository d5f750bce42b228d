"""Every row, page and frame of a store that nobody has open, looked at once; nothing is written.

What a start looks at is bounded in time (``examination``). Here all is read: SQLite's whole check, each row's checksum,
the order of revisions and that none is missing, each row's link to the one before it, ``current`` against what
``version`` gives, the log and the mark. A finding does not end the search unless nothing behind it could be read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from kubevouch.storage.interface import StoreDamaged, StoreUnavailable
from kubevouch.storage.sqlite import examination, files
from kubevouch.storage.sqlite.errors import translated, unusable
from kubevouch.storage.sqlite.mark import read_mark
from kubevouch.storage.sqlite.queries import read_revision
from kubevouch.storage.sqlite.rows import Version, verify_row
from kubevouch.storage.sqlite.schema import LAYOUT

MOST_FINDINGS = 100
"""More of them say no more."""

Judge = Callable[[str, bytes], str]
"""What is wrong with the value of a key; an empty text if nothing is."""

_ROWS = "SELECT revision, previous, deleted, expires, checksum, key, value FROM version"


class Verified(msgspec.Struct):
    """What was looked at, and what was found wrong with it.

    Args:
        lost: that acknowledged writes are missing, or that nobody can say.
        damaged: what is there and is not what was written.
    """

    lost: list[str] = msgspec.field(default_factory=list)
    damaged: list[str] = msgspec.field(default_factory=list)
    revision: int = 0
    compacted: int = 0
    versions: int = 0
    keys: int = 0
    frames: int = 0
    marked: int = 0

    @property
    def findings(self) -> list[str]:
        return self.lost + self.damaged


class _TooManyError(Exception):
    """Of findings."""


@contextmanager
def alone(path: Path) -> Iterator[Path]:
    """Holds the lock of the store at ``path``; yields its real path.

    Raises:
        StoreInUse, StoreDamaged, StoreUnavailable
    """
    path = path.resolve()
    try:
        files.expect_store(path)
        lock = files.Lock(path)
    except OSError as error:
        raise unusable(path, error, "a store that this user may open") from error
    try:
        yield path
    finally:
        lock.release()


def verify(path: Path, judge: Judge) -> Verified:
    """Looks at all of the store at ``path``, whose lock is held.

    Raises:
        StoreUnavailable: it cannot be read for another reason than damage.
    """
    verified = Verified()
    try:
        with examination.reading(path) as connection:
            connection.text_factory = lambda octets: octets.decode(errors="replace")
            _verify(connection, path, judge, verified)
    except _TooManyError:
        verified.damaged.append("and more")
    except StoreDamaged as error:
        _note(verified, error)
    except sqlite3.Error as error:
        _note(verified, translated(error, path))
    except OSError as error:
        raise unusable(path, error, "files that this user may read") from error
    return verified


def _verify(connection: sqlite3.Connection, path: Path, judge: Judge, verified: Verified) -> None:
    layout = examination.expect_layout(connection, path)
    verified.revision = read_revision(connection)
    _find(verified, (f"SQLite's check: {text}" for (text,) in connection.execute("PRAGMA integrity_check(100)")), "ok")
    if layout == LAYOUT:
        _verify_reach(connection, path, verified)
        _verify_rows(connection, path, judge, verified)
    else:
        _add(verified, f"layout {layout}, without a mark; kubevouch up brings it to {LAYOUT}")


def _verify_reach(connection: sqlite3.Connection, path: Path, verified: Verified) -> None:
    """Log and mark."""
    try:
        noted = read_mark(path)
        verified.marked = noted.revision if noted is not None else 0
        identity = examination.identity_of(connection)
        examination.expect_acknowledged(path, identity, read_revision(connection), noted)
    except StoreDamaged as error:
        verified.lost.append(error.got)
    with examination.opened_log(path) as log:
        if log is None:
            return
        verified.frames = examination.frames_read(path)
        try:
            examination.expect_no_commit_behind(path, log)
        except StoreDamaged as error:
            verified.lost.append(error.got)


def _verify_rows(connection: sqlite3.Connection, path: Path, judge: Judge, verified: Verified) -> None:
    marks = dict(connection.execute("SELECT name, value FROM meta"))
    verified.compacted = marks["compacted"]
    if marks["swept"] > marks["compacted"]:
        _add(verified, f"compaction swept up to {marks['swept']}, beyond its mark {marks['compacted']}")
    last: dict[str, tuple[int, int, int | None]] = {}
    before = 0
    for row in connection.execute(_ROWS):
        revision, previous, deleted, expires, checksum, key, value = row
        verified.versions += 1
        try:
            version = Version(revision, previous, deleted, expires, checksum, None if value is None else len(value))
            verify_row(path, key, version, value or b"")
        except StoreDamaged as error:
            _note(verified, error)
        except (TypeError, ValueError):  # a column of another type than the table's
            _add(verified, f"a row that cannot be read at revision {revision}")
            continue
        if revision <= before:
            _add(verified, f"revision {revision} after {before}")
        elif revision > max(before, marks["compacted"]) + 1:
            _add(verified, f"no revision between {max(before, marks['compacted'])} and {revision}")
        before = max(before, revision)
        known = last.get(key, (0, 0, None))[0]
        if previous != known and (known or previous > marks["compacted"]):
            _add(verified, f"revision {revision} of {key} follows {previous}, expected {known}")
        last[key] = (revision, deleted, expires)
        if not deleted and (wrong := judge(key, value)):
            _add(verified, f"revision {revision} of {key}: {wrong}")
    _verify_current(connection, last, verified)


def _verify_current(
    connection: sqlite3.Connection, last: dict[str, tuple[int, int, int | None]], verified: Verified
) -> None:
    before: str | None = None
    for key, revision, deleted, expires in connection.execute("SELECT key, revision, deleted, expires FROM current"):
        verified.keys += not deleted
        if before is not None and key <= before:
            _add(verified, f"the key {key} after {before}")
        before = key
        if last.pop(key, None) != (revision, deleted, expires):
            _add(verified, f"two accounts of {key}")
    for key in last:
        _add(verified, f"no account of {key}, which has versions")


def _find(verified: Verified, texts: Iterable[str], fine: str) -> None:
    for text in texts:
        if not text.endswith(f": {fine}"):
            _add(verified, text)


def _note(verified: Verified, error: StoreUnavailable) -> None:
    _add(verified, error.got or str(error))


def _add(verified: Verified, finding: str) -> None:
    if len(verified.damaged) >= MOST_FINDINGS:
        raise _TooManyError
    verified.damaged.append(finding)
