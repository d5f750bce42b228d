"""What SQLite's errors mean, whatever is kept in the file."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

# The statements are constants that work on a whole file: if one of them makes no sense, the file does not. An error
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
    sqlite3.SQLITE_IOERR: "look at the disk: space, quota, file size limit, kernel log",
    sqlite3.SQLITE_READONLY: "make the file and its folder writable for this user",
    sqlite3.SQLITE_CANTOPEN: "make the file and its folder readable and writable for this user",
    sqlite3.SQLITE_BUSY: "stop the other program that has the file open",
}


class Fault(NamedTuple):
    """``is_damage``: the file is not what was written; else ``text`` says what was got and what to do."""

    is_damage: bool
    name: str
    text: str


def fault_of(error: sqlite3.Error, *, when_full: str) -> Fault:
    """``when_full`` is the advice where there is no space."""
    # Extended codes carry the primary one in their low byte (sqlite.org/rescode.html).
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    is_damage = code in _DAMAGED and not isinstance(error, sqlite3.ProgrammingError)
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    advice = when_full if code == sqlite3.SQLITE_FULL else _ADVICE.get(code, "this is unexpected, please report it")
    return Fault(is_damage, name, f"got {name} ({error}), nothing was acknowledged; {advice}")
