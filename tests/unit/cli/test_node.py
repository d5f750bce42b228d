"""``kubevouch node`` against a running server; what it does to a node is in tests/attacks/test_s21_removed_nodes.py."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from kubevouch.cli.main import cli
from kubevouch.testing.cluster import Cluster


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[str]:
    with Cluster(https=True) as cluster:
        cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker-1"}})
        yield str(cluster.kubeconfig)


def run(kubeconfig: str, *arguments: str, text: str = "") -> tuple[int, str]:
    ended = CliRunner().invoke(cli, ["node", *arguments, "--kubeconfig", kubeconfig], input=text)
    return ended.exit_code, ended.output


def test_remove_list_and_lift(kubeconfig: str) -> None:
    assert run(kubeconfig, "lockouts") == (0, "no node is locked out\n")
    code, told = run(kubeconfig, "remove", "worker-1", text="n\n")
    assert code != 0
    code, told = run(kubeconfig, "remove", "worker-1", "--yes", "--why", "stolen")
    assert code == 0 and "Node deleted" in told and "--node-name worker-1" in told
    code, told = run(kubeconfig, "remove", "worker-1", "--yes", "--why", "stolen")
    assert code == 0 and "there was no Node" in told
    code, told = run(kubeconfig, "lockouts")
    assert code == 0 and "worker-1" in told and "stolen" in told
    (entry,) = json.loads(run(kubeconfig, "lockouts", "-o", "json")[1])
    assert entry["node"] == "worker-1" and entry["why"] == "stolen"
    assert run(kubeconfig, "lift", "worker-1") == (0, "node worker-1 is no longer locked out\n")
    assert run(kubeconfig, "lift", "worker-1")[0] != 0


def test_what_no_node_can_be_called(kubeconfig: str) -> None:
    assert run(kubeconfig, "remove", "a/../b", "--yes")[0] == 2
