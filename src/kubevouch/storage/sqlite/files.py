"""The files of a store: who may open them, who may read them, and how they come into being.

``PATH`` is the SQLite file, ``PATH-wal`` and ``PATH-shm`` are SQLite's own, ``PATH.mark`` says how far it reached,
``PATH.lock`` is held while a process has the store open, ``PATH.new`` exists while a store is made.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

from kubevouch.storage.interface import Revision, StoreInUse, StoreUnavailable
from kubevouch.storage.sqlite.errors import damaged
from kubevouch.storage.sqlite.mark import Noted, mark_of, read_mark, write_mark
from kubevouch.storage.sqlite.schema import APPLICATION_ID, CREATE, run_script
from kubevouch.storage.sqlite.upgrade import new_identity
from kubevouch.util import files

_MAGIC = b"SQLite format 3\x00"
_HEADER_BYTES = 100
_APPLICATION_ID_AT = 68  # sqlite.org/fileformat2.html, section 1.3

NOTHING_WRITTEN = Revision(1)
"""What a new store is at."""


class Lock:
    """Keeps every other process, and every other store of this one, off the file.

    It is a file of its own: closing any descriptor of the SQLite file would release SQLite's locks on it, for they
    belong to the process (sqlite.org/howtocorrupt.html, section 2.2). It stays when it is released; to remove it would
    let two processes hold two different ones.
    """

    def __init__(self, path: Path) -> None:
        """Raises StoreInUse."""
        self._descriptor = files.open_lock(companion(path, ".lock"))
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(self._descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._descriptor)
            raise StoreInUse(
                f"{path}: got a store that process {holder} has open, expected to be alone; stop that process first"
            ) from error
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._descriptor)


def companion(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def create_if_missing(path: Path) -> None:
    """Makes an empty store, with its mark, unless there is a file.

    It is made under another name and moved into place whole. So whatever lies at ``path`` once was a store, and a file
    that is empty or half written is damage, not a beginning.

    Raises:
        StoreDamaged: the file is gone, but what was written to it last is still there, or its mark.
    """
    if path.exists():
        return
    wal = companion(path, "-wal")
    if wal.exists() and wal.stat().st_size:
        raise damaged(path, f"no file, but writes that belong to it in {wal.name}")
    noted = read_mark(path)
    if noted is not None and noted.revision > NOTHING_WRITTEN:
        raise damaged(path, f"no file, but a mark ({mark_of(path).name}) of one at revision {noted.revision}")
    draft = companion(path, ".new")
    for leftover in (draft, companion(draft, "-wal"), companion(draft, "-shm")):
        leftover.unlink(missing_ok=True)
    os.close(files.create(draft))
    noted = Noted(new_identity(), NOTHING_WRITTEN)
    with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
        run_script(connection, CREATE)
        connection.execute("INSERT INTO meta VALUES ('identity', ?)", (noted.identity,))
    write_mark(path, noted)
    draft.replace(path)
    files.sync_folder(path.parent)


def expect_store(path: Path) -> None:
    """Raises StoreDamaged for a file that is none of ours, before SQLite or anyone else has touched it."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise damaged(path, "something that is not a file")
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        raise damaged(path, f"a file of {path.stat().st_size} bytes that does not begin as SQLite's do")
    application = int.from_bytes(header[_APPLICATION_ID_AT : _APPLICATION_ID_AT + 4], "big")
    if application != APPLICATION_ID:
        raise damaged(path, f"an SQLite file of another program (application id {application:#010x})")


def make_private(path: Path) -> None:
    """Takes the rights of group and others away; SQLite gives the rights of the file to those it makes next to it."""
    for file in (path, companion(path, "-wal"), companion(path, "-shm")):
        if file.exists():
            files.make_private(file)


def make_folder(path: Path) -> None:
    try:
        files.make_folder(path.parent, files.PRIVATE_FOLDER)
    except OSError as error:
        raise StoreUnavailable(
            f"{path}: got {error.strerror} for its folder, expected to be able to make it; choose another path"
        ) from error
