from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from kubevouch.util import systemd


@pytest.mark.parametrize("abstract", [False, True])
def test_a_service_manager_is_told(tmp_path: Path, abstract: bool) -> None:
    name = f"@kubevouch-test-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0" + name[1:] if abstract else name)
        assert systemd.notify(systemd.READY, systemd.status("two\nlines"), environ={"NOTIFY_SOCKET": name})
        assert manager.recv(100) == b"READY=1\nSTATUS=two lines"


def test_nobody_listens() -> None:
    assert not systemd.notify(systemd.READY, environ={})
    assert not systemd.notify(systemd.READY, environ={"NOTIFY_SOCKET": "/nowhere/notify"})


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "x"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "30000000"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
    ],
)
def test_watchdog(environ: dict[str, str], seconds: float | None) -> None:
    assert systemd.watchdog_seconds(environ) == seconds
