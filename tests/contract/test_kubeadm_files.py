"""What kubeadm 1.36 and a kubelet put on disk and into the API, each thing in a row, and ours beside it.

Contents of certificates are compared in ``tests/unit/phases/certificates/test_control_plane_pki.py``. What differs on
purpose is in ``docs/compatibility.md``.
"""

from __future__ import annotations

import base64
import re
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml

from control_plane_world import control_plane_files, settings
from joined_node import NAME, join_node_aside
from kubevouch.api import catalog
from kubevouch.client.interface import Client
from kubevouch.config import kubeconfig
from kubevouch.machinery.codec import json_codec
from kubevouch.phases import upload_config
from kubevouch.phases.init import Initialized, InitOptions, init
from kubevouch.testing import Cluster
from kubevouch.util.clock import SystemClock

JOINING = "system:bootstrappers:kubeadm:default-node-token"
REQUESTS = "system:certificates.k8s.io:certificatesigningrequests"
SYSTEM, PUBLIC = "kube-system", "kube-public"

CONTROL_PLANE = {
    **dict.fromkeys(("admin.conf", "super-admin.conf", "kubelet.conf"), 0o600),
    **dict.fromkeys(("controller-manager.conf", "scheduler.conf"), 0o600),
    **{
        f"pki/{name}.{kind}": mode
        for name in (
            "ca", "apiserver", "apiserver-kubelet-client", "front-proxy-ca", "front-proxy-client", "etcd/ca",
            "etcd/server", "etcd/peer", "etcd/healthcheck-client", "apiserver-etcd-client",
        )
        for kind, mode in (("crt", 0o644), ("key", 0o600))
    },
    "pki/sa.key": 0o600,
    "pki/sa.pub": 0o600,
}  # fmt: skip
# A worker, after kubeadm join and the kubelet's first certificate. kubeadm's config.yaml and flags are 0644.
WORKER = {
    r"etc/kubernetes/kubelet\.conf": 0o600,
    r"etc/kubernetes/pki/ca\.crt": 0o644,
    r"var/lib/kubelet/pki/kubelet-client-\d{4}-\d\d-\d\d-\d\d-\d\d-\d\d\.pem": 0o600,
    r"var/lib/kubelet/pki/kubelet-client-current\.pem": 0o600,
    r"var/lib/kubelet/config\.yaml": 0o600,
    r"var/lib/kubelet/kubeadm-flags\.env": 0o600,
}
OURS = re.compile(r"var/lib/kubelet/pki/\.kubelet-client\.lock")

# Kind, namespace, name: what it holds. Roles as rules, bindings as role and subjects.
RBAC: dict[tuple[str, str, str], Any] = {
    ("ClusterRole", "", "kubeadm:get-nodes"): [(["get"], [""], ["nodes"], [])],
    ("ClusterRoleBinding", "", "kubeadm:get-nodes"): ("ClusterRole/kubeadm:get-nodes", {f"Group/{JOINING}"}),
    ("ClusterRoleBinding", "", "kubeadm:kubelet-bootstrap"): (
        "ClusterRole/system:node-bootstrapper", {f"Group/{JOINING}"},
    ),
    ("ClusterRoleBinding", "", "kubeadm:node-autoapprove-bootstrap"): (
        f"ClusterRole/{REQUESTS}:nodeclient", {f"Group/{JOINING}"},
    ),
    ("ClusterRoleBinding", "", "kubeadm:node-autoapprove-certificate-rotation"): (
        f"ClusterRole/{REQUESTS}:selfnodeclient", {"Group/system:nodes"},
    ),
    ("ClusterRoleBinding", "", "kubeadm:apiserver-kubelet-client"): (
        "ClusterRole/system:kubelet-api-admin", {"User/kube-apiserver-kubelet-client"},
    ),
    ("ClusterRoleBinding", "", "kubeadm:cluster-admins"): (
        "ClusterRole/cluster-admin", {"Group/kubeadm:cluster-admins"},
    ),
    ("Role", PUBLIC, "kubeadm:bootstrap-signer-clusterinfo"): [(["get"], [""], ["configmaps"], ["cluster-info"])],
    ("RoleBinding", PUBLIC, "kubeadm:bootstrap-signer-clusterinfo"): (
        "Role/kubeadm:bootstrap-signer-clusterinfo", {"User/system:anonymous"},
    ),
    ("Role", SYSTEM, "kubeadm:nodes-kubeadm-config"): [(["get"], [""], ["configmaps"], ["kubeadm-config"])],
    ("RoleBinding", SYSTEM, "kubeadm:nodes-kubeadm-config"): (
        "Role/kubeadm:nodes-kubeadm-config", {f"Group/{JOINING}", "Group/system:nodes"},
    ),
    ("Role", SYSTEM, "kubeadm:kubelet-config"): [(["get"], [""], ["configmaps"], ["kubelet-config"])],
    ("RoleBinding", SYSTEM, "kubeadm:kubelet-config"): (
        "Role/kubeadm:kubelet-config", {f"Group/{JOINING}", "Group/system:nodes"},
    ),
    ("Role", SYSTEM, "kubeadm:kubeadm-certs"): [(["get"], [""], ["secrets"], ["kubeadm-certs"])],
    ("RoleBinding", SYSTEM, "kubeadm:kubeadm-certs"): ("Role/kubeadm:kubeadm-certs", {f"Group/{JOINING}"}),
}  # fmt: skip


def _modes(folder: Path) -> dict[str, int]:
    found = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    return {name: stat.S_IMODE(path.stat().st_mode) for name, path in found.items()}


@pytest.fixture(scope="module")
def initialized(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A cluster after ``init``, the folder of the control plane, and what init has said."""
    folder = tmp_path_factory.mktemp("init")
    layout = control_plane_files(folder)
    with Cluster(https=True, real_time=True, controllers=("*",)) as cluster:
        client = cluster.client()

        async def connect(_path: Path) -> Client:
            return client

        async def work() -> Initialized:
            options = InitOptions(settings(), layout, upload_certs=True, rootfs=folder)
            return await init(options, connect, SystemClock(), _Silent())

        yield cluster, folder, cluster.run(work())


class _Silent:
    def step(self, done: str, detail: str = "") -> None: ...

    def waiting(self, text: str) -> None: ...

    def warning(self, text: str) -> None: ...


def test_the_files_of_a_control_plane(tmp_path: Path) -> None:
    control_plane_files(tmp_path)
    assert _modes(tmp_path) == CONTROL_PLANE


def test_the_files_of_a_worker(tmp_path: Path) -> None:
    with Cluster(https=True, real_time=True, controllers=("*",)) as cluster:
        cluster.run(upload_config.upload(cluster.client(), settings()))
        node = join_node_aside(cluster, tmp_path)
    modes = {name: mode for name, mode in _modes(tmp_path).items() if not OURS.fullmatch(name)}
    assert len(modes) == len(WORKER)
    for pattern, mode in WORKER.items():
        assert [found for name, found in modes.items() if re.fullmatch(pattern, name)] == [mode], pattern
    assert node.current.is_symlink()
    config = kubeconfig.load(node.kubelet_conf.read_bytes())
    assert list(config.clusters) == ["default-cluster"] and list(config.users) == ["default-auth"]
    assert config.current_context == "default-context"
    assert config.contexts["default-context"] == kubeconfig.Context(
        cluster="default-cluster", user="default-auth", namespace="default"
    )
    user = config.users["default-auth"]
    assert user.client_certificate == user.client_key and user.client_key.endswith("kubelet-client-current.pem")
    assert node.leaf.subject.common_name == f"system:node:{NAME}"
    blocks = re.findall(rb"-----BEGIN ([A-Z ]+)-----", node.current.read_bytes())
    assert blocks == [b"CERTIFICATE", b"EC PRIVATE KEY"]
    flags = (tmp_path / "var/lib/kubelet/kubeadm-flags.env").read_text()
    assert re.fullmatch(r'KUBELET_KUBEADM_ARGS=".*"\n', flags)


def _listed(cluster: Cluster) -> dict[tuple[str, str, str], Any]:
    kinds = (catalog.CLUSTER_ROLES, catalog.CLUSTER_ROLE_BINDINGS, catalog.ROLES, catalog.ROLE_BINDINGS)
    found = {}
    for kind in kinds:
        for obj in cluster.list(kind):
            meta = obj.metadata
            if not meta.name.startswith("kubeadm:"):
                continue
            tree = yaml.safe_load(json_codec.encode(obj))
            if "rules" in tree:
                held: Any = [
                    (rule["verbs"], rule["apiGroups"], rule["resources"], rule.get("resourceNames", []))
                    for rule in tree["rules"]
                ]
            else:
                role = tree["roleRef"]
                subjects = {f"{each['kind']}/{each['name']}" for each in tree["subjects"]}
                held = (f"{role['kind']}/{role['name']}", subjects)
            found[kind.kind, meta.namespace, meta.name] = held
    return found


def test_rights(initialized: Any) -> None:
    assert _listed(initialized[0]) == RBAC


def test_the_token_and_its_secret(initialized: Any) -> None:
    cluster, _, made = initialized
    token_id, secret = made.tokens[0].token.text.split(".")
    found = cluster.get(catalog.SECRETS, f"bootstrap-token-{token_id}", SYSTEM)
    assert found.type == "bootstrap.kubernetes.io/token"
    data = {key: value.decode() for key, value in found.data.items()}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", data.pop("expiration"))
    assert data == {
        "token-id": token_id, "token-secret": secret, "usage-bootstrap-signing": "true",
        "usage-bootstrap-authentication": "true", "auth-extra-groups": JOINING,
    }  # fmt: skip


def test_uploaded_certificates(initialized: Any) -> None:
    cluster, _, made = initialized
    assert re.fullmatch("[0-9a-f]{64}", made.certificate_key)
    found = cluster.get(catalog.SECRETS, "kubeadm-certs", SYSTEM)
    assert found.type == "Opaque"
    pairs = {f"{name}.{kind}" for name in ("ca", "front-proxy-ca", "etcd-ca") for kind in ("crt", "key")}
    assert set(found.data) == pairs | {"sa.pub", "sa.key"}
    (owner,) = found.metadata.owner_references
    assert owner.controller and owner.block_owner_deletion and owner.kind == "Secret"
    proxy = {key: value.decode() for key, value in cluster.get(catalog.SECRETS, owner.name, SYSTEM).data.items()}
    assert proxy.pop("expiration") and proxy.pop("token-id") and proxy.pop("token-secret")
    assert proxy == {"description": "Proxy for managing TTL for the kubeadm-certs secret"}


def test_config_maps(initialized: Any) -> None:
    cluster, folder, _ = initialized
    info = cluster.get(catalog.CONFIG_MAPS, "cluster-info", PUBLIC).data
    published = yaml.safe_load(info["kubeconfig"])
    bundle = base64.b64encode((folder / "pki/ca.crt").read_bytes()).decode()
    (only,) = published["clusters"]
    # kubeadm's own, and which cluster it is.
    (extension,) = only["cluster"].pop("extensions")
    identity = cluster.get(catalog.NAMESPACES, SYSTEM).metadata.uid
    assert (extension["name"], extension["extension"]) == ("kubevouch.io/cluster", {"id": identity})
    assert only == {
        "cluster": {"certificate-authority-data": bundle, "server": "https://127.0.0.1:6443"}, "name": "",
    }  # fmt: skip
    assert not published.get("users") and not published.get("contexts") and not published.get("current-context")

    (key,) = (config := cluster.get(catalog.CONFIG_MAPS, "kubeadm-config", SYSTEM).data)
    assert key == "ClusterConfiguration"
    tree = yaml.safe_load(config[key])
    assert (tree["apiVersion"], tree["kind"]) == ("kubeadm.k8s.io/v1beta4", "ClusterConfiguration")
    wanted = {
        "certificatesDir": "/etc/kubernetes/pki", "clusterName": "kubernetes", "imageRepository": "registry.k8s.io",
        "kubernetesVersion": "v1.36.2", "certificateValidityPeriod": "8760h0m0s",
        "caCertificateValidityPeriod": "87600h0m0s", "etcd": {"local": {"dataDir": "/var/lib/etcd"}},
        "networking": {"dnsDomain": "cluster.local", "serviceSubnet": "10.96.0.0/12"},
    }  # fmt: skip
    assert {name: tree[name] for name in wanted} == wanted

    (key,) = (config := cluster.get(catalog.CONFIG_MAPS, "kubelet-config", SYSTEM).data)
    assert key == "kubelet"
    assert yaml.safe_load(config[key]) == {
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False}, "webhook": {"enabled": True},
            "x509": {"clientCAFile": "/etc/kubernetes/pki/ca.crt"},
        },
        "authorization": {"mode": "Webhook"}, "cgroupDriver": "systemd", "clusterDNS": ["10.96.0.10"],
        "clusterDomain": "cluster.local", "healthzBindAddress": "127.0.0.1", "healthzPort": 10248,
        "rotateCertificates": True, "staticPodPath": "/etc/kubernetes/manifests",
    }  # fmt: skip
