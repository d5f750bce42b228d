"""A copy of a store as it is at one moment, also while a process has it open."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from kubevouch.storage.interface import Revision, StoreInUse
from kubevouch.storage.sqlite import examination, files
from kubevouch.storage.sqlite.errors import translated, unusable
from kubevouch.storage.sqlite.queries import read_revision
from kubevouch.storage.sqlite.schema import READER_PRAGMAS, run_script
from kubevouch.util import files as util_files


def copy_store(path: Path, into: Path) -> Revision:
    """Copy the store at ``path`` to a file that is made, private; returns the revision that the copy is at.

    The copy is one transaction of a reader: commits go on beside it, and it has all of those that were acknowledged
    before it began. It gets no mark. One as old as the copy would let it be opened as if nothing had come after it,
    and its revisions would be given out again; without one it is refused until :func:`.acceptance.jump` went beyond.

    Raises:
        StoreDamaged, StoreUnavailable
    """
    path = path.resolve()
    try:
        files.expect_store(path)
        os.close(util_files.create(into))
        with _reading(path) as source, closing(sqlite3.connect(into, isolation_level=None)) as target:
            source.backup(target)
            return read_revision(target)
    except sqlite3.Error as error:
        raise translated(error, path) from error
    except OSError as error:
        raise unusable(path, error, "a store that this user may read, and room for its copy") from error


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that changes nothing: its end may not bring the log of a store into order that a damage left so."""
    try:
        lock = files.Lock(path)
    except StoreInUse:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None)) as connection:
            run_script(connection, READER_PRAGMAS)
            yield connection
        return
    try:
        with examination.reading(path) as connection:
            yield connection
    finally:
        lock.release()
