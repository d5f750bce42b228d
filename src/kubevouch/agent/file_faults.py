"""What is wrong with a file that could not be read or written, in a sentence and with what to do."""

from __future__ import annotations

import errno
import os
from pathlib import Path

_HINTS = {
    errno.ENOSPC: "make room on that disk; it is tried again by itself",
    errno.EDQUOT: "make room within the quota; it is tried again by itself",
    errno.EROFS: "mount it so that it can be written; it is tried again by itself",
    errno.EIO: "the disk fails: see the kernel's log",
}


def explain(err: OSError) -> tuple[str, str]:
    """Words and hint; the hint is empty where nothing better than the words is known."""
    if not err.strerror:
        return str(err), ""
    words = f"{err.filename}: {err.strerror}" if err.filename else err.strerror
    if err.errno in (errno.EACCES, errno.EPERM) and err.filename:
        return _not_ours(words, Path(os.fsdecode(err.filename)))
    return words, _HINTS.get(err.errno or 0, "")


def _not_ours(words: str, path: Path) -> tuple[str, str]:
    """Whose the nearest thing is that is not ours: the file, or a folder above one that could not be made."""
    user = os.geteuid()
    for each in (path, *path.parents):
        try:
            owner = each.stat().st_uid
        except OSError:
            continue
        if owner != user:
            return f"{words}; {each} belongs to user {owner}, and this is user {user}", f"chown {user} {each}"
        break
    return words, ""
