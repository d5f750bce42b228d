"""S14: a body that is compressed, or in parts, is refused by its head alone: nothing of it is waited for or opened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kubevouch.testing import Cluster
from wire import Wire

MAPS = "/api/v1/namespaces/default/configmaps"
PATCHES = "application/merge-patch+json"
REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
MULTIPART = "multipart/form-data; boundary=x"
ENCODINGS = ("gzip", "deflate", "br", "zstd", "x-gzip", "gzip, identity", "identity, gzip", "GZip")
WRITES = [
    ("POST", MAPS, "application/json"),
    ("PUT", f"{MAPS}/there", "application/json"),
    ("PATCH", f"{MAPS}/there", PATCHES),
    ("DELETE", f"{MAPS}/there", "application/json"),
    ("DELETE", MAPS, "application/json"),
    ("POST", REVIEWS, "application/json"),
]


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    folder: Path = tmp_path_factory.mktemp("bodies")
    with Cluster(https=True) as cluster:
        cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "there"}})
        yield Wire.of_kubeconfig(cluster.kubeconfig, folder)
        assert cluster.get("configmaps", "there").metadata.name == "there"


def answer_to_head(wire: Wire, method: str, path: str, *fields: str, body: str = "Content-Length: 3000000") -> bytes:
    """What is answered to a head whose body never comes, and that this ends the connection."""
    return wire.raw("\r\n".join([f"{method} {path} HTTP/1.1", "Host: here", *fields, body, "", ""]).encode())


@pytest.mark.parametrize(("method", "path", "media"), WRITES)
@pytest.mark.parametrize("body", ["Content-Length: 3000000", "Transfer-Encoding: chunked"])
def test_s14_parts(admin: Wire, method: str, path: str, media: str, body: str) -> None:
    answer = answer_to_head(admin, method, path, f"Content-Type: {MULTIPART}", body=body)
    assert answer.startswith(b"HTTP/1.1 415 ")
    assert answer.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize(("method", "path", "media"), WRITES)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_s14_compressed(admin: Wire, method: str, path: str, media: str, encoding: str) -> None:
    answer = answer_to_head(admin, method, path, f"Content-Type: {media}", f"Content-Encoding: {encoding}")
    assert answer.startswith(b"HTTP/1.1 415 ")
    assert b"the body of the request is compressed" in answer


def test_s14_two_encodings_are_not_one(admin: Wire) -> None:
    fields = ("Content-Type: application/json", "Content-Encoding: identity", "Content-Encoding: gzip")
    assert answer_to_head(admin, "POST", MAPS, *fields).startswith((b"HTTP/1.1 415 ", b"HTTP/1.0 400 "))


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_s14_what_reads_no_body_answers_without_it_and_hangs_up(admin: Wire, method: str) -> None:
    answer = answer_to_head(admin, method, "/version", "Content-Encoding: gzip", f"Content-Type: {MULTIPART}")
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("size", [3145729, 10**17])
def test_s14_a_length_over_the_limit_is_refused_before_the_body(admin: Wire, size: int) -> None:
    answer = answer_to_head(admin, "POST", MAPS, "Content-Type: application/json", body=f"Content-Length: {size}")
    assert answer.startswith(b"HTTP/1.1 413 ")
