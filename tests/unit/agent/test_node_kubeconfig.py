from __future__ import annotations

import stat
from pathlib import Path

import pytest

from kubevouch.agent import node_kubeconfig
from kubevouch.agent.interface import SettingsError
from kubevouch.config import kubeconfig
from kubevouch.config.kubeconfig import Cluster, Context, Kubeconfig, User


def _bootstrap(path: Path, cluster: Cluster) -> None:
    path.write_text(
        kubeconfig.dump(
            Kubeconfig(
                clusters={"kubernetes": cluster},
                users={"token": User(token="aaaaaa.bbbbbbbbbbbbbbbb")},
                contexts={"x": Context(cluster="kubernetes", user="token")},
                current_context="x",
            )
        )
    )


def test_what_a_kubelet_writes_once_it_has_a_certificate(tmp_path: Path) -> None:
    path, source = tmp_path / "etc" / "kubelet.conf", tmp_path / "bootstrap.conf"
    current = tmp_path / "pki" / "kubelet-client-current.pem"
    cluster = Cluster(server="https://a:6443", certificate_authority="ca.crt", proxy_url="http://p")
    _bootstrap(source, cluster)
    assert node_kubeconfig.ensure(path, source, current)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    written = kubeconfig.load(path.read_bytes())
    assert written.current_context == "default-context"
    assert written.contexts["default-context"] == Context(
        cluster="default-cluster", user="default-auth", namespace="default"
    )
    assert written.users == {"default-auth": User(client_certificate=str(current), client_key=str(current))}
    assert written.clusters == {
        "default-cluster": Cluster(
            server="https://a:6443", certificate_authority=str(tmp_path / "ca.crt"), proxy_url="http://p"
        )
    }
    # It is left alone from then on, also when its path is relative.
    before = path.stat().st_mtime_ns
    assert not node_kubeconfig.ensure(path, path, current)
    path.write_text(path.read_text().replace(str(current), "../pki/kubelet-client-current.pem"))
    assert not node_kubeconfig.ensure(path, path, current)
    assert path.stat().st_mtime_ns >= before


def test_a_source_without_a_cluster(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("apiVersion: v1\nkind: Config\n")
    with pytest.raises(SettingsError, match="names no cluster"):
        node_kubeconfig.ensure(tmp_path / "k", tmp_path / "b", tmp_path / "c")
