"""The headers of every class of answer: none that kube-apiserver does not send, and those that it does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubevouch.testing import Cluster
from wire import Reply, Wire

NODES = "/api/v1/nodes"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
PROTOBUF = "application/vnd.kubernetes.protobuf"
PLAIN, HTML, NONE = "text/plain; charset=utf-8", "text/html; charset=utf-8", "none"
METRICS = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
ALWAYS = {
    "Audit-Id", "Cache-Control", "Date", "X-Kubernetes-Pf-Flowschema-Uid", "X-Kubernetes-Pf-Prioritylevel-Uid",
}  # fmt: skip
SNIFF = "X-Content-Type-Options"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(https=True) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def api(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Wire:
    return Wire.of_kubeconfig(cluster.kubeconfig, tmp_path_factory.mktemp("pair"))


@pytest.mark.parametrize(
    ("path", "accept", "code", "content_type", "more"),
    [
        (f"{CONFIG_MAPS}/none", "", 404, "application/json", ""),
        (NODES, "", 200, "application/json", ""),
        (NODES, PROTOBUF, 200, PROTOBUF, ""),
        (NODES, TABLE, 200, "application/json", ""),
        (f"{NODES}/n/proxy?a=b", "", 404, "application/json", ""),
        ("/api/v1/nothing", "", 404, "application/json", ""),
        ("/nothing", "", 404, PLAIN, SNIFF),
        ("/apis/nothing/v1/nodes", "", 404, PLAIN, SNIFF),
        ("/healthz", "", 200, PLAIN, SNIFF),
        ("/readyz/nothing", "", 404, PLAIN, SNIFF),
        ("/metrics", "", 200, METRICS, ""),
        ("/version", "", 200, "application/json", ""),
        ("/", "", 200, "application/json", ""),
        ("/apis", "", 200, "application/json", ""),
        ("/apis", AGGREGATED, 200, AGGREGATED, "ETag Vary"),
        ("/openapi/v3", "", 200, PLAIN, "Last-Modified"),
        ("/openapi/v3/version?hash=0", "", 301, HTML, "ETag Location Vary"),
        ("/openapi/v3/version", "text/html", 406, NONE, "Vary"),
        ("/openapi/v3/none", "", 404, NONE, "Vary"),
        ("/openapi/v2", "text/html", 406, NONE, "Vary"),
    ],
)
def test_headers(api: Wire, path: str, accept: str, code: int, content_type: str, more: str) -> None:
    reply = api.request("GET", path, Accept=accept or "*/*")
    expected = ALWAYS | {"Content-Length", *more.split()} | ({"Content-Type"} if content_type != NONE else set())
    assert (reply.code, reply.headers.get("Content-Type", NONE)) == (code, content_type)
    assert set(reply.headers) == expected


def test_headers_of_a_watch(api: Wire) -> None:
    with api.connected() as connection:
        connection.sendall(f"GET {NODES}?watch=1 HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(65536)
    names = {line.partition(":")[0] for line in head.decode().split("\r\n\r\n")[0].splitlines()[1:]}
    assert names == ALWAYS | {"Content-Type", "Transfer-Encoding"}


@pytest.mark.parametrize(("path", "accept"), [("/apis", AGGREGATED), ("/openapi/v3/version", "*/*")])
def test_what_has_not_changed_has_no_type(api: Wire, path: str, accept: str) -> None:
    known = api.request("GET", path, Accept=accept).headers["ETag"]
    reply = api.request("GET", path, Accept=accept, If_None_Match=known)
    assert (reply.code, reply.body) == (304, b"")
    assert not {"Content-Type", "Server"} & set(reply.headers)


def test_a_redirect_says_so_in_a_page(api: Wire) -> None:
    reply = api.request("GET", "/openapi/v3/version?hash=0")
    assert reply.body.decode() == f'<a href="{reply.headers["Location"]}">Moved Permanently</a>.\n\n'


def test_the_index_ends_without_a_newline(api: Wire) -> None:
    assert api.request("GET", "/").body.endswith(b"}")


def test_what_is_zipped_still_varies_with_what_is_accepted(api: Wire) -> None:
    reply = api.request("GET", "/openapi/v3/api/v1", Accept_Encoding="gzip")
    assert (reply.headers["Content-Encoding"], reply.headers["Vary"]) == ("gzip", "Accept, Accept-Encoding")


def test_only_authorization_forbids_sniffing(cluster: Cluster, api: Wire, tmp_path: Path) -> None:
    anonymous = Wire.of_kubeconfig(cluster.kubeconfig, tmp_path, anonymous=True)
    assert anonymous.request("GET", NODES).headers[SNIFF] == "nosniff"
    refused = api.json("DELETE", "/api/v1/namespaces/default")
    assert refused.code == 403 and SNIFF not in refused.headers


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GARBAGE\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"POST /api/v1/nodes HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\nzz\r\n",
        b"GET / HTTP/1.0\r\n\r\n",
    ],
)
def test_nobody_is_told_what_serves(api: Wire, request_bytes: bytes) -> None:
    head = api.raw(request_bytes).partition(b"\r\n\r\n")[0].lower()
    assert head.startswith(b"http/1.")
    assert b"server:" not in head and b"aiohttp" not in head


def test_too_large_a_body(api: Wire) -> None:
    reply: Reply = api.request("POST", CONFIG_MAPS, json.dumps({"data": {"a": "b" * (3 << 20)}}).encode())
    assert reply.code == 413 and "Server" not in reply.headers
