"""A small disk of one's own, which only root may mount, and a limit on the size of files."""

import ctypes
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_MS_REMOUNT = 32  # linux/mount.h
_MNT_DETACH = 2


@contextmanager
def memory_disk(folder: Path, options: str) -> Iterator[Callable[[str], None]]:
    """A file system in memory at ``folder``; yields what mounts it again with other options.

    Args:
        options: as of mount(8) for tmpfs, such as ``size=4m``; ``ro`` may be the first of them.

    Raises:
        PermissionError: this user may not mount.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    target = os.fsencode(folder)

    def mount(flags: int, text: str) -> None:
        read_only, given = text.partition(",")[0] == "ro", text.removeprefix("ro").removeprefix(",")
        if libc.mount(b"tmpfs", target, b"tmpfs", flags | read_only, given.encode()) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(folder))

    mount(0, options)
    try:
        yield lambda text: mount(_MS_REMOUNT, text)
    finally:
        assert libc.umount2(target, _MNT_DETACH) == 0


@contextmanager
def file_size_limit(most: int = 2_000_000) -> Iterator[Callable[[], None]]:
    """Writes beyond ``most`` bytes into any file fail with EFBIG, as beyond a quota; yields what lifts the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def lift() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield lift
    finally:
        lift()
