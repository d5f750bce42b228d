"""Sockets in the file system, and who is at the other end of one."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kubevouch.util.files import PRIVATE

_SUN_PATH_BYTES = 108  # with the NUL at its end
_UCRED = struct.Struct("3i")


def bound(path: Path, mode: int = PRIVATE) -> socket.socket:
    """A socket at ``path``, in place of what is there, with ``mode`` before anybody can connect. Raises OSError."""
    path.unlink(missing_ok=True)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with address(path) as name:
            sock.bind(name)
        path.chmod(mode)
    except BaseException:
        sock.close()
        raise
    return sock


@contextmanager
def address(path: Path) -> Iterator[str]:
    """The path as a socket's address may have it, which is far shorter than a path may be (unix(7), ``sun_path``)."""
    if len(os.fsencode(path)) < _SUN_PATH_BYTES:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def peer_user(sock: socket.socket) -> int:
    """The user of the process that has connected, as the kernel knows it (unix(7), ``SO_PEERCRED``)."""
    _, user, _ = _UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    return int(user)
