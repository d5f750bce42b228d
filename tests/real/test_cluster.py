"""The cluster that the other tests use is a real one, and knows the objects of deploy/."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import peers
from real_cluster import RealCluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with RealCluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


def test_it_is_kubernetes(cluster: RealCluster) -> None:
    version = json.loads(cluster.kubectl("version", "-o", "json").stdout)
    assert version["serverVersion"]["gitVersion"].startswith("v1.")
    assert "kubevouch" not in json.dumps(version)


def test_what_is_shipped_is_accepted_without_a_warning(cluster: RealCluster, tmp_path: Path) -> None:
    done = cluster.kubectl("apply", "-k", peers.ROOT / "deploy")
    assert (done.code, done.stderr) == (0, "")
    again = cluster.kubectl("apply", "-k", peers.ROOT / "deploy")
    assert (again.code, again.stderr) == (0, "")
    changed = [line for line in again.stdout.splitlines() if not line.endswith(" unchanged")]
    # The selector of a budget is replaced as a whole (patchStrategy in k8s.io/api policy/v1): kubectl always sends one.
    assert changed == ["poddisruptionbudget.policy/kubevouch-controllers configured"]
