"""Notices a test that listens on or dials a port which somebody else on this machine may have: a cluster's 6443, say.

Tests get theirs from the kernel, which gives them from its ephemeral range. Below 1024 only root listens, so a port
there is one that nobody answers on.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

# Linux gives ports from 32768 on (`ip_local_port_range`), other systems from 49152.
FIXED = range(1024, 32768)

_used: list[str] = []


class FixedPort(AssertionError):
    """The test would end differently, or do harm, where another program has the port."""


@contextmanager
def no_fixed_ports() -> Iterator[None]:
    """Raises FixedPort at its end if this process used one meanwhile; what libuv and other processes do is not seen."""
    _used.clear()
    yield
    used, _used[:] = _used[:], []
    if used:
        raise FixedPort(f"the test used fixed ports: {', '.join(used)}; take what the kernel gives for port 0")


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if event not in ("socket.bind", "socket.connect"):
        return
    match arguments[1]:
        case (host, int(port), *_) if port in FIXED:
            _used.append(f"{event} {host} {port}")


# For the life of the process: there is no way to take a hook away.
sys.addaudithook(_note)
