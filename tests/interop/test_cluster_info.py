"""What cluster-info says beside Kubernetes' own words, as clients of any age read it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import peers
import processes
from kubevouch.records.cluster_info import ClusterInfo, build_kubeconfig
from throwaway_ca import ThrowawayCA


@pytest.mark.parametrize("version", ["1.20", "1.37"])
def test_clients_pass_over_the_extension_and_keep_it(tmp_path: Path, version: str) -> None:
    info = ClusterInfo("https://a.test:6443", ThrowawayCA().bundle, "one", ("https://b.test:6443",))
    text = build_kubeconfig(info)
    (tmp_path / "cluster-info").write_text(text)
    view = processes.run(
        peers.kubectl(version), "config", "view", "--raw", "--kubeconfig", "./cluster-info", cwd=tmp_path
    )
    assert view.code == 0, view
    assert yaml.safe_load(view.stdout)["clusters"] == yaml.safe_load(text)["clusters"]
