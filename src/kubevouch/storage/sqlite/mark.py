"""The mark beside a store: the newest revision that may have been acknowledged.

SQLite ends its write-ahead log at the first frame whose checksum is wrong, and says nothing: a flipped bit there takes
every later commit away, and their revisions would be given out again. The mark is what tells: it is moved after a
commit is on the disk and before anybody hears of it, so a store that lacks its revision has lost an acknowledged write.

It costs no sync. The file is mapped: a move is a copy into memory, which outlives the process (kill -9) and which the
kernel writes within half a minute. After a power cut the mark may therefore be behind the store, never before it; what
the log itself proves (``log_frames``) covers that stretch. A system call in its place would let go of the interpreter
lock, which costs up to 5 ms while the loop is busy.

Two slots are written in turn, each with its checksum and in a sector of its own, so that one is whole at any moment.
"""

from __future__ import annotations

import mmap
import os
import struct
import zlib
from pathlib import Path

import msgspec

from kubevouch.storage.interface import Revision
from kubevouch.storage.sqlite.errors import loss
from kubevouch.util import files

_SLOT = struct.Struct("<8sQQ8s")
_SUM = struct.Struct("<I")
_MAGIC = b"kvmark1\n"
_SECTOR = 512
MARK_BYTES = 2 * _SECTOR
NO_SALTS = bytes(8)


def mark_of(path: Path) -> Path:
    """Where the mark of the store at ``path`` is."""
    return path.with_name(path.name + ".mark")


class Noted(msgspec.Struct, frozen=True):
    """What a mark says.

    Args:
        identity: of the store it belongs to.
        revision: the newest that may have been acknowledged.
        doubtful: the salts of a log in which a commit failed: what lies behind its last frame proves nothing.
    """

    identity: int
    revision: Revision
    doubtful: bytes = NO_SALTS


def read_mark(path: Path) -> Noted | None:
    """What the mark of the store at ``path`` says; None if there is none.

    Raises:
        LossFound: neither slot is whole.
        OSError
    """
    try:
        content = files.read_regular(mark_of(path), MARK_BYTES)
    except FileNotFoundError:
        return None
    whole = [noted for at in (0, _SECTOR) if (noted := _unpacked(content[at : at + _SECTOR])) is not None]
    if len(content) != MARK_BYTES or not whole:
        raise loss(path, f"a mark ({mark_of(path).name}) that cannot be read")
    return max(whole, key=lambda noted: noted.revision)


def write_mark(path: Path, noted: Noted) -> None:
    """Makes the mark of the store at ``path``, or replaces it; durable on return. Raises OSError."""
    slot = _packed(noted).ljust(_SECTOR, b"\x00")
    files.write_atomically(mark_of(path), slot * 2)


class Mark:
    """The mark of an open store; for the writer's thread."""

    def __init__(self, path: Path, noted: Noted) -> None:
        """Raises OSError."""
        self._noted = noted
        self._turn = 0
        descriptor = files.open_existing(mark_of(path))
        try:
            self._map = mmap.mmap(descriptor, MARK_BYTES)
        finally:
            os.close(descriptor)

    def advance(self, revision: Revision) -> None:
        """``revision`` is on the disk and may now be acknowledged."""
        self._noted = Noted(self._noted.identity, revision, self._noted.doubtful)
        self._write()

    def doubt(self, salts: bytes) -> None:
        """A commit has failed in the log with these salts; it may have left frames there that nobody waits for."""
        if salts == self._noted.doubtful:
            return
        self._noted = Noted(self._noted.identity, self._noted.revision, salts)
        self._write()
        self._write()
        self.sync()

    def sync(self) -> None:
        """Makes the mark durable. Raises OSError."""
        self._map.flush()

    def close(self) -> None:
        """Raises OSError."""
        try:
            self.sync()
        finally:
            self._map.close()

    def _write(self) -> None:
        packed = _packed(self._noted)
        at = self._turn * _SECTOR
        self._map[at : at + len(packed)] = packed
        self._turn = 1 - self._turn


def _packed(noted: Noted) -> bytes:
    body = _SLOT.pack(_MAGIC, noted.identity, noted.revision, noted.doubtful)
    return body + _SUM.pack(zlib.crc32(body))


def _unpacked(slot: bytes) -> Noted | None:
    body, tail = slot[: _SLOT.size], slot[_SLOT.size : _SLOT.size + _SUM.size]
    if len(tail) < _SUM.size or _SUM.unpack(tail)[0] != zlib.crc32(body):
        return None
    magic, identity, revision, doubtful = _SLOT.unpack(body)
    return Noted(identity, Revision(revision), doubtful) if magic == _MAGIC else None
