"""Requests that no client would send: each gets its answer, and the next request does not notice."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from processes import Up
from wire import Wire

MAPS = "/api/v1/namespaces/default/configmaps"
PROTOBUF = "application/vnd.kubernetes.protobuf"
TYPES = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
UNKNOWN_FORMAT = f"the body of the request was in an unknown format - accepted media types include: {TYPES}"
UNRECOGNIZED = "the object provided is unrecognized (must be of type ConfigMap): "
NOT_HANDLED = 'ConfigMap in version "v1" cannot be handled as a ConfigMap: '
ALIASES = "\n".join(
    [
        "a: &a [x,x,x,x,x,x,x,x,x]",
        *(f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]" for a, b in zip("abcdefg", "bcdefgh", strict=True)),
    ]
)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with Up(tmp_path_factory.mktemp("wire")) as running:
        yield running
        # Whatever was thrown at it, nothing of it was an error to the server.
        assert running.stderr == ""


@pytest.fixture
def admin(up: Up, tmp_path: Path) -> Iterator[Wire]:
    wire = Wire.of_kubeconfig(up.folder / "cluster/admin.conf", tmp_path)
    yield wire
    assert wire.request("GET", "/readyz").body == b"ok"
    assert b'"items":[{' in wire.request("GET", MAPS).body


def config_map(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bad"}} | fields


def deep(levels: int) -> bytes:
    return b'{"apiVersion":"v1","kind":"ConfigMap","data":' + b'{"a":' * levels + b"1" + b"}" * levels + b"}"


# ------------------------------------------------------------------ bodies


@pytest.mark.parametrize(
    ("body", "content_type", "message"),
    [
        (b"", "application/json", "couldn't get version/kind; json parse error: unexpected end of JSON input"),
        (b"hello", "application/json", "couldn't get version/kind; json parse error: invalid character 'h' looking"),
        (b"[" * 15_000, "application/json", "couldn't get version/kind; json parse error: exceeded max depth"),
        (deep(15_000), "application/json", "couldn't get version/kind; json parse error: exceeded max depth"),
        (b"[" * 100_000, "application/yaml", "couldn't get version/kind; json parse error: error converting YAML to"),
        (ALIASES.encode(), "application/yaml", "couldn't get version/kind; json parse error: error converting YAML to"),
        (b"\x00\x01\x02garbage", PROTOBUF, "provided data does not appear to be a protobuf message, expected prefix"),
        (b"k8s\x00", PROTOBUF, "empty body"),
        (b"k8s\x00" + b"\xff" * 100, PROTOBUF, ""),
    ],
    ids=["empty", "text", "array", "deep", "yaml", "aliases", "no-envelope", "empty-envelope", "broken-envelope"],
)  # fmt: skip
def test_a_body_that_is_no_object(admin: Wire, body: bytes, content_type: str, message: str) -> None:
    code, reason, text = admin.request("POST", MAPS, body, content_type).told
    assert (code, reason) == (400, "BadRequest")
    assert text.startswith(UNRECOGNIZED + message)


@pytest.mark.parametrize(
    ("query", "body", "message"),
    [
        ("", deep(100), "json: cannot unmarshal object into Go struct field ConfigMap.data of type string"),
        ("", json.dumps(config_map(data=[])).encode(), "json: cannot unmarshal array into Go struct field"),
        (
            "?fieldValidation=Strict",
            json.dumps(config_map(bogus=1)).encode(),
            'strict decoding error: unknown field "bogus"',
        ),
        (
            "?fieldValidation=Strict",
            b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"bad"},"data":{"a":"1","a":"2"}}',
            'strict decoding error: duplicate field "data.a"',
        ),
    ],
)
def test_an_object_that_does_not_fit(admin: Wire, query: str, body: bytes, message: str) -> None:
    code, reason, text = admin.request("POST", MAPS + query, body).told
    assert (code, reason) == (400, "BadRequest")
    assert text.startswith(NOT_HANDLED + message)


def test_a_protobuf_message_that_breaks_off(admin: Wire) -> None:
    envelope = b"k8s\x00\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x05\xff\xff\xff\xff\xff"
    code, reason, text = admin.request("POST", MAPS, envelope, PROTOBUF).told
    assert (code, reason) == (400, "BadRequest")
    assert text.startswith(NOT_HANDLED)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_of_4_mib(admin: Wire, chunked: bool) -> None:
    body = json.dumps(config_map(data={"a": "x" * (4 << 20)})).encode()
    sent: Any = iter([body]) if chunked else body  # an iterator is sent without a length
    assert admin.request("POST", MAPS, sent).told == (
        413,
        "RequestEntityTooLarge",
        "Request entity too large: limit is 3145728",
    )


@pytest.mark.parametrize("content_type", ["text/plain", "multipart/form-data; boundary=x", "application/", "json"])
def test_a_body_of_another_type(admin: Wire, content_type: str) -> None:
    told = admin.request("POST", MAPS, b"--x\r\n\r\n{}\r\n--x--\r\n", content_type).told
    assert told == (415, "UnsupportedMediaType", UNKNOWN_FORMAT)


def test_a_compressed_body(admin: Wire) -> None:
    body = gzip.compress(json.dumps(config_map()).encode())
    code, reason, text = admin.request("POST", MAPS, body, Content_Encoding="gzip").told
    assert (code, reason) == (415, "UnsupportedMediaType")
    assert text == "the body of the request is compressed (gzip); send it uncompressed"


def test_header_bytes_that_are_no_text(admin: Wire) -> None:
    """What is not UTF-8 is shown as U+FFFD, also where it is stored or sent back."""
    with admin.connected() as connection:
        review = b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'
        connection.sendall(
            b"POST /apis/authentication.k8s.io/v1/selfsubjectreviews HTTP/1.1\r\nHost: here\r\nConnection: close\r\n"
            b"Content-Type: application/json\r\nImpersonate-User: a\xffb\r\nContent-Length: %d\r\n\r\n"
            % len(review)
            + review
        )
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 201 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["status"]["userInfo"]["username"] == "a\ufffdb"


def test_no_representation_is_accepted(admin: Wire) -> None:
    code, reason, text = admin.request("GET", MAPS, Accept="image/png").told
    assert (code, reason) == (406, "NotAcceptable")
    assert "Available representations: application/json" in text


# ------------------------------------------------------------------ methods and paths


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "CONNECT", "PUT"])
def test_a_method_that_a_collection_does_not_know(admin: Wire, method: str) -> None:
    assert admin.request(method, MAPS).told == (
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
    )


def test_head(admin: Wire) -> None:
    assert admin.request("HEAD", "/version").code == 200
    assert admin.request("HEAD", MAPS).code == 405


def test_no_tunnel(admin: Wire) -> None:
    answer = admin.raw(b"CONNECT elsewhere:443 HTTP/1.1\r\nHost: elsewhere\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 405 ")


@pytest.mark.parametrize("name", ["..%2f..%2fversion", "%00", "%ff", "%zz", "a" * 5000])
def test_names_that_nothing_has(admin: Wire, name: str) -> None:
    code, reason, _ = admin.request("GET", f"{MAPS}/{name}").told
    assert (code, reason) == (404, "NotFound")


# ------------------------------------------------------------------ broken HTTP

POST = b"POST " + MAPS.encode() + b" HTTP/1.1\r\nHost: here\r\n"
GET = b"GET /version HTTP/1.1\r\nHost: here\r\n"
TOO_LARGE = b"431 Request Header Fields Too Large"


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (b"hello\r\n\r\n", b"400 Bad Request"),
        (b"\x00\xff\x01\r\n\r\n", b"400 Bad Request"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"505 HTTP Version Not Supported: "),
        (b"GET /version HTTP/1.1\r\n\r\n", b"400 Bad Request: Missing 'Host' header"),
        (GET + b"X-A: " + b"a" * 2_000_000 + b"\r\n\r\n", TOO_LARGE),
        (GET + b"".join(b"X-%d: %s\r\n" % (i, b"a" * 1000) for i in range(5000)) + b"\r\n", TOO_LARGE),
        (b"GET /version?" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: here\r\n\r\n", TOO_LARGE),
        (GET.replace(b"/version", b"/\xff\xfe") + b"\r\n", b"400 Bad Request"),
        (POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", b"400 Bad Request"),
        (POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"400 Bad Request"),
        (POST + b"Content-Length: -2\r\n\r\n{}", b"400 Bad Request"),
    ],
    ids=[
        "text", "binary", "http2", "no-host", "huge-header", "many-headers", "huge-line", "path-bytes", "two-lengths",
        "length-and-chunks", "negative-length",
    ],
)  # fmt: skip
def test_broken_http_ends_the_connection_with_one_line(admin: Wire, said: bytes, answer: bytes) -> None:
    head, _, body = admin.raw(said).partition(b"\r\n\r\n")
    assert head.partition(b" ")[2].startswith(answer[:3])
    assert body.startswith(answer)
    assert len(body) < 120
    assert b"\n" not in body


def test_a_body_in_broken_chunks(admin: Wire) -> None:
    """The request is there and gets its answer; nothing behind it is read."""
    said = POST + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}" + GET + b"\r\n"
    answer = admin.raw(said)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1
    text = json.loads(answer.partition(b"\r\n\r\n")[2])["message"]
    assert text == "the body of the request could not be read: malformed chunked encoding"


def test_a_body_that_breaks_off(admin: Wire) -> None:
    with admin.connected() as connection:
        connection.sendall(POST + b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
