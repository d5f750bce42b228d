"""S22: what is known as a value and not supported, or not known at all, ends before anything is changed or issued."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import identity_world as world
from kubevouch.pki import policy
from kubevouch.pki.errors import AuthorityError
from kubevouch.pki.x509 import x509_request
from kubevouch.policy import node_names
from kubevouch.testing.cluster import ADMIN, Cluster
from wire import CSRS, Wire

SUBRESOURCES = ("approve", "Approval", "sign", "issue", "finalize", "finalizers", "scale", "certificate", "nodeclient",
                "selfnodeclient", "approval/status", "status/approval", "..", "%2e%2e", "")  # fmt: skip
PATCHES = ("application/json", "application/scim+json", "text/plain", "application/merge-patch", "multipart/form-data")
SIGNERS = (
    "kubernetes.io/kube-apiserver-client-kubelet2", "kubernetes.io/kubelet-client",
    "kubernetes.io/kube-apiserver-serving", "kubernetes.io/kubelet-serving.x", "example.com/kubelet-serving",
    "beta.kubernetes.io/kubelet-serving", "kubernetes.io/pod", "kubernetes.io/unknown",
)  # fmt: skip


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(https=True, controllers=("csrapproving", "csrsigning")) as running:
        yield running


@pytest.fixture(scope="module")
def admin(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Wire:
    folder: Path = tmp_path_factory.mktemp("admin")
    return Wire.of_kubeconfig(cluster.kubeconfig, folder)


@pytest.fixture(scope="module")
def pending(cluster: Cluster) -> str:
    return world.ask(cluster, ADMIN, world.node_request("worker-1"), signer="example.com/nobody")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "SIGN", "APPROVE", "PROPFIND", "TRACE"])
@pytest.mark.parametrize("subresource", SUBRESOURCES)
def test_subresources_and_methods(cluster: Cluster, admin: Wire, pending: str, method: str, subresource: str) -> None:
    if subresource == "" and method in ("PUT", "PATCH", "DELETE"):
        return  # the object itself
    before = cluster.run(cluster.server.api.store.revision())
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    body = json.dumps({"status": {"conditions": [{"type": "Approved", "status": "True"}]}}).encode()
    reply = admin.request(method, f"{CSRS}/{pending}/{subresource}", body, content_type=kind)
    assert 400 <= reply.code < 500
    assert cluster.run(cluster.server.api.store.revision()) == before


@pytest.mark.parametrize("kind", PATCHES)
@pytest.mark.parametrize("subresource", ["", "/approval", "/status"])
def test_patch_types(cluster: Cluster, admin: Wire, pending: str, kind: str, subresource: str) -> None:
    before = cluster.run(cluster.server.api.store.revision())
    reply = admin.request("PATCH", f"{CSRS}/{pending}{subresource}", b"{}", content_type=kind)
    assert reply.code == 415
    assert cluster.run(cluster.server.api.store.revision()) == before


@pytest.mark.parametrize("signer", SIGNERS)
def test_signers_that_there_are_not(cluster: Cluster, signer: str) -> None:
    posted = world.ask(cluster, ADMIN, world.node_request("worker-2"), signer=signer)
    assert world.outcome(cluster, posted) == "Pending"
    world.approve(cluster, posted)
    assert world.outcome(cluster, posted) == "Approved"
    with pytest.raises(AuthorityError, match="unrecognized signerName"):
        policy.verify_shape(signer, x509_request.parse_pem(world.node_request("worker-2")), world.CLIENT_USAGES)


def test_every_verdict_about_a_name_has_its_consequence() -> None:
    """A verdict that is neither of these would be an approval: there is no third."""
    assert {each.value for each in node_names.Decision} == {"admit", "wait", "deny"}
