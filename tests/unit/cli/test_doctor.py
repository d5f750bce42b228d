"""``kubevouch doctor``: what is printed, and the exit codes."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import peers
from kubevouch.cli.main import run
from kubevouch.machinery.codec import yamltext
from kubevouch.testing.cluster import Cluster
from kubevouch.util import logger


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(https=True, controllers=("*",), real_time=True) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def quiet_cluster() -> None:
    """What the cluster logs would stand between the command's own lines."""
    logger.send_to(logger.to_standard_error, "error")


def test_nothing_is_wrong(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    token = cluster.token()
    cluster.settle()
    address = cluster.url.removeprefix("https://")
    arguments = ["doctor", "join", address, "--token", token, "--discovery-token-ca-cert-hash", cluster.pin]
    for more in ([], ["--kubeconfig", str(cluster.kubeconfig)]):
        assert run([*arguments, "--node-name", "worker-1", *more]) == 0
        printed = capsys.readouterr()
        assert printed.out.endswith("✓ nothing is wrong\n")
        assert printed.err == ""
    assert run(["doctor", "cluster", "--kubeconfig", str(cluster.kubeconfig)]) == 0


def test_findings_in_words_and_for_scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        arguments = ["doctor", "join", f"127.0.0.1:{port}", "--token", "abcdef.0123456789abcdef"]
        arguments += ["--discovery-token-ca-cert-hash", f"sha256:{'0' * 64}"]
        assert run(arguments) == 1
        printed = capsys.readouterr()
        assert printed.err == "error: 1 finding\n"
        assert "✗ port-refused\n" in printed.out
        cause = f"127.0.0.1:{port} refuses the connection: nothing listens on that port"
        assert f"cause          {cause}\n" in printed.out
        for output, load in (("json", json.loads), ("yaml", lambda text: yamltext.loads(text)[0])):
            assert run([*arguments, "-o", output]) == 1
            assert load(capsys.readouterr().out) == {
                "findings": [
                    {
                        "code": "port-refused", "cause": cause,
                        "fix": "start the API server on this machine (systemctl start kubevouch, or kubevouch up "
                        f"--secure-port {port}), or give the port on which it listens",
                        "docs": f"{peers.ROOT}/docs/reference/findings.md#port-refused",
                    }
                ],
                "facts": [{"name": "addresses", "text": "127.0.0.1"}],
            }  # fmt: skip


def test_a_node_that_never_joined(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "node", "--rootfs", str(tmp_path)]) == 1
    assert "✗ not-joined" in capsys.readouterr().out


def test_no_kubeconfig_is_no_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "cluster", "--kubeconfig", str(tmp_path / "none")]) == 3
    assert capsys.readouterr().err.startswith("error: the kubeconfig ")
