"""What SQLite's errors mean to who uses a ledger."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from kubevouch.ledger.interface import LedgerDamaged, LedgerError, LedgerUnavailable

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
    sqlite3.SQLITE_FULL: "free space on the disk",
    sqlite3.SQLITE_IOERR: "look at the disk: space, quota, file size limit, kernel log",
    sqlite3.SQLITE_READONLY: "make the file and its folder writable for this user",
    sqlite3.SQLITE_CANTOPEN: "make the file and its folder readable and writable for this user",
    sqlite3.SQLITE_BUSY: "stop the other program that has the file open",
}


def translated(error: sqlite3.Error, path: Path) -> LedgerError:
    """The ledger's error for SQLite's."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in _DAMAGED and not isinstance(error, sqlite3.ProgrammingError):
        return damaged(path, str(error))
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    advice = _ADVICE.get(code, "this is unexpected, please report it")
    return LedgerUnavailable(f"{path}: got {name} ({error}), nothing was acknowledged; {advice}")


def damaged(path: Path, got: str) -> LedgerDamaged:
    return LedgerDamaged(
        f"{path}: got {got}, expected a whole ledger; kubevouch audit verify says more; restore a backup, or move the"
        " file away, with all whose names begin with its own, to begin anew"
    )
