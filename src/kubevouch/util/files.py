"""Files that are there whole or not at all, with the right mode from the first byte."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

PRIVATE = 0o600
PUBLIC = 0o644
FOLDER = 0o755
PRIVATE_FOLDER = 0o700


class FileInUseError(OSError):
    """Another process holds the lock."""


def write_atomically(path: Path, content: bytes, *, mode: int = PRIVATE) -> None:
    """Replace ``path`` by ``content`` in one step, durably.

    The content is written to a file beside it, made with ``mode``, synced and renamed; the folder is synced too.

    Raises:
        OSError: nothing has changed.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)  # whatever the umask took away from a public file
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as err:
        if isinstance(err, OSError) and err.filename is None:
            err.filename = str(path)  # a write does not say where
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames and creations in ``folder`` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path, mode: int = FOLDER) -> None:
    """Make ``folder`` and its parents; one that exists keeps its mode."""
    folder.mkdir(mode=mode, parents=True, exist_ok=True)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on ``path``, which is made if it is missing, until the end of the block.

    The lock ends with the process, however it ends.

    Raises:
        FileInUseError: another process holds it.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as err:
            raise FileInUseError(f"{path} is locked by another process") from err
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(descriptor)


Stamp = tuple[int, ...]
"""Changes when a file does."""


def stamp(path: Path | str) -> Stamp | None:
    """Of a file that can be looked at; None otherwise."""
    try:
        status = os.stat(path)  # noqa: PTH116 - asked before every signature, and a Path costs as much again
    except OSError:
        return None
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
