"""What a service tells systemd (sd_notify(3)); nothing where no service manager listens."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress

READY, STOPPING, WATCHDOG = "READY=1", "STOPPING=1", "WATCHDOG=1"


def status(text: str) -> str:
    """The line that ``systemctl status`` shows."""
    return f"STATUS={' '.join(text.split())}"


def notify(*states: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Send the states; whether somebody was told. A manager that cannot be reached is no reason to fail."""
    address = environ.get("NOTIFY_SOCKET", "")
    if not address or not states:
        return False
    # An abstract socket is written with @ and begins with NUL.
    path = "\0" + address[1:] if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock, suppress(OSError):
        sock.connect(path)
        sock.sendall("\n".join(states).encode())
        return True
    return False


def watchdog_seconds(environ: Mapping[str, str] = os.environ) -> float | None:
    """How often to send WATCHDOG: half of what the unit allows; None without a watchdog for this process."""
    try:
        microseconds = int(environ.get("WATCHDOG_USEC", ""))
        pid = int(environ.get("WATCHDOG_PID", str(os.getpid())))
    except ValueError:
        return None
    return microseconds / 2_000_000 if microseconds > 0 and pid == os.getpid() else None
