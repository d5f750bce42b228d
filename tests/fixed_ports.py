"""Notices a test that listens on or dials a port which somebody else on this machine may have: a cluster's 6443, say.

Tests get theirs from the kernel, which gives them from its ephemeral range. Below 1024 only root listens, so a port
there is one that nobody answers on.
"""

from __future__ import annotations

import contextlib
import random
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_GIVEN = Path("/proc/sys/net/ipv4/ip_local_port_range")
# Ports that the kernel gives to nobody.
FIXED = range(1024, int(_GIVEN.read_text().split()[0]) if _GIVEN.exists() else 49152)

_used: list[str] = []
_looked_for: set[int] = set()


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


def free_port() -> int:
    """Below the ports that the kernel gives to connections, one of which could take it before a server does.

    None twice in a process, and hardly ever one that another process is about to use.
    """
    while len(_looked_for) < len(FIXED) // 2:
        port = random.choice(FIXED[len(FIXED) // 2 :])
        if port in _looked_for:
            continue
        _looked_for.add(port)
        with contextlib.suppress(OSError), socket.create_server(("0.0.0.0", port)):
            return port
    raise AssertionError("no port is free")


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if event not in ("socket.bind", "socket.connect"):
        return
    match arguments[1]:
        case (host, int(port), *_) if port in FIXED and port not in _looked_for:
            _used.append(f"{event} {host} {port}")


# For the life of the process: there is no way to take a hook away.
sys.addaudithook(_note)
