"""docs/howto/grow-into-kubernetes.md: from kubevouch up into kube-apiserver and kube-controller-manager, and back.

One etcd with encryption, one PKI; machines join on both sides.
"""

from __future__ import annotations

import base64
import json
import re
import signal
from pathlib import Path
from typing import Any

import peers
import processes
from processes import Up
from real_cluster import RealCluster, program

_PAGE = (peers.ROOT / "docs" / "howto" / "grow-into-kubernetes.md").read_text()
# What somebody has made before; kinds that controllers change meanwhile are looked at by what does not change.
_KINDS = ("secrets", "configmaps", "serviceaccounts", "namespaces", "roles", "rolebindings", "clusterrolebindings")
_ENCRYPTION = """\
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets, configmaps]
  providers:
  - aesgcm:
      keys:
      - {{name: key1, secret: {key}}}
"""


def _flags(folder: Path, etcd: str) -> dict[str, str]:
    """Those of the page's table, each with what the page says it is."""
    pki, encryption = folder / "cluster" / "pki", folder / "encryption.yaml"
    headers = {"username": "X-Remote-User", "group": "X-Remote-Group"}
    return {
        "--etcd-servers": etcd, "--etcd-prefix": "/registry",
        "--client-ca-file": f"{pki}/ca.crt",
        "--tls-cert-file": f"{pki}/apiserver.crt", "--tls-private-key-file": f"{pki}/apiserver.key",
        "--service-account-key-file": f"{pki}/sa.pub", "--service-account-signing-key-file": f"{pki}/sa.key",
        "--service-account-issuer": "https://kubernetes.default.svc.cluster.local",
        "--requestheader-client-ca-file": f"{pki}/front-proxy-ca.crt",
        "--proxy-client-cert-file": f"{pki}/front-proxy-client.crt",
        "--proxy-client-key-file": f"{pki}/front-proxy-client.key",
        "--requestheader-allowed-names": "front-proxy-client",
        **{f"--requestheader-{name}-headers": value for name, value in headers.items()},
        "--service-cluster-ip-range": "10.96.0.0/12",
        "--enable-bootstrap-token-auth": "true",
        "--authorization-mode": "Node,RBAC", "--enable-admission-plugins": "NodeRestriction",
        "--encryption-provider-config": str(encryption),
    }  # fmt: skip


def test_the_flags_are_those_of_the_page() -> None:
    table = _PAGE.partition("| kube-apiserver | is |")[2].partition("\n\n")[0]
    named = set(re.findall(r"(?<=`)--[a-z-]+(?<!-)", table))
    given = _flags(Path("/"), "x").keys()
    assert named - {"--requestheader", "--store"} <= given
    assert {each for each in given if not each.startswith("--requestheader")} <= named


def test_a_cluster_grows_into_kubernetes_and_back(tmp_path: Path) -> None:
    encryption = tmp_path / "encryption.yaml"
    encryption.write_text(_ENCRYPTION.format(key=base64.b64encode(bytes(range(32))).decode()))
    encryption.chmod(0o600)
    (tmp_path / "kubernetes").mkdir()
    kubernetes = RealCluster(tmp_path / "kubernetes", administrator=tmp_path / "cluster" / "admin.conf")
    try:
        kubernetes.start_etcd()
        up = Up(
            tmp_path,
            ("--store", kubernetes.etcd_url.replace("http://", "etcd://"), "--bind-address", "127.0.0.1",
             "--encryption-provider-config", str(encryption)),
        )  # fmt: skip
        with up:
            _joins(up, "before")
            _made(kubernetes)
            before = _read(kubernetes)
            assert up.end(signal.SIGTERM) == 0
        kubernetes.port, kubernetes.url = int(up.port), f"https://127.0.0.1:{up.port}"
        kubernetes.flags = tuple(f"{name}={value}" for name, value in _flags(tmp_path, kubernetes.etcd_url).items())
        pki = tmp_path / "cluster" / "pki"
        kubernetes.ca_certificate = pki / "ca.crt"
        kubernetes.start_api_server()
        assert _changed(before, _read(kubernetes)) == {}
        kubernetes.start_controller_manager(*_manager_flags(pki), signs=False)
        _joins(up, "there")
        kubernetes.stop("kube-controller-manager")
        kubernetes.stop("kube-apiserver", signal.SIGKILL)
        with up:
            assert _changed(before, _read(kubernetes)) == {}
            _joins(up, "again")
            assert up.end(signal.SIGTERM) == 0
    finally:
        kubernetes.close()


def _manager_flags(pki: Path) -> list[str]:
    """Those of the page's fourth step."""
    step = _PAGE.partition("4. Start kube-controller-manager")[2].partition("\n\n")[0]
    flags = [each.replace("=pki/", f"={pki}/") for each in re.findall(r"`(--[^`]+)`", step)]
    assert len(flags) == 5
    return flags


def _joins(up: Up, name: str) -> None:
    joined = up.join(name=name)
    assert joined.code == 0, joined.stderr
    kubeconfig = up.folder / name / "etc/kubernetes/kubelet.conf"
    told = processes.run(program("kubectl"), "--kubeconfig", kubeconfig, "auth", "whoami", "-o", "json", cwd=up.folder)
    assert json.loads(told.stdout)["status"]["userInfo"]["username"] == f"system:node:{name}", told.stderr


def _made(cluster: RealCluster) -> None:
    """Objects of several kinds, one of them custom."""
    definition = peers.ROOT / "deploy" / "crds" / "certificaterevocations.kubevouch.io.yaml"
    applied = cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", definition)
    assert applied.code == 0, applied.stderr
    for arguments in (
        ("create", "namespace", "team"),
        ("-n", "team", "create", "secret", "generic", "password", "--from-literal=a=b"),
        ("-n", "team", "create", "configmap", "settings", "--from-literal=a=b"),
        ("create", "clusterrolebinding", "readers", "--clusterrole=view", "--group=readers"),
    ):
        done = cluster.kubectl(*arguments)
        assert done.code == 0, done.stderr


def _read(cluster: RealCluster) -> dict[str, Any]:
    """What is there, by kind, namespace and name."""
    listed = cluster.kubectl("get", ",".join(_KINDS), "-A", "-o", "json")
    assert listed.code == 0, listed.stderr
    return {
        "/".join((each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"])): each
        for each in json.loads(listed.stdout)["items"]
    }


def _changed(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Objects that are gone or others, but for those that are written at every start or after every join."""
    written = ("/kubevouch-", "/extension-apiserver-authentication", "/bootstrap-token-")
    return {
        name: (each, after.get(name))
        for name, each in before.items()
        if each != after.get(name) and not (name in after and any(part in name for part in written))
    }
