"""What SQLite's errors mean to a caller of the store."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from kubevouch.storage.interface import StoreDamaged, StoreUnavailable
from kubevouch.util.files import UnsafeFileError
from kubevouch.util.held_files import NotInPlaceError
from kubevouch.util.sqlite_faults import fault_of


def translated(error: sqlite3.Error, path: Path) -> StoreUnavailable:
    """The store's error for SQLite's."""
    fault = fault_of(error, when_full="free space on the disk, or raise the store's size limit")
    return damaged(path, str(error)) if fault.is_damage else StoreUnavailable(f"{path}: {fault.text}", fault.name)


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


def gone(error: NotInPlaceError) -> StoreUnavailable:
    """What was written to files that are gone is lost when the process ends: nobody is told that it is there."""
    return StoreUnavailable(str(error), "files that are gone")


def unusable(path: Path, error: OSError, expected: str) -> StoreUnavailable:
    """A file of the store at ``path`` that cannot be opened, or that somebody else may have put there."""
    if isinstance(error, UnsafeFileError):
        # It says itself what was expected.
        return StoreUnavailable(f"{path}: {error} at {error.filename}; {error.hint}")
    where = f" for {error.filename}" if error.filename else ""
    return StoreUnavailable(f"{path}: got {error.strerror}{where}, expected {expected}")
