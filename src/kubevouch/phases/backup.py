"""All that a cluster is, in one file: copies of store and ledger, the PKI and the kubeconfigs of a data directory.

The file is a tar archive that begins with ``manifest.json``: the store's revision, and size and SHA-256 of every other
member. Nothing in it is encrypted.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import hashlib
import io
import json
import os
import re
import secrets
import shutil
import stat
import tarfile
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Self

import msgspec

from kubevouch import __version__
from kubevouch.ledger import checkpoints, keys, opening, reading, schema
from kubevouch.ledger import verification as ledger_verification
from kubevouch.machinery.text import gotext
from kubevouch.machinery.text.times import Time
from kubevouch.phases import store_copy
from kubevouch.storage.copying.copy import copy
from kubevouch.storage.interface import Revision, StoreError
from kubevouch.storage.options import DEFAULT_FILE, EtcdSpec, MemorySpec, SQLiteSpec, StoreSpec
from kubevouch.storage.sqlite import acceptance, verification
from kubevouch.storage.sqlite.copy import copy_store
from kubevouch.storage.sqlite.place import SQLitePlace
from kubevouch.util import files
from kubevouch.util.clock import SystemClock

FORMAT = 1
LEDGER, LEDGER_KEY = opening.DEFAULT_FILE, keys.key_of(Path(opening.DEFAULT_FILE)).name
MANIFEST = "manifest.json"
PKI = "pki"
MOST_MANIFEST_BYTES = 1 << 20
MOST_FILE_BYTES = 1 << 20
"""Of a key, a certificate or a kubeconfig; no file of ours has a tenth of it."""
MOST_FILES = 1000
MOST_NAME = 255
"""Letters of a member's name."""
_TRIES = 3
_CHUNK = 1 << 20
# A member is one of these and nothing else: whoever makes an archive does not choose where in the system it ends up.
_PART = r"[A-Za-z0-9_][A-Za-z0-9._-]*"
_LARGE = (DEFAULT_FILE, LEDGER)
_MEMBER = re.compile(rf"{'|'.join(map(re.escape, (*_LARGE, LEDGER_KEY)))}|{_PART}\.conf|{PKI}(?:/{_PART})+", re.ASCII)


Fill = Callable[[Path], Revision]
"""Copies the store in a file to where it is to be; returns the revision at which it goes on there."""


class BackupError(Exception):
    """There is nothing to copy, or the copy cannot be used; ``hint`` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Member(msgspec.Struct, frozen=True):
    """What the manifest says of a file."""

    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True):
    """``created`` is RFC 3339; ``revision`` is that of the store's copy."""

    format: int
    kubevouch: str
    created: str
    revision: int
    files: dict[str, Member]


class Restored(msgspec.Struct, frozen=True):
    """``revision`` is where the store goes on."""

    manifest: Manifest
    revision: Revision


def is_secret(name: str) -> bool:
    """Whether whoever reads the member can act as the cluster or as one of its users."""
    return not name.endswith((".crt", ".pub", ".json"))


# ------------------------------------------------------------------ backup


def backup(data_dir: Path, spec: StoreSpec, into: Path, now: dt.datetime) -> Manifest:
    """Copy what is in ``data_dir`` to the file ``into``, which is made, private; a server may run meanwhile.

    Raises:
        BackupError, StoreError, LedgerError
        OSError: among others, there is something at ``into``.
    """
    if isinstance(spec, MemorySpec):
        raise BackupError("got a store in memory, which nobody but its process can read")
    needed = [data_dir / PKI] if isinstance(spec, EtcdSpec) else [spec.path, data_dir / PKI]
    if missing := [path for path in needed if not path.exists()]:
        raise BackupError(
            f"there is no {missing[0]}", "--data-dir and --store say where the cluster lives, as for kubevouch up"
        )
    if into.exists():
        raise BackupError(f"there is a file {into}", "choose another name; a backup is never overwritten")
    with _workplace(into) as folder:
        copied = {DEFAULT_FILE: folder / DEFAULT_FILE}
        revision, small = _of_one_moment(data_dir, spec, copied[DEFAULT_FILE])
        with verification.alone(copied[DEFAULT_FILE]) as real:
            damaged = verification.verify(real, _unjudged).damaged
        if damaged:
            raise BackupError(f"{spec} is damaged: {damaged[0]}", "kubevouch store verify says more; restore a backup")
        # After the store: it has all that led to what the store has.
        if (data_dir / LEDGER).exists():
            copied[LEDGER] = _copied_ledger(data_dir / LEDGER, folder / LEDGER, now)
        members = {name: Member(path.stat().st_size, _sum_of(path)) for name, path in copied.items()}
        members |= {name: Member(len(content), hashlib.sha256(content).hexdigest()) for name, content in small.items()}
        manifest = Manifest(FORMAT, __version__, str(Time.of(now)), revision, members)
        draft = folder / "backup.tar"
        with os.fdopen(files.create(draft), "wb") as file:
            _write(file, manifest, copied, small)
            file.flush()
            os.fsync(file.fileno())
        # Not a rename: that would replace what somebody has put there meanwhile.
        os.link(draft, into)
        files.sync_folder(into.parent)
    return manifest


def _unjudged(_key: str, _value: bytes) -> str:
    """A value of which no object can be made is no damage: it is what somebody has written, and goes along."""
    return ""


def _copied_ledger(path: Path, into: Path, now: dt.datetime) -> Path:
    """Raises BackupError, LedgerError."""
    opening.copy_ledger(path, into, now)
    with contextlib.closing(opening.connect_to_read(into)) as connection:
        key = checkpoints.parse_key(reading.meta(connection, schema.KEY, into))
        findings = ledger_verification.verify(connection, key).findings
    if findings:
        raise BackupError(f"{path} is damaged: {findings[0]}", "kubevouch audit verify says more; restore a backup")
    return into


def _of_one_moment(data_dir: Path, spec: SQLiteSpec | EtcdSpec, into: Path) -> tuple[Revision, dict[str, bytes]]:
    """The store's copy and the other files as they are before and after it: a rotation of the CA changes both."""
    for _ in range(_TRIES):
        before = dict(_small_files(data_dir))
        into.unlink(missing_ok=True)
        # An etcd becomes a file, so that a backup is one thing, wherever the cluster was and will be.
        revision = copy_store(spec.path, into) if isinstance(spec, SQLiteSpec) else _fetched(spec, into)
        if dict(_small_files(data_dir)) == before:
            return revision, before
    raise BackupError(f"the files in {data_dir / PKI} change all the time", "try again when nobody renews certificates")


def _fetched(spec: EtcdSpec, into: Path) -> Revision:
    """Raises StoreError."""
    for leftover in into.parent.glob(f"{into.name}.*"):
        leftover.unlink()
    clock = SystemClock()
    copied = asyncio.run(copy(store_copy.etcd_place(spec), SQLitePlace(into), clock, lambda _: None))
    return Revision(copied.source_revision)


def _small_files(data_dir: Path) -> Iterator[tuple[str, bytes]]:
    found = [*data_dir.glob("*.conf"), data_dir / LEDGER_KEY, *(data_dir / PKI).rglob("*")]
    for path in sorted(each for each in found if each.is_file()):
        name = path.relative_to(data_dir).as_posix()
        if not _MEMBER.fullmatch(name):
            continue  # what an editor or a write that was cut short has left
        with path.open("rb") as file:
            content = file.read(MOST_FILE_BYTES + 1)
        if len(content) > MOST_FILE_BYTES:
            raise BackupError(f"got {path} with more than {MOST_FILE_BYTES} bytes, expected a key or a certificate")
        yield name, content


def _write(file: IO[bytes], manifest: Manifest, copied: Mapping[str, Path], small: Mapping[str, bytes]) -> None:
    with tarfile.TarFile(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        _add(archive, MANIFEST, io.BytesIO(content := _encoded(manifest)), len(content))
        for name, path in copied.items():
            with path.open("rb") as database:
                _add(archive, name, database, manifest.files[name].size)
        for name, content in small.items():
            _add(archive, name, io.BytesIO(content), len(content))


def _add(archive: tarfile.TarFile, name: str, content: IO[bytes], size: int) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, files.PRIVATE if is_secret(name) else files.PUBLIC
    archive.addfile(info, content)


def _encoded(manifest: Manifest) -> bytes:
    return json.dumps(msgspec.to_builtins(manifest), indent=1).encode() + b"\n"


# ------------------------------------------------------------------ restore


def restore(source: Path, data_dir: Path, now: dt.datetime, fill: Fill | None = None) -> Restored:
    """Make the folder ``data_dir`` from a backup. It is there whole, or not at all.

    Args:
        fill: puts the store elsewhere than into the folder.

    Its store goes on at a revision that nobody has seen; whoever watched the cluster of before lists anew.

    Raises:
        BackupError: the file is no whole backup, or there is something at ``data_dir``.
        StoreError, OSError
    """
    if os.path.lexists(data_dir):
        raise BackupError(
            f"there is {data_dir} already",
            "restore makes its folder itself: move that one away, or give another --data-dir",
        )
    with _workplace(data_dir) as folder:
        draft = folder / "restored"
        files.make_folder(draft, files.PRIVATE_FOLDER)
        manifest = _unpacked(source, draft)
        path = draft / DEFAULT_FILE
        try:
            with verification.alone(path) as real:
                damaged = verification.verify(real, _unjudged).damaged
                if damaged:
                    raise BackupError(f"{source} holds a damaged store: {damaged[0]}", "take another backup")
                if fill is None:
                    revision, _ = acceptance.jump(real, now)
        except StoreError as err:
            raise BackupError(f"{source} holds no store that can be used: {err}", "take another backup") from err
        if fill is not None:
            revision = fill(path)
            for left in draft.glob(f"{DEFAULT_FILE}*"):
                left.unlink()
        (draft / f"{DEFAULT_FILE}.lock").unlink(missing_ok=True)
        for each in [draft, *draft.rglob("*")]:
            if each.is_dir():
                files.sync_folder(each)
        # An empty folder that somebody has made meanwhile would be replaced, and nothing be lost by it.
        draft.rename(data_dir)
        files.sync_folder(data_dir.parent)
    return Restored(manifest, revision)


def _unpacked(source: Path, folder: Path) -> Manifest:
    """Writes the files of an archive, each of which is what the manifest says, to ``folder``."""
    try:
        with _naming(source), _opened(source) as file, tarfile.TarFile(fileobj=file, tarinfo=_File) as archive:
            members = iter(archive)
            manifest = _manifest(archive, next(members, None))
            left = dict(manifest.files)
            for info in members:
                expected = left.pop(info.name, None)
                content = archive.extractfile(info)
                if expected is None or content is None or info.size != expected.size:
                    raise _broken(source, f"the member {gotext.quote(info.name[:MOST_NAME])}")
                target = folder / info.name
                files.make_folder(target.parent, files.PRIVATE_FOLDER if target.parent == folder else files.FOLDER)
                mode = files.PRIVATE if is_secret(info.name) else files.PUBLIC
                if _written(content, target, mode) != expected.sha256:
                    raise _broken(source, f"other bytes in {info.name} than were written")
    except (tarfile.TarError, ValueError, EOFError) as err:
        raise _broken(source, str(err) or type(err).__name__) from err
    if left:
        raise _broken(source, f"no {min(left)}")
    return manifest


def _manifest(archive: tarfile.TarFile, info: tarfile.TarInfo | None) -> Manifest:
    """Raises ValueError."""
    content = archive.extractfile(info) if info is not None else None
    if info is None or content is None or info.name != MANIFEST or info.size > MOST_MANIFEST_BYTES:
        raise ValueError(f"an archive that does not begin with {MANIFEST}")
    found = msgspec.json.decode(content.read(), type=Manifest)
    if found.format != FORMAT:
        raise ValueError(f"a backup of format {found.format} by kubevouch {found.kubevouch}, where {FORMAT} is known")
    wrong = next((name for name, each in found.files.items() if not _can_be(name, each.size, found.files)), None)
    if wrong is not None or len(found.files) > MOST_FILES or DEFAULT_FILE not in found.files:
        got = "without a store" if wrong is None else f"with {gotext.quote(wrong[:MOST_NAME])}"
        raise ValueError(f"a list of files {got}")
    return found


def _can_be(name: str, size: int, others: Collection[str]) -> bool:
    """Whether a file can have that name and size; it is no folder of another."""
    if not _MEMBER.fullmatch(name) or len(name) > MOST_NAME:
        return False
    folders = {parent.as_posix() for parent in PurePosixPath(name).parents}
    return folders.isdisjoint(others) and size >= 0 and (size <= MOST_FILE_BYTES or name in _LARGE)


class _File(tarfile.TarInfo):
    """A member as backups have them: a plain file with a short name.

    What else there is in archives is refused before it is read: links, devices, files with holes that take more room
    than the archive, headers that are as long as they say.
    """

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        found = super().frombuf(buf, encoding, errors)
        if found.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
            raise tarfile.ReadError(f"the member {gotext.quote(found.name)}, which is no plain file")
        return found


def _opened(source: Path) -> IO[bytes]:
    """Raises BackupError, OSError."""
    # A pipe would be waited for.
    if not stat.S_ISREG(source.stat().st_mode):
        raise _broken(source, "what is no file")
    return source.open("rb")


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """What the system says of bytes that it cannot read or write does not say of which file."""
    try:
        yield
    except OSError as err:
        if err.filename is None:
            err.filename = str(path)
        raise


def _broken(source: Path, got: str) -> BackupError:
    return BackupError(f"{source}: got {got}, expected a whole backup", "kubevouch backup makes one; take another copy")


def _written(content: IO[bytes], target: Path, mode: int) -> str:
    """The SHA-256 of what was written."""
    digest = hashlib.sha256()
    with os.fdopen(files.create(target, mode), "wb") as file:
        while chunk := content.read(_CHUNK):
            digest.update(chunk)
            with _naming(target):
                file.write(chunk)
        with _naming(target):
            file.flush()
            os.fsync(file.fileno())
    return digest.hexdigest()


def _sum_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def _workplace(beside: Path) -> Iterator[Path]:
    """A private folder on the file system of ``beside`` that is gone at the end."""
    folder = beside.parent / f".{beside.name}.{secrets.token_hex(6)}.tmp"
    files.make_folder(folder, files.PRIVATE_FOLDER)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
