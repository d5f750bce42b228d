"""The embedded store: one SQLite file, one process, any number of tasks."""

from kubevouch.storage.sqlite.store import SQLiteStore, Statistics

__all__ = ["SQLiteStore", "Statistics"]
