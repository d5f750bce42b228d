"""Files that are there whole or not at all, with the right mode from the first byte.

Whatever this program writes, locks or keeps private goes through here; a test walks the source for anything else. A
link that somebody planted is never followed to be written, and a key that others could have read or put there is not
taken for ours.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import IO

PRIVATE = 0o600
PUBLIC = 0o644
FOLDER = 0o755
PRIVATE_FOLDER = 0o700


class FileInUseError(OSError):
    """Another process holds the lock."""


class UnsafeFileError(OSError):
    """Something is there that somebody else may have put there, changed or read; ``hint`` says what to do."""

    def __init__(self, path: Path, got: str, expected: str, hint: str) -> None:
        super().__init__(errno.EPERM, f"got {got}, expected {expected}", str(path))
        self.hint = hint

    def __str__(self) -> str:
        return str(self.strerror)


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
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _SELF, mode)
    os.fchmod(descriptor, mode)
    return descriptor


def write_new(path: Path, content: bytes, *, mode: int = PRIVATE) -> None:
    """Make a file that nothing depends on after a power cut. Raises OSError, among others if there is one."""
    with os.fdopen(create(path, mode), "wb") as file:
        file.write(content)


def open_existing(path: Path) -> int:
    """A descriptor that reads and writes the file at ``path`` itself.

    Raises:
        UnsafeFileError: a link or no file is there.
        OSError
    """
    return _opened(path, os.O_RDWR)


def open_append(path: Path) -> int:
    """A descriptor that writes at the end of the file at ``path``, which is made private if it is missing.

    Raises:
        UnsafeFileError: a link, no file, or a file of somebody else is there.
        OSError
    """
    return _own(path, _opened(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND))


def open_lock(path: Path) -> int:
    """A descriptor of the lock file at ``path``, which is made if it is missing. What is in it stays.

    Raises:
        UnsafeFileError: a link, no file, a file of somebody else or one with another name is there, perhaps planted so
            that the number of this process replaces what is in it.
        OSError
    """
    descriptor = _own(path, _opened(path, os.O_RDWR | os.O_CREAT))
    if os.fstat(descriptor).st_nlink > 1:
        os.close(descriptor)
        raise UnsafeFileError(path, "a file with another name besides", "one of its own", f"remove {path}")
    return descriptor


def read_regular(path: Path, most: int) -> bytes:
    """The first ``most`` bytes of the file at ``path`` itself.

    Raises:
        UnsafeFileError: a link or no file is there.
        OSError
    """
    with os.fdopen(_opened(path, os.O_RDONLY), "rb") as file:
        return file.read(most)


def read_public(path: Path, most: int) -> bytes:
    """The first ``most`` bytes of a file that nobody keeps secret, such as a certificate; links are followed to it.

    A pipe or a device is refused: it would block, or never end.

    Raises:
        UnsafeFileError: no file is there.
        OSError
    """
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise UnsafeFileError(path, "something else", "a file", "name a file")
        return file.read(most)


def read_private(path: Path, most: int = -1) -> bytes:
    """The first ``most`` bytes of a file with a key, which nobody else could have put there or read.

    It belongs to this user, to root, or to whose its folder is; links are followed to it, as kubelets keep their pair.

    Raises:
        UnsafeFileError: others may read it, or it is somebody else's.
        OSError
    """
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise UnsafeFileError(path, "something else", "a file", f"remove {path}")
        if status.st_uid not in _owners(path):
            raise UnsafeFileError(
                path, f"a file of user {status.st_uid}", f"one of user {os.geteuid()}",
                f"look where it comes from; if it is right, chown {os.geteuid()} {path}",
            )  # fmt: skip
        mode = stat.S_IMODE(status.st_mode)
        if mode & 0o077:
            raise UnsafeFileError(
                path, f"the mode {mode:04o}", f"{mode & 0o700:04o}",
                f"if nobody else can have read or made it, chmod 0600 {path}; otherwise move it away for a new one",
            )  # fmt: skip
        return file.read(most)


def _owners(path: Path) -> set[int]:
    """Who may have put the file at ``path`` there: root, this user, and whose its folder is."""
    return {0, os.geteuid(), path.resolve().parent.stat().st_uid}


def exposure(path: Path, *, public: bool = False) -> str:
    """What others can do with a file that an operator names and that holds a secret, and what to do about it.

    Such a file is used nevertheless, as Kubernetes does; only keys in folders of our own are refused
    (:func:`read_private`). Empty for a file that is private, for a pipe, and where nothing can be looked at.

    Args:
        public: it holds public keys, so that only who may write or swap it matters.
    """
    try:
        status = path.stat()
        known = status.st_uid in _owners(path)
    except OSError:
        return ""
    if not stat.S_ISREG(status.st_mode):
        return ""
    mode = stat.S_IMODE(status.st_mode)
    if not known:
        return f"{path} belongs to user {status.st_uid}; look where it comes from, then chown {os.geteuid()} {path}"
    if mode & 0o022:
        return f"{path} can be written by others (mode {mode:04o}); look what is in it, then chmod go-w {path}"
    if mode & 0o044 and not public:
        return f"{path} can be read by others (mode {mode:04o}); chmod 600 {path}"
    return ""


@lru_cache(maxsize=64)
def log_exposure(text: str) -> None:
    """Tell a log once: some files are read again and again."""
    # Half of what kubevouch credential would load, for a line that it hardly ever writes.
    from kubevouch.util.logger import get_logger

    get_logger("files").warning("a file with a credential is not private", problem=text)


def warn_of_exposure(path: Path, warn: Callable[[str], None] = log_exposure, *, public: bool = False) -> None:
    """Tell ``warn`` what :func:`exposure` says, if it says anything."""
    if text := exposure(path, public=public):
        warn(text)


def is_private(path: Path) -> bool:
    """Whether only its owner may read ``path``. Raises OSError."""
    return not stat.S_IMODE(path.stat().st_mode) & 0o077


def make_private(path: Path) -> None:
    """Take the rights of group and others away. Raises OSError."""
    if stat.S_IMODE(path.stat().st_mode) != PRIVATE:
        path.chmod(PRIVATE)


def restrict(path: Path, most: int) -> None:
    """Take the rights away that are not among ``most``; others stay as somebody has set them. Raises OSError."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & ~most:
        path.chmod(mode & most)


_SELF = os.O_NOFOLLOW | os.O_CLOEXEC


def _opened(path: Path, flags: int) -> int:
    """A pipe or a device that somebody put there would block or swallow."""
    try:
        descriptor = os.open(path, flags | _SELF | os.O_NONBLOCK, PRIVATE)
    except OSError as err:
        if err.errno in (errno.ELOOP, errno.ENXIO):
            got = "a symbolic link" if err.errno == errno.ELOOP else "something else"
            raise UnsafeFileError(path, got, "a file", f"look who has put it there, and remove {path}") from err
        raise
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise UnsafeFileError(path, "something else", "a file", f"remove {path}")


def _own(path: Path, descriptor: int) -> int:
    """``descriptor``, if its file is this user's."""
    owner = os.fstat(descriptor).st_uid
    if owner == os.geteuid():
        return descriptor
    os.close(descriptor)
    raise UnsafeFileError(
        path, f"a file of user {owner}", f"one of user {os.geteuid()}", f"run as that user, or remove {path}"
    )


def sync_folder(folder: Path) -> None:
    """Make renames and creations in ``folder`` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path, mode: int = FOLDER) -> None:
    """Make ``folder`` with ``mode``, and its parents with 0755, whatever the umask; one that exists keeps its mode.

    Raises:
        OSError
    """
    if folder.is_dir():
        return
    # A parent that is a file is told by mkdir: not a directory.
    if not folder.parent.exists():
        make_folder(folder.parent)
    try:
        folder.mkdir(mode)
    except FileExistsError:
        if not folder.is_dir():
            raise
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | _SELF)
    try:
        os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on ``path``, which is made if it is missing, until the end of the block.

    The lock ends with the process, however it ends.

    Raises:
        FileInUseError: another process holds it.
        UnsafeFileError: as :func:`open_lock`.
    """
    descriptor = open_lock(path)
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


@contextlib.contextmanager
def shared(file: IO[bytes], *, alone: bool = False) -> Iterator[None]:
    """Hold a lock of an open file that others may hold, too, unless ``alone``. Waits for it; flock(2). Raises OSError.

    A lock is its process's, and goes with the file whatever name that has.
    """
    fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


Stamp = tuple[int, ...]
"""Changes when a file does."""


def stamp(path: Path | str) -> Stamp | None:
    """Of a file that can be looked at; None otherwise."""
    try:
        status = os.stat(path)  # noqa: PTH116 - asked before every signature, and a Path costs as much again
    except OSError:
        return None
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
