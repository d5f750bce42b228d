"""Files that are there whole or not at all, with the right mode from the first byte."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import stat
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
    descriptor = create(temporary, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
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


def create(path: Path, mode: int = PRIVATE) -> int:
    """A descriptor that writes a file that is made now; whatever the umask, it has ``mode``.

    Raises:
        OSError: among others, there is something at ``path``.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    os.fchmod(descriptor, mode)
    return descriptor


def open_existing(path: Path) -> int:
    """A descriptor that reads and writes the file at ``path`` itself, never one that a link there names.

    Raises:
        OSError
    """
    return _regular(os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), path)


def read_regular(path: Path, most: int) -> bytes:
    """The first ``most`` bytes of the file at ``path`` itself, never of one that a link there names.

    Raises:
        OSError
    """
    descriptor = _regular(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), path)
    try:
        return os.read(descriptor, most)
    finally:
        os.close(descriptor)


def _regular(descriptor: int, path: Path) -> int:
    """``descriptor``, if it is a file: a pipe or a device that somebody put there would block or swallow."""
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file", str(path))


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
