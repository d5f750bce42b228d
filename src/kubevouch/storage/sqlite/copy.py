"""A copy of a store as it is at one moment, also while a process has it open."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from kubevouch.storage.interface import Revision
from kubevouch.storage.sqlite import files
from kubevouch.storage.sqlite.errors import translated, unusable
from kubevouch.storage.sqlite.queries import read_revision
from kubevouch.storage.sqlite.snapshot import reading
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
        with reading(path) as (source, _), closing(sqlite3.connect(into, isolation_level=None)) as target:
            source.backup(target)
            return read_revision(target)
    except sqlite3.Error as error:
        raise translated(error, path) from error
    except OSError as error:
        raise unusable(path, error, "a store that this user may read, and room for its copy") from error
