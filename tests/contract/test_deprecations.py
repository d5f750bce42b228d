"""Every kind, version and field whose use Kubernetes 1.36 warns of, among those that are served."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kubevouch.testing import Cluster
from wire import Wire

ENDPOINTS = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
REQUEST = (
    "certificates.k8s.io/v1beta1 CertificateSigningRequest is deprecated in v1.19+, unavailable in v1.22+; "
    "use certificates.k8s.io/v1 CertificateSigningRequest"
)
BETA = "/apis/certificates.k8s.io/v1beta1"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
MERGE = "application/merge-patch+json"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    beta = "certificates.k8s.io/v1beta1=true"
    with Cluster(https=True, runtime_config=beta) as cluster:
        yield Wire.of_kubeconfig(cluster.kubeconfig, tmp_path_factory.mktemp("pair"))


def warned(reply: Any) -> str:
    return str(reply.headers.get("Warning", "")).removeprefix("299 - ").strip('"').replace('\\"', '"')


@pytest.mark.parametrize(
    ("method", "path", "warning"),
    [
        ("GET", "/api/v1/endpoints", ENDPOINTS),
        ("GET", "/api/v1/namespaces/default/endpoints/kubernetes", ENDPOINTS),
        ("GET", "/api/v1/namespaces/default/endpoints/none", ENDPOINTS),
        ("DELETE", "/api/v1/namespaces/default/endpoints/kubernetes", ""),
        ("GET", f"{BETA}/clustertrustbundles", ""),
        ("DELETE", f"{BETA}/clustertrustbundles", ""),
        ("GET", f"{BETA}/certificatesigningrequests", REQUEST),
        ("GET", f"{BETA}/certificatesigningrequests/none/status", REQUEST),
        ("GET", "/apis/certificates.k8s.io/v1/certificatesigningrequests", ""),
        ("GET", "/apis/discovery.k8s.io/v1/endpointslices", ""),
        ("GET", "/api/v1/services", ""),
        ("GET", "/api/v1", ""),
    ],
)
def test_a_kind(api: Wire, method: str, path: str, warning: str) -> None:
    assert warned(api.request(method, path)) == warning


def test_a_watch(api: Wire) -> None:
    with api.connected() as connection:
        connection.sendall(b"GET /api/v1/endpoints?watch=1 HTTP/1.1\r\nHost: a\r\n\r\n")
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(65536)
    assert f'Warning: 299 - "{ENDPOINTS}"'.encode() in head


def test_an_annotation_is_warned_of_once(api: Wire) -> None:
    key = "kubernetes.io/enforce-mountable-secrets"
    why = f"metadata.annotations[{key}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted"
    account = {"metadata": {"name": "a", "annotations": {key: "true"}}}
    assert warned(api.json("POST", ACCOUNTS, account)) == f"{why} secrets"
    again = {"metadata": {"labels": {"a": "b"}}}
    assert warned(api.json("PATCH", f"{ACCOUNTS}/a", again, Content_Type=MERGE)) == ""
    api.json("POST", ACCOUNTS, {"metadata": {"name": "b"}})
    newly = {"metadata": {"annotations": {key: "false"}}}
    assert warned(api.json("PATCH", f"{ACCOUNTS}/b", newly, Content_Type=MERGE)) == f"{why} secrets"


@pytest.mark.parametrize(
    ("label", "since", "instead"),
    [
        ("beta.kubernetes.io/arch", "1.14", "kubernetes.io/arch"),
        ("beta.kubernetes.io/os", "1.14", "kubernetes.io/os"),
        ("failure-domain.beta.kubernetes.io/region", "1.17", "topology.kubernetes.io/region"),
        ("failure-domain.beta.kubernetes.io/zone", "1.17", "topology.kubernetes.io/zone"),
        ("beta.kubernetes.io/instance-type", "1.17", "node.kubernetes.io/instance-type"),
        ("kubernetes.io/os", "", ""),
    ],
)
def test_labels_that_a_runtime_class_selects_nodes_by(api: Wire, label: str, since: str, instead: str) -> None:
    name = label.replace("/", "-").replace(".", "-")
    tree = {"metadata": {"name": name}, "handler": "a", "scheduling": {"nodeSelector": {label: "x"}}}
    expected = f'scheduling.nodeSelector: deprecated since v{since}; use "{instead}" instead' if since else ""
    assert warned(api.json("POST", CLASSES, tree)) == expected
    patch = {"metadata": {"labels": {"a": "b"}}}
    assert warned(api.json("PATCH", f"{CLASSES}/{name}", patch, Content_Type=MERGE)) == expected


def test_an_external_id_of_a_node(api: Wire) -> None:
    why = "spec.externalID: this field is deprecated, and is unused by Kubernetes"
    assert warned(api.json("POST", "/api/v1/nodes", {"metadata": {"name": "n"}, "spec": {"externalID": "x"}})) == why
    patch = {"metadata": {"labels": {"a": "b"}}}
    assert warned(api.json("PATCH", "/api/v1/nodes/n", patch, Content_Type=MERGE)) == why
    assert warned(api.json("PATCH", "/api/v1/nodes/n/status", patch, Content_Type=MERGE)) == ""
