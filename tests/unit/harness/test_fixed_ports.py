"""The guard against fixed ports sees who listens and who dials."""

from __future__ import annotations

import contextlib
import socket

import pytest

from fixed_ports import FixedPort, no_fixed_ports


@pytest.mark.parametrize("act", ["bind", "connect"])
@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_fixed_port_is_noticed(act: str, family: socket.AddressFamily, host: str) -> None:
    with (
        pytest.raises(FixedPort, match=f"socket.{act} {host} 26443"),
        no_fixed_ports(),
        socket.socket(family) as plain,
        contextlib.suppress(OSError),
    ):
        getattr(plain, act)((host, 26443))


def test_ports_of_the_kernel_and_files_are_not() -> None:
    with no_fixed_ports(), socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as plain:
        plain.connect(server.getsockname())
        with socket.socket() as nobody, contextlib.suppress(OSError):
            nobody.connect(("127.0.0.1", 1))
