from __future__ import annotations

import os
import socket
from pathlib import Path

from kubevouch.phases.preflight_machine import Machine


def test_a_tree_says_nothing_of_a_machine(tmp_path: Path) -> None:
    assert Machine.here(tmp_path, "worker-1", ports=[10250]) == Machine(tmp_path)


def test_this_machine() -> None:
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        live = Machine.here(None, "localhost", ports=[port]).live
    assert live is not None
    assert live.user_id == os.geteuid() and live.processors >= 1 and live.memory > 1 << 20
    assert live.busy_ports == {port} and live.resolves
    assert live.system == "Linux" and live.kernel and live.missing == ()
    free = Machine.here(None, "no-such-host.invalid", ports=[port]).live
    assert free is not None and free.busy_ports == frozenset() and not free.resolves


def test_the_socket_of_a_container_runtime(tmp_path: Path) -> None:
    path = tmp_path / "cri.sock"
    for text in (str(path), f"unix://{path}"):
        live = Machine.here(None, cri_socket=text).live
        assert live is not None and live.runtime_socket is None
    with socket.socket(socket.AF_UNIX) as runtime:
        runtime.bind(str(path))
        for text in (str(path), f"unix://{path}"):
            live = Machine.here(None, cri_socket=text).live
            assert live is not None and live.runtime_socket == path
