"""Going on with a store that has lost writes, without giving a revision out twice."""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from kubevouch.storage.interface import Revision, StoreDamaged
from kubevouch.storage.sqlite import examination
from kubevouch.storage.sqlite.errors import translated, unusable
from kubevouch.storage.sqlite.mark import NO_SALTS, Noted, read_mark, write_mark
from kubevouch.storage.sqlite.queries import read_revision
from kubevouch.storage.sqlite.schema import WRITER_PRAGMAS, run_script
from kubevouch.util import files

REVISIONS_LEFT_OUT = 1_000_000_000
"""Beyond the newest known, at least: a clock that is wrong must not take a store back. Numbers are 64 bits."""

_MICROSECOND = dt.timedelta(microseconds=1)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def jump(path: Path, now: dt.datetime) -> tuple[Revision, Path | None]:
    """Lets the store at ``path``, whose lock is held, go on at a revision that nobody can have seen.

    All older revisions count as compacted, so that whoever watched from one of those that are lost is told to list
    anew. What SQLite reads of the log goes into the file; a copy of the whole log stays beside it. The mark is written
    first: whatever happens then, the next start knows of the new revision.

    It is the microseconds since 1970, for no store makes a commit in each: a copy may be gone on with twice, and what
    was written after the first time is as little known the second time as what was written after the copy.

    Returns:
        The store's revision from now on, and the copy of the log if there was one.

    Raises:
        StoreDamaged, StoreUnavailable
    """
    return _go_on(path, lambda known: unseen(known, now))


def unseen(known: Revision, now: dt.datetime) -> Revision:
    """One that nobody can have seen of a store of which ``known`` is the newest that is left."""
    return Revision(max(known + REVISIONS_LEFT_OUT, (now - _EPOCH) // _MICROSECOND))


def go_on_above(path: Path, revision: Revision) -> Revision:
    """As :func:`jump`, for who knows the newest revision that can have been seen: the store's becomes the next one.

    Raises:
        StoreDamaged, StoreUnavailable
    """
    return _go_on(path, lambda known: Revision(max(known, revision) + 1))[0]


def _go_on(path: Path, following: Callable[[Revision], Revision]) -> tuple[Revision, Path | None]:
    try:
        with examination.reading(path) as connection:
            examination.expect_layout(connection, path)
            known, identity = read_revision(connection), examination.identity_of(connection)
        try:
            noted = read_mark(path)
        except StoreDamaged:
            noted = None
        revision = following(Revision(max(known, noted.revision if noted is not None else 0)))
        kept = _kept(path, revision)
        write_mark(path, Noted(identity, revision, NO_SALTS))
        with closing(sqlite3.connect(path, isolation_level=None)) as writer:
            run_script(writer, WRITER_PRAGMAS)
            writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            writer.execute("UPDATE meta SET value = ? WHERE name = 'compacted'", (revision,))
            writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except sqlite3.Error as error:
        raise translated(error, path) from error
    except OSError as error:
        raise unusable(path, error, "files that this user may write") from error
    return revision, kept


def _kept(path: Path, revision: Revision) -> Path | None:
    with examination.opened_log(path) as log:
        if log is None:
            return None
        copy = path.with_name(f"{path.name}-wal.{revision}")
        files.write_atomically(copy, log[:])
        return copy
