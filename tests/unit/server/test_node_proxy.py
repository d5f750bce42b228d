"""server/node_proxy.py: requests to a kubelet, which has to be that node's."""

from __future__ import annotations

import contextlib
import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kubevouch.api import catalog
from kubevouch.api.core_v1 import Node
from kubevouch.api.core_v1.nodes import DaemonEndpoint, NodeAddress, NodeDaemonEndpoints, NodeStatus
from kubevouch.client.tls import ClientTLS
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.phases.certificates.certs import certificate_pem
from kubevouch.pki import keys
from kubevouch.pki.authority import CertificateAuthority, LeafSpec, create_authority, issue_leaf
from kubevouch.pki.control_plane import APISERVER_KUBELET_CLIENT, alt_names_of
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.usages import SERVER_AUTH
from kubevouch.server import node_proxy
from kubevouch.server.query import Query
from kubevouch.server.request import Request
from kubevouch.server.request_info import parse
from kubevouch.testing import Cluster
from kubevouch.util.clock import SystemClock
from throwaway_ca import Pair
from wire import Wire


class _Handler(http.server.BaseHTTPRequestHandler):
    """Tells what it was asked, and by whom."""

    def answer(self) -> None:
        assert isinstance(self.connection, ssl.SSLSocket)
        shown = x509_certificate.parse_der(self.connection.getpeercert(binary_form=True) or b"")
        asked = {
            "method": self.command,
            "path": self.path,
            "user": shown.subject.common_name,
            "body": self.rfile.read(int(self.headers.get("Content-Length", 0))).decode(),
            "headers": {name.lower() for name in self.headers} - {"host", "accept-encoding", "content-length"},
        }
        body = json.dumps(asked, default=sorted).encode()
        if self.path == "/large":
            body = b"x" * (node_proxy.MAX_ANSWER + 1)
        if self.path == "/mute":
            self.server.let_go.wait(60)  # type: ignore[attr-defined]
            return
        if self.path == "/drip":  # without a length: the end of the connection is the end of the answer
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(OSError):
                while not self.server.let_go.wait(0.05):  # type: ignore[attr-defined]
                    self.wfile.write(b".")
            return
        if self.path == "/switch":
            self.send_response(101)
            self.end_headers()
            return
        self.send_response(404 if self.path == "/missing" else 200)
        self.send_header("Content-Type", "text/plain\r\n X-Folded: 1" if self.path == "/folded" else "text/odd")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815 - the standard library's names

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(https=True) as cluster:
        pair(cluster, APISERVER_KUBELET_CLIENT.spec).write(cluster.folder / "pki", APISERVER_KUBELET_CLIENT.base_name)
        yield cluster


def pair(cluster: Cluster, spec: LeafSpec, authority: CertificateAuthority | None = None) -> Pair:
    key = keys.generate(KeyAlgorithm.ECDSA_P256)
    leaf = issue_leaf(authority or cluster.pki.authority, spec, key, now=SystemClock().now())
    return Pair(certificate_pem(leaf.contents), keys.to_pem(key))


class Kubelet:
    """Serves with what ``authority`` says that it is, and is the node ``name`` at 127.0.0.1."""

    def __init__(
        self, cluster: Cluster, folder: Path, name: str, authority: CertificateAuthority | None = None, **spec: Any
    ) -> None:
        wanted: dict[str, Any] = {"common_name": f"system:node:{name}", "alt_names": alt_names_of(["127.0.0.1"])}
        leaf_spec = LeafSpec(**{"organizations": ("system:nodes",), "purposes": (SERVER_AUTH,), **wanted, **spec})
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*pair(cluster, leaf_spec, authority).write(folder, name))
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=cluster.pki.ca_certificate.decode())
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.let_go = self.server.let_go = threading.Event()  # type: ignore[attr-defined]
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.port: int = self.server.server_address[1]
        self._cluster, self._name = cluster, name
        register(cluster, name, self.port)

    def __enter__(self) -> Kubelet:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
        self._cluster.delete("Node", self._name)


def register(cluster: Cluster, name: str, port: int, address: str = "127.0.0.1") -> None:
    status = NodeStatus(
        addresses=[
            NodeAddress(type="Hostname", address="nowhere.invalid"),
            NodeAddress(type="InternalIP", address=address),
        ],
        daemon_endpoints=NodeDaemonEndpoints(kubelet_endpoint=DaemonEndpoint(port=port)),
    )
    cluster.create(Node(metadata=ObjectMeta(name=name), status=status))


@pytest.fixture
def admin(cluster: Cluster, tmp_path: Path) -> Wire:
    return Wire.of_kubeconfig(cluster.kubeconfig, tmp_path)


def path(name: str, rest: str = "/") -> str:
    return f"/api/v1/nodes/{name}/proxy{rest}"


def test_a_request_comes_to_the_kubelet_as_it_was_sent(cluster: Cluster, admin: Wire, tmp_path: Path) -> None:
    with Kubelet(cluster, tmp_path, "w1") as kubelet:
        got = admin.request("GET", path("w1", "/logs/a%20b?x=1&y="))
        assert (got.code, got.headers["Content-Type"]) == (200, "text/odd")
        told = json.loads(got.body)
        assert (told["method"], told["path"]) == ("GET", "/logs/a%20b?x=1&y=")
        assert told["user"] == "kube-apiserver-kubelet-client"
        sent = admin.request("POST", path(f"w1:{kubelet.port}", "/run"), b"hello", "text/plain")
        assert json.loads(sent.body) | {"headers": []} == {
            "method": "POST", "path": "/run", "user": "kube-apiserver-kubelet-client", "body": "hello", "headers": [],
        }  # fmt: skip
        assert admin.request("GET", path("w1", "/missing")).code == 404
        moved = admin.request("GET", path("w1", ""))
        assert (moved.code, moved.headers["Location"]) == (301, path("w1"))
        too_much = admin.request("GET", path("w1", "/large"))
        assert too_much.code == 503 and b"more than 16777216 bytes" in too_much.body


def test_what_the_caller_shows_stays_here(cluster: Cluster, admin: Wire, tmp_path: Path) -> None:
    """Its credentials are for this server, and what is impersonated is decided here."""
    with Kubelet(cluster, tmp_path, "w1"):
        told = json.loads(
            admin.request(
                "GET", path("w1"), Impersonate_User="ann", Impersonate_Group="system:masters", Cookie="c", X_A="b"
            ).body
        )
    assert set(told["headers"]) <= {"accept", "content-type", "user-agent"}


def test_a_node_that_names_the_address_of_another_is_not_believed(
    cluster: Cluster, admin: Wire, tmp_path: Path
) -> None:
    with Kubelet(cluster, tmp_path, "w1") as kubelet:
        register(cluster, "evil", kubelet.port)
        refused = admin.request("GET", path("evil"))
    assert refused.code == 503
    assert b'is for \\"system:node:w1\\", not for node evil' in refused.body


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"alt_names": alt_names_of(["192.0.2.1"])}, b"IP address mismatch"),
        ({"common_name": "w1"}, b"not for node w1"),
    ],
)
def test_a_certificate_for_something_else(
    cluster: Cluster, admin: Wire, tmp_path: Path, spec: dict[str, Any], why: bytes
) -> None:
    with Kubelet(cluster, tmp_path, "w1", **spec):
        refused = admin.request("GET", path("w1"))
    assert refused.code == 503 and why in refused.body


def test_a_certificate_of_another_authority(cluster: Cluster, admin: Wire, tmp_path: Path) -> None:
    other = create_authority("kubernetes", keys.generate(KeyAlgorithm.ECDSA_P256), now=SystemClock().now())
    with Kubelet(cluster, tmp_path, "w1", other):
        refused = admin.request("GET", path("w1"))
    assert refused.code == 503 and b"error trying to reach service: " in refused.body


def test_what_is_not_there(cluster: Cluster, admin: Wire, tmp_path: Path) -> None:
    assert admin.request("GET", path("nobody")).code == 404
    with Kubelet(cluster, tmp_path, "w1") as kubelet:
        port = kubelet.port
        elsewhere = admin.request("GET", path("w1:22"))
        assert elsewhere.code == 400 and b"only the kubelet's port" in elsewhere.body
    register(cluster, "gone", port)
    gone = admin.request("GET", path("gone"))
    assert gone.code == 503 and b"error trying to reach service: " in gone.body
    cluster.create(Node(metadata=ObjectMeta(name="bare")))
    assert b"no preferred addresses found" in admin.request("GET", path("bare")).body


def test_only_who_may(cluster: Cluster, tmp_path: Path) -> None:
    """Also not for another method or a longer path than the right is for."""
    register(cluster, "w9", 1)
    rules = [{"apiGroups": [""], "resources": ["nodes", "nodes/status"], "verbs": ["*"]}]
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "n"}
    user = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}
    cluster.apply({**rbac, "kind": "ClusterRole", "metadata": {"name": "n"}, "rules": rules})
    cluster.apply(
        {**rbac, "kind": "ClusterRoleBinding", "metadata": {"name": "n"}, "roleRef": role, "subjects": [user]}
    )
    config = tmp_path / "ann.conf"
    config.write_text(cluster.kubeconfig_for("ann"))
    ann = Wire.of_kubeconfig(config, tmp_path)
    for method in ("GET", "POST", "DELETE"):
        for rest in ("", "/", "/run/a/b/c"):
            assert ann.request(method, path("w9", rest)).code == 403


def test_kubelets_that_do_not_answer_hold_nothing_but_their_callers(
    cluster: Cluster, admin: Wire, tmp_path: Path
) -> None:
    """Large objects and answers are worked on in the loop's threads: with those taken, everybody would wait."""
    with Kubelet(cluster, tmp_path, "mute") as kubelet, ThreadPoolExecutor(20) as callers:
        asked = [callers.submit(admin.request, "GET", path("mute", "/mute")) for _ in range(20)]
        large = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "large"}, "data": {"a": "x" * 40_000}}
        assert admin.json("POST", "/api/v1/namespaces/default/configmaps", large).code == 201
        assert admin.request("GET", "/api/v1/namespaces/default/configmaps/large").code == 200
        assert not all(each.done() for each in asked)
        kubelet.let_go.set()
        assert {each.result().code for each in asked} == {503}


async def _impatient(cluster: Cluster, name: str, rest: str) -> None:
    """Asks through a proxy that waits for half a second."""
    node = cluster.client().get

    async def node_named(wanted: str) -> Node:
        return await node(catalog.NODES, wanted)

    def credential() -> ClientTLS:
        mine = pair(cluster, APISERVER_KUBELET_CLIENT.spec)
        return ClientTLS(cluster.pki.ca_certificate, mine.certificate, mine.key)

    asked, where = Query(""), path(name, rest)
    request = Request("GET", where, asked, {}, SystemClock().now(), info=parse("GET", where, asked))
    await node_proxy.NodeProxy(node_named, credential, seconds=0.5).serve(request)


def test_a_kubelet_that_takes_too_long_is_cut_off(cluster: Cluster, tmp_path: Path) -> None:
    with (
        Kubelet(cluster, tmp_path, "late"),
        pytest.raises(APIStatusError, match=r"takes more than 0\.5 s to answer") as late,
    ):
        cluster.run(_impatient(cluster, "late", "/mute"))
    assert late.value.code == 503


def test_the_end_of_an_answer_is_not_the_kubelets_to_choose(cluster: Cluster, tmp_path: Path) -> None:
    """An answer that ends with its connection has taken the socket over; the thread that reads it ends all the same."""
    with Kubelet(cluster, tmp_path, "drip"):
        with pytest.raises(APIStatusError, match=r"takes more than 0\.5 s to answer"):
            cluster.run(_impatient(cluster, "drip", "/drip"))
        for thread in threading.enumerate():
            if thread.name == "node-proxy":
                thread.join(20.0)
                assert not thread.is_alive()


def test_answers_that_would_break_ours(cluster: Cluster, admin: Wire, tmp_path: Path) -> None:
    with Kubelet(cluster, tmp_path, "odd"):
        assert admin.request("GET", path("odd", "/switch")).code == 503
        folded = admin.request("GET", path("odd", "/folded"))
        assert (folded.code, folded.headers["Content-Type"]) == (200, "application/octet-stream")
