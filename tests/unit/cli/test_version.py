"""``kubevouch version``: of the program, and of the server if it answers."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from kubevouch import __version__
from kubevouch.cli.main import run
from kubevouch.server.version import document
from kubevouch.testing.cluster import Cluster

Captured = pytest.CaptureFixture[str]


def test_of_both(capsys: Captured) -> None:
    with Cluster(https=True, real_time=True) as cluster:
        arguments = ["version", "--kubeconfig", str(cluster.kubeconfig)]
        assert run(arguments) == 0
        client, server = (line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
        assert client[0] == "client" and client[1].startswith(f"{__version__}, on Python 3.")
        assert server == ["server", document()["gitVersion"]]
        assert run([*arguments, "-o", "json"]) == 0
        tree = json.loads(capsys.readouterr().out)
    assert tree["clientVersion"]["version"] == __version__
    assert tree["serverVersion"] == document()


def test_of_a_server_that_does_not_answer(tmp_path: Path, capsys: Captured) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        path = tmp_path / "config"
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "a",
            "clusters": [{"name": "a", "cluster": {"server": f"http://127.0.0.1:{closed.getsockname()[1]}"}}],
            "users": [{"name": "a", "user": {}}], "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        }))  # fmt: skip
        path.chmod(0o600)
        assert run(["version", "--kubeconfig", str(path)]) == 0
        assert "server           not asked or no answer: " in capsys.readouterr().out
        assert run(["version", "--kubeconfig", str(path), "-o", "json"]) == 0
        assert set(json.loads(capsys.readouterr().out)) == {"clientVersion", "serverProblem"}


def test_of_the_program_alone(tmp_path: Path, capsys: Captured) -> None:
    assert run(["version", "--client", "--kubeconfig", str(tmp_path / "none")]) == 0
    assert "server" not in capsys.readouterr().out
