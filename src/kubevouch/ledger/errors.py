"""What SQLite's errors mean to who uses a ledger."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from kubevouch.ledger.interface import LedgerDamaged, LedgerError, LedgerUnavailable
from kubevouch.util.sqlite_faults import fault_of


def translated(error: sqlite3.Error, path: Path) -> LedgerError:
    """The ledger's error for SQLite's."""
    fault = fault_of(error, when_full="free space on the disk")
    return damaged(path, str(error)) if fault.is_damage else LedgerUnavailable(f"{path}: {fault.text}")


def damaged(path: Path, got: str) -> LedgerDamaged:
    return LedgerDamaged(
        f"{path}: got {got}, expected a whole ledger; kubevouch audit verify says more; restore a backup, or move the"
        " file away, with all whose names begin with its own, to begin anew"
    )
