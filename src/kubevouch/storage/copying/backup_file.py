"""The file that ``kubevouch store backup`` writes: every key of a store at one moment, whatever kind of store it is.

    kvbackup                      8 bytes
    frames                        length of the body (u32), CRC-32 of the body (u32), body
      H  the first                JSON: format, kubevouch, created (RFC 3339), store, prefix, revision
      R  one for each key         revision (u64), expires (i64; microseconds since 1970, -1 for none),
                                  length of the key in bytes (u16), key (UTF-8), value
      E  the last                 JSON: keys, sha256 (hexadecimal, of all bytes before this frame)

Numbers are little-endian; a body's first byte is its letter; keys ascend. Values are as they are stored: what is
encrypted at rest is so here. Whoever reads a file knows after the last frame, and only then, that it is whole.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import stat
import struct
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec

from kubevouch import __version__
from kubevouch.storage.copying.errors import CopyError
from kubevouch.storage.copying.mark import OWN_KEYS
from kubevouch.storage.interface import Revision
from kubevouch.storage.snapshot import MAX_BATCH_BYTES, MAX_BATCH_RECORDS, Batch, Origin, Record, Snapshot
from kubevouch.storage.write import MAX_REVISION, check_key
from kubevouch.util import files
from kubevouch.util.clock import Clock

T = TypeVar("T")

MAGIC = b"kvbackup"
FORMAT = 1
MAX_FRAME_BYTES = 16 * 1024 * 1024
"""Of a body; ten times what etcd takes by default."""

_FRAME = struct.Struct("<II")
_RECORD = struct.Struct("<cQqH")
_HEADER, _KEY, _END = b"H", b"R", b"E"
_MAX_TOLD_CHARS = 40
_NO_TIME = -1
_END_OF_TIME = 253_402_300_800_000_000
"""The year 10000; etcd takes no lease of nearly so long."""


class Header(msgspec.Struct, frozen=True):
    """What a file is a copy of."""

    format: int
    kubevouch: str
    created: str
    store: str
    prefix: str
    revision: int


class End(msgspec.Struct, frozen=True):
    """What a whole file has."""

    keys: int
    sha256: str


class NotWhole(CopyError):
    """The file is not what was written."""

    def __init__(self, path: Path, got: str) -> None:
        super().__init__(
            f"{path}: got {got}, expected a whole backup of a store",
            "kubevouch store backup makes one; take another copy",
        )


def is_backup(path: Path) -> bool:
    """Whether a file begins as a backup does. Raises OSError."""
    if not stat.S_ISREG(path.stat().st_mode):
        return False
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


# ------------------------------------------------------------------ writing


async def write_backup(snapshot: Snapshot, into: Path, created: str, told: Callable[[int], None]) -> tuple[Header, End]:
    """Makes the file ``into``, private; it is there whole or not at all.

    Args:
        told: is called with the number of keys written so far.

    Raises:
        CopyError: there is something at ``into``.
        OSError
        and as ``Snapshot.batches``
    """
    _expect_nothing(into)
    origin = snapshot.origin
    header = Header(FORMAT, __version__, created, origin.store, origin.prefix, snapshot.revision)
    draft = into.with_name(f".{into.name}.{secrets.token_hex(6)}.tmp")
    descriptor = files.create(draft)
    try:
        with os.fdopen(descriptor, "wb") as file:
            writer = _Writer(file)
            writer.write(MAGIC)
            writer.frame(_HEADER + msgspec.json.encode(header))
            keys = 0
            async with aclosing(snapshot.batches()) as batches:
                async for batch in batches:
                    for record in batch:
                        if record.key not in OWN_KEYS:
                            writer.frame(_body(record))
                            keys += 1
                    told(keys)
            end = End(keys, writer.digest.hexdigest())
            writer.frame(_END + msgspec.json.encode(end))
            file.flush()
            os.fsync(file.fileno())
        # Not a rename: that would replace what somebody has put there meanwhile.
        os.link(draft, into)
    except OSError as error:
        if error.filename is None:
            error.filename = str(into)  # a write does not say where
        raise
    finally:
        draft.unlink(missing_ok=True)
    files.sync_folder(into.parent)
    return header, end


def _expect_nothing(path: Path) -> None:
    if os.path.lexists(path):
        raise CopyError(f"there is a file {path}", "choose another name; a backup is never overwritten")


class _Writer:
    def __init__(self, file: IO[bytes]) -> None:
        self.digest = hashlib.sha256()
        self._file = file

    def frame(self, body: bytes) -> None:
        self.write(_FRAME.pack(len(body), zlib.crc32(body)))
        self.write(body)

    def write(self, octets: bytes) -> None:
        self.digest.update(octets)
        self._file.write(octets)


def _body(record: Record) -> bytes:
    key = record.key.encode()
    expires = _NO_TIME if record.expires is None else record.expires
    return _RECORD.pack(_KEY, record.revision, expires, len(key)) + key + record.value


# ------------------------------------------------------------------ reading


class BackupFile:
    """A ``Source``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    def snapshot(self, clock: Clock) -> AbstractAsyncContextManager[BackupSnapshot]:  # noqa: ARG002 - no time limits
        return open_backup(self.path)


class BackupSnapshot(msgspec.Struct, frozen=True):
    """A ``Snapshot``: a file that was found to be whole."""

    path: Path
    header: Header
    end: End

    @property
    def revision(self) -> Revision:
        return Revision(self.header.revision)

    @property
    def origin(self) -> Origin:
        return Origin(f"backup:{self.end.sha256}", self.header.prefix)

    async def batches(self, prefix: str = "") -> AsyncGenerator[Batch, None]:
        batch: Batch = []
        size = 0
        with self.path.open("rb") as file:
            for record in _records(_Reader(file, self.path)):
                if not record.key.startswith(prefix):
                    continue
                batch.append(record)
                size += len(record.value)
                if len(batch) >= MAX_BATCH_RECORDS or size >= MAX_BATCH_BYTES:
                    yield batch
                    batch, size = [], 0
        if batch:
            yield batch


@asynccontextmanager
async def open_backup(path: Path) -> AsyncIterator[BackupSnapshot]:
    """The backup at ``path``, every byte of which is looked at first.

    Raises:
        NotWhole, OSError
    """
    yield await asyncio.to_thread(_verified, path)


def _verified(path: Path) -> BackupSnapshot:
    if not is_backup(path):
        raise NotWhole(path, "a file that does not begin as one")
    with path.open("rb") as file:
        reader = _Reader(file, path)
        before = ""
        keys = 0
        for record in _records(reader):
            if record.key <= before:
                raise NotWhole(path, f"the key {record.key} after {before}")
            before = record.key
            keys += 1
        if reader.end is None or (reader.end.keys, reader.end.sha256) != (keys, reader.whole):
            raise NotWhole(path, "other bytes than were written")
        if file.read(1):
            raise NotWhole(path, "more behind its end")
    assert reader.header is not None  # without one there are no records
    return BackupSnapshot(path, reader.header, reader.end)


class _Reader:
    def __init__(self, file: IO[bytes], path: Path) -> None:
        self.path = path
        self.header: Header | None = None
        self.end: End | None = None
        self.whole = ""
        """The SHA-256 of all before the last frame, once that was read."""
        self._file = file
        self._digest = hashlib.sha256(file.read(len(MAGIC)))

    def frames(self) -> Iterator[bytes]:
        """The bodies; the end's is not counted in ``whole``."""
        number = 0
        while True:
            head = self._file.read(_FRAME.size)
            if len(head) < _FRAME.size:
                raise NotWhole(self.path, f"an end behind frame {number}")
            size, checksum = _FRAME.unpack(head)
            body = self._file.read(size) if size <= MAX_FRAME_BYTES else b""
            number += 1
            if len(body) != size or not body or zlib.crc32(body) != checksum:
                raise NotWhole(self.path, f"other bytes than were written, or fewer, in frame {number}")
            if body[:1] == _END:
                self.whole = self._digest.hexdigest()
            self._digest.update(head)
            self._digest.update(body)
            yield body

    def decoded(self, body: bytes, shape: type[T]) -> T:
        try:
            return msgspec.json.decode(body[1:], type=shape)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise NotWhole(self.path, f"a frame that cannot be read ({error})") from error


def _records(reader: _Reader) -> Iterator[Record]:
    """All of a file; at the end ``reader`` has its header and its end."""
    for body in reader.frames():
        kind = body[:1]
        if reader.header is None:
            reader.header = _header(reader, body)
        elif kind == _KEY:
            yield _record(reader, body)
        elif kind == _END:
            reader.end = reader.decoded(body, End)
            return
        else:
            raise NotWhole(reader.path, f"a frame of the unknown kind {kind!r}")


def _header(reader: _Reader, body: bytes) -> Header:
    if body[:1] != _HEADER:
        raise NotWhole(reader.path, "no header")
    version: dict[str, Any] = reader.decoded(body, dict[str, Any])
    if version.get("format") != FORMAT:
        made = (str(version.get(name))[:_MAX_TOLD_CHARS] for name in ("format", "kubevouch"))
        raise NotWhole(reader.path, f"format {' by kubevouch '.join(made)}, where {FORMAT} is known")
    header = reader.decoded(body, Header)
    if not 0 <= header.revision <= MAX_REVISION:
        raise NotWhole(reader.path, f"a revision that no store has, {str(header.revision)[:_MAX_TOLD_CHARS]}")
    return header


def _record(reader: _Reader, body: bytes) -> Record:
    try:
        _, revision, expires, size = _RECORD.unpack_from(body)
        key = body[_RECORD.size : _RECORD.size + size]
        if len(key) != size or not key:
            raise ValueError("no key")
        text = key.decode()
        check_key(text)
        if not _NO_TIME <= expires < _END_OF_TIME:
            raise ValueError(f"a time that no calendar has, {expires}")
        value = body[_RECORD.size + size :]
        return Record(text, value, Revision(revision), None if expires == _NO_TIME else expires)
    except (struct.error, ValueError) as error:
        raise NotWhole(reader.path, f"a frame that cannot be read ({error})") from error
