"""A stolen certificate: revoked, it opens nothing any more, whichever way it is shown and however long ago."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import identity_world as world
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REVOCATIONS
from kubevouch.machinery.errors import APIStatusError
from kubevouch.phases.certificates.certs import load_authority, pair_at
from kubevouch.pki import keys
from kubevouch.pki.authority import LeafSpec, issue_leaf
from kubevouch.pki.control_plane import FRONT_PROXY_CA
from kubevouch.server.bootstrap import own_kinds
from kubevouch.testing.cluster import Cluster
from stolen_certificate import Thief, manifest, serial_of
from wire import Wire

CONTROLLERS = ("csrapproving", "csrsigning")
REVOCATIONS = "/apis/kubevouch.io/v1alpha1/certificaterevocations"
OWN_NODE = "/api/v1/nodes/worker-1"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(https=True, controllers=CONTROLLERS) as running:
        running.run(own_kinds.ensure(running.server.client))
        yield running


def patch(cluster: Cluster, folder: Path, path: str, change: dict[str, Any]) -> int:
    admin = Wire.of_kubeconfig(cluster.kubeconfig, folder)
    body = json.dumps(change).encode()
    return admin.request("PATCH", path, body, "application/merge-patch+json").code


def create(cluster: Cluster, tree: dict[str, Any]) -> None:
    obj = CERTIFICATE_REVOCATIONS.codec.from_tree(tree).value
    cluster.run(cluster.server.client.create(CERTIFICATE_REVOCATIONS, obj))


def revoke(cluster: Cluster, name: str, reason: str = "keyCompromise", **revoked: Any) -> None:
    create(cluster, manifest(name, reason, **revoked))


def test_it_is_refused_at_once_and_after_a_restart(cluster: Cluster, tmp_path: Path) -> None:
    thief, other = Thief(cluster, tmp_path), Thief(cluster, tmp_path, "worker-2")
    assert (thief.looks(), other.looks()) == (404, 404)
    revoke(cluster, "stolen", serials=serial_of(cluster, thief.certificate))
    assert (thief.looks(), other.looks()) == (401, 404)
    # The kind is looked at by nobody before the first request is answered.
    cluster.restart()
    assert (thief.looks(), other.looks()) == (401, 404)


def test_on_an_open_connection_too(cluster: Cluster, tmp_path: Path) -> None:
    thief = Thief(cluster, tmp_path)
    with thief.wire.connected() as connection:
        for code in (b"404", b"401"):
            connection.sendall(f"GET {OWN_NODE} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
            assert connection.recv(65_536).startswith(b"HTTP/1.1 " + code)
            revoke(cluster, "stolen" + code.decode(), certificates=[thief.certificate.fingerprint().hex()])


def test_nothing_is_written_by_a_body_that_comes_after_the_revocation(cluster: Cluster, tmp_path: Path) -> None:
    """The head was sent, and answered for, while the certificate still counted."""
    thief, other = Thief(cluster, tmp_path), Thief(cluster, tmp_path, "worker-2")
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    body = json.dumps(review).encode()
    head = "POST /apis/authentication.k8s.io/v1/selfsubjectreviews HTTP/1.1\r\nHost: here\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    codes = []
    for is_revoked in (False, True):
        with thief.wire.connected() as connection:
            connection.sendall(f"GET {OWN_NODE} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
            assert connection.recv(65_536).startswith(b"HTTP/1.1 404")
            connection.sendall(head.encode() + body[:20])
            # Who is answered behind it came behind it.
            assert other.looks() == 404
            if is_revoked:
                revoke(cluster, "stolen", certificates=[thief.certificate.fingerprint().hex()])
            connection.sendall(body[20:])
            codes.append(connection.recv(65_536)[9:12])
    assert codes == [b"201", b"401"]


def test_its_watch_ends_before_anybodys_turn_comes(cluster: Cluster, tmp_path: Path) -> None:
    """The clock stands still: nothing waits for the next look at watches."""
    thief, other = Thief(cluster, tmp_path), Thief(cluster, tmp_path, "worker-2")
    path = "/api/v1/nodes?watch=1&fieldSelector=metadata.name%3D"
    with thief.wire.connected() as connection, other.wire.connected() as going_on:
        for each, name in ((connection, "worker-1"), (going_on, "worker-2")):
            each.sendall(f"GET {path}{name} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
            assert each.recv(65_536).startswith(b"HTTP/1.1 200")
        revoke(cluster, "stolen", nodes=["worker-1"])
        told = b""
        while not told.endswith(b"0\r\n\r\n"):
            some = connection.recv(65_536)
            assert some
            told += some
        going_on.settimeout(0.2)
        with pytest.raises(TimeoutError):
            going_on.recv(1)


def test_a_watch_through_a_front_proxy_ends_with_the_proxys_certificate(cluster: Cluster, tmp_path: Path) -> None:
    authority = load_authority(pair_at(cluster.pki.folder, FRONT_PROXY_CA))
    key, wanted = world.new_key(), LeafSpec(common_name="front-proxy-client", purposes=("client auth",))
    leaf = issue_leaf(authority, wanted, key, now=cluster.clock.now())
    pair = tmp_path / "proxy.pem"
    pair.write_bytes(leaf.pem() + keys.to_pem(key))
    wire = Wire(int(cluster.url.rpartition(":")[2]), cluster.pki.ca_certificate, pair)
    head = "GET /api/v1/nodes?watch=1 HTTP/1.1\r\nHost: here\r\nX-Remote-User: somebody\r\n"
    with wire.connected() as connection:
        connection.sendall(f"{head}X-Remote-Group: system:masters\r\n\r\n".encode())
        told = connection.recv(65_536)
        assert told.startswith(b"HTTP/1.1 200")
        revoke(cluster, "stolen", certificates=[leaf.fingerprint().hex()])
        while not told.endswith(b"0\r\n\r\n"):
            some = connection.recv(65_536)
            assert some
            told += some


def test_its_definition_may_go_and_it_stays_refused_until_it_is_back(cluster: Cluster, tmp_path: Path) -> None:
    """A definition that is replaced has its kind served anew: meanwhile nobody may slip in."""
    thief = Thief(cluster, tmp_path)
    revoke(cluster, "stolen", serials=serial_of(cluster, thief.certificate))
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/certificaterevocations.kubevouch.io"
    assert patch(cluster, tmp_path, path, {"spec": {"names": {"shortNames": ["other"]}}}) == 200
    assert thief.looks() == 401
    cluster.run(own_kinds.ensure(cluster.server.client))
    assert thief.looks() == 401


def test_what_is_lifted_counts_again_and_nothing_else_can_be_made_weaker(cluster: Cluster, tmp_path: Path) -> None:
    thief = Thief(cluster, tmp_path)
    revoke(cluster, "held", "certificateHold", serials=serial_of(cluster, thief.certificate))
    assert thief.looks() == 401
    cluster.delete(CERTIFICATE_REVOCATIONS, "held")
    assert thief.looks() == 404
    revoke(cluster, "held", "certificateHold", serials=serial_of(cluster, thief.certificate))
    held = f"{REVOCATIONS}/held"
    assert patch(cluster, tmp_path, held, {"spec": {"reason": "keyCompromise"}}) == 200
    for change in (
        {"reason": "certificateHold"},
        {"reason": "superseded"},
        {"revoked": {"serials": None, "nodes": ["nobody"]}},
        {"revoked": {"issuedUntil": "2020-01-01T00:00:00Z"}},
    ):
        assert patch(cluster, tmp_path, held, {"spec": change}) == 422
    assert thief.looks() == 401
    # Nor by deleting it, before it has ended.
    admin = Wire.of_kubeconfig(cluster.kubeconfig, tmp_path)
    told = admin.request("DELETE", held)
    assert told.code == 403 and "only certificateHold, or what has ended, is deleted" in told.told[2]
    assert admin.request("DELETE", REVOCATIONS).code == 403 and thief.looks() == 401


def test_who_has_revoked_is_who_has_asked(cluster: Cluster, tmp_path: Path) -> None:
    admin = Wire.of_kubeconfig(cluster.kubeconfig, tmp_path)
    tree = manifest("r1", users=["nobody"])
    tree["spec"]["requestedBy"] = "somebody else"
    made = admin.json("POST", REVOCATIONS, tree)
    assert made.code == 201 and json.loads(made.body)["spec"]["requestedBy"] == "kubernetes-super-admin"
    # Nor in two steps: without the field first.
    for other in ("me", None, ""):
        assert patch(cluster, tmp_path, f"{REVOCATIONS}/r1", {"spec": {"requestedBy": other}}) == 422
    assert patch(cluster, tmp_path, f"{REVOCATIONS}/r1", {"spec": {"message": "why"}}) == 200


@pytest.mark.parametrize(("moment", "code"), [("0001-01-01", 422), ("1969-12-31", 422), ("1970-01-01", 201)])
def test_nothing_was_revoked_before_there_were_crls(cluster: Cluster, tmp_path: Path, moment: str, code: int) -> None:
    tree = manifest("r1", users=["nobody"])
    tree["spec"]["revokedAt"] = f"{moment}T00:00:00Z"
    assert Wire.of_kubeconfig(cluster.kubeconfig, tmp_path).json("POST", REVOCATIONS, tree).code == code


@pytest.mark.parametrize(
    ("revoked", "said"),
    [
        ({}, "must name something"),
        ({"serials": [{"issuer": "ab", "numbers": ["-1"]}]}, "should match"),
        ({"serials": [{"issuer": "ab", "numbers": ["07"]}]}, "should match"),
        ({"serials": [{"issuer": "ab", "numbers": ["1" * 41]}]}, "Too long|should match"),
        ({"serials": [{"issuer": "abc", "numbers": ["1"]}]}, "should match"),
        ({"serials": [{"issuer": "ab", "numbers": [f"1{n:x}" for n in range(4_001)]}]}, "must have at most 4000"),
        ({"keys": ["A" * 64]}, "should match"),
        ({"nodes": ["Worker"]}, "should match"),
        ({"users": [""]}, "at least 1 chars|should be at least"),
        ({"tokens": ["abcdef.0123456789abcdef"]}, "Too long|should match"),
    ],
)
def test_what_makes_no_sense_is_refused(cluster: Cluster, revoked: dict[str, Any], said: str) -> None:
    with pytest.raises(APIStatusError, match=said):
        create(cluster, manifest("bad", **revoked))


def test_more_than_an_object_holds_is_refused_with_a_sentence(cluster: Cluster, tmp_path: Path) -> None:
    issuers = [{"issuer": f"{n:04x}", "numbers": [f"{x:x}" for x in range(4_000)]} for n in range(16)]
    admin = Wire.of_kubeconfig(cluster.kubeconfig, tmp_path)
    refused = admin.json("POST", REVOCATIONS, manifest("huge", serials=issuers))
    assert refused.code == 413 and "items of lists" in refused.told[2]


def test_tokens_of_a_revoked_node_end_with_its_certificates(cluster: Cluster, tmp_path: Path) -> None:
    """A node makes tokens for what runs on it: they would outlive it (measured: they do in Kubernetes)."""
    thief = Thief(cluster, tmp_path)
    cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker-1"}})
    cluster.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "app", "namespace": "default"}})
    uid = cluster.get("Node", "worker-1").metadata.uid
    account = "/api/v1/namespaces/default/serviceaccounts/app/token"
    bound = {"kind": "Node", "apiVersion": "v1", "name": "worker-1", "uid": uid}
    admin = Wire.of_kubeconfig(cluster.kubeconfig, tmp_path)
    token = json.loads(admin.json("POST", account, {"spec": {"boundObjectRef": bound}}).body)["status"]["token"]
    anybody = Wire(admin.port, cluster.pki.ca_certificate)

    def reads() -> int:
        return anybody.request("GET", "/api/v1/namespaces/default", Authorization=f"Bearer {token}").code

    assert reads() == 403
    revoke(cluster, "stolen", nodes=["worker-1"])
    assert (reads(), thief.looks()) == (401, 401)
