"""What SQLite's errors mean to a caller of the store."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from kubevouch.storage.interface import StoreDamaged, StoreUnavailable
from kubevouch.util.files import UnsafeFileError

# The statements are constants that work on a whole store: if one of them makes no sense, the file does not. An error
# without a code is the module's own, for text that is no UTF-8.
_DAMAGED = frozenset(
    {
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_ERROR,
        sqlite3.SQLITE_CONSTRAINT,
        sqlite3.SQLITE_MISMATCH,
    }
)

_ADVICE = {
    sqlite3.SQLITE_FULL: "free space on the disk, or raise the store's size limit",
    sqlite3.SQLITE_IOERR: "look at the disk: space, quota, file size limit, kernel log",
    sqlite3.SQLITE_READONLY: "make the file and its folder writable for this user",
    sqlite3.SQLITE_CANTOPEN: "make the file and its folder readable and writable for this user",
    sqlite3.SQLITE_BUSY: "stop the other program that has the file open",
}


def translated(error: sqlite3.Error, path: Path) -> StoreUnavailable:
    """The store's error for SQLite's."""
    # Extended codes carry the primary one in their low byte (sqlite.org/rescode.html).
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in _DAMAGED and not isinstance(error, sqlite3.ProgrammingError):
        return damaged(path, str(error))
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    advice = _ADVICE.get(code, "this is unexpected, please report it")
    return StoreUnavailable(f"{path}: got {name} ({error}), nothing was acknowledged; {advice}", name)


def damaged(path: Path, got: str) -> StoreDamaged:
    return StoreDamaged(
        f"{path}: got {got}, expected a whole kubevouch store; restore a backup, or move the file away, with all"
        " whose names begin with its own, to begin anew",
        got,
    )


class LossFound(StoreDamaged):
    """Writes that were acknowledged are not in the store, or nobody can say whether they are."""


def loss(path: Path, got: str) -> LossFound:
    return LossFound(
        f"{path}: got {got}; restore the newest backup, or give up what is missing with"
        f" kubevouch store accept-loss {path}",
        got,
    )


def unusable(path: Path, error: OSError, expected: str) -> StoreUnavailable:
    """A file of the store at ``path`` that cannot be opened, or that somebody else may have put there."""
    if isinstance(error, UnsafeFileError):
        # It says itself what was expected.
        return StoreUnavailable(f"{path}: {error} at {error.filename}; {error.hint}")
    where = f" for {error.filename}" if error.filename else ""
    return StoreUnavailable(f"{path}: got {error.strerror}{where}, expected {expected}")
