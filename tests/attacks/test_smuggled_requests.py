"""On one connection, nothing of one request becomes part of the next."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from kubevouch.testing import Cluster
from wire import Wire

REVIEWS = (
    b"POST /apis/authentication.k8s.io/v1/selfsubjectreviews HTTP/1.1\r\n"
    b"Host: here\r\nContent-Type: application/json\r\n"
)
REVIEW = b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'
PLAIN = REVIEWS + b"Content-Length: %d\r\n\r\n" % len(REVIEW) + REVIEW
LAST = PLAIN.replace(b"Host: here\r\n", b"Host: here\r\nConnection: close\r\n")
CHUNKED = REVIEWS + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n" % (len(REVIEW), REVIEW)


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    with Cluster(https=True) as cluster:
        yield Wire.of_kubeconfig(cluster.kubeconfig, tmp_path_factory.mktemp("smuggled"))


def who(wire: Wire, *said: bytes) -> list[str]:
    """As whom each of the requests was answered; the last one has to end the connection."""
    answers = wire.raw(*said).split(b"HTTP/1.1 201 ")[1:]
    trees = [json.loads(each.partition(b"\r\n\r\n")[2]) for each in answers]
    return [each["status"]["userInfo"]["username"] for each in trees]


@pytest.mark.parametrize("field", [b"Impersonate-User: jane", b"Host: elsewhere", b"Content-Length: 1"])
@pytest.mark.parametrize("apart", [False, True])
def test_trailers_are_no_headers_of_the_next_request(admin: Wire, field: bytes, apart: bool) -> None:
    """aiohttp's parser puts them in front of those (3.14)."""
    first = CHUNKED + field + b"\r\n\r\n"
    (me,) = who(admin, LAST)
    assert who(admin, *([first, LAST] if apart else [first + LAST])) == [me, me]


@pytest.mark.parametrize(
    "garbage",
    [b"\0", b"GET  / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\n\n", b"0\r\n\r\n"],
    ids=["nul", "spaces", "lf", "chunk"],
)
def test_a_request_is_answered_whatever_stands_behind_it(admin: Wire, garbage: bytes) -> None:
    answer = admin.raw(PLAIN + garbage)
    assert answer.startswith(b"HTTP/1.1 201 ")
    assert b"HTTP/1.0 400 Bad Request" in answer
