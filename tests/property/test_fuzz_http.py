"""Whatever is sent over HTTPS gets an answer that can be read and is no fault of the server, and so does the next."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz_parsers import CONFIG_MAP, CSR, NODE, as_protobuf
from fuzz_targets import TARGETS
from kubevouch.api import catalog
from kubevouch.testing import Cluster
from property.fuzz_strategies import damaged, examples, inputs
from wire import Wire

PATIENCE_SECONDS = 240.0
BLANK = b" \t"


@dataclass
class Connection:
    """One connection at a time, kept as long as the server keeps it."""

    port: int
    context: ssl.SSLContext
    open: ssl.SSLSocket | None = field(default=None)

    def ask(self, head: bytes, body: bytes = b"") -> tuple[int, bytes]:
        """Code and body of the answer to one request."""
        if self.open is None:
            plain = socket.create_connection(("127.0.0.1", self.port), PATIENCE_SECONDS)
            self.open = self.context.wrap_socket(plain, server_hostname="127.0.0.1")
        try:
            self.open.sendall(head + b"\r\nHost: here\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        except (BrokenPipeError, ConnectionResetError):
            # Refused before it was read to its end; the answer is there all the same.
            pass
        answer = HTTPResponse(self.open, method=head.partition(b" ")[0].decode("latin-1"))
        answer.begin()
        # A watch goes on; its first bytes will do.
        streams = answer.chunked
        text = b"" if streams else answer.read()
        if streams or answer.will_close:
            self.close()
        return answer.status, text

    def close(self) -> None:
        if self.open is not None:
            self.open.close()
        self.open = None


@dataclass(frozen=True)
class Speakers:
    """An administrator with a certificate, and whoever has none: only there tokens count."""

    admin: Connection
    nobody: Connection


@pytest.fixture(scope="module")
def speakers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Speakers]:
    folder = tmp_path_factory.mktemp("fuzz")
    with Cluster(https=True) as cluster:
        for text in (CONFIG_MAP, CSR, NODE):
            cluster.create(json.loads(text))
        wires = [Wire.of_kubeconfig(cluster.kubeconfig, folder, anonymous=each) for each in (False, True)]
        made = Speakers(*(Connection(wire.port, wire._context) for wire in wires))
        yield made
        made.admin.close()
        made.nobody.close()
        assert wires[0].request("GET", "/readyz").code == 200


@pytest.fixture(scope="module")
def connection(speakers: Speakers) -> Connection:
    return speakers.admin


def check(connection: Connection, head: bytes, body: bytes = b"") -> None:
    try:
        code, text = connection.ask(head, body)
    except HTTPException as err:
        raise AssertionError(f"no answer to {head!r}") from err
    shown = f"{head!r} {body[:2000]!r} {code} {text[:500]!r}"
    if code >= 400 and text.startswith(b"{"):
        status = json.loads(text)
        assert (status["kind"], status["code"]) == ("Status", code), shown
        # Kubernetes answers some patches and versions with 500, in words but without a reason.
        assert code < 500 or (code == 500 and "reason" not in status and status["message"]), shown
    else:
        assert code < 500, shown


# ------------------------------------------------------------------ bodies

MAPS = "/api/v1/namespaces/default/configmaps"
CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
NODES = "/api/v1/nodes"
BODIES = [
    ("POST", MAPS, "application/json", "json-configmap"),
    ("PUT", f"{MAPS}/a", "application/json", "json-configmap"),
    ("POST", MAPS, "application/vnd.kubernetes.protobuf", "protobuf-configmap"),
    ("POST", MAPS, "application/yaml", "yaml-node"),
    ("POST", CSRS, "application/json", "json-csr"),
    ("PUT", f"{CSRS}/a/approval", "application/json", "json-csr"),
    ("PUT", f"{CSRS}/a/status", "application/vnd.kubernetes.protobuf", "protobuf-csr"),
    ("POST", NODES, "application/vnd.kubernetes.protobuf", "protobuf-node"),
    ("PUT", f"{NODES}/n/status", "application/json", "json-node"),
    ("POST", NODES, "application/yaml", "yaml-node"),
    ("PATCH", f"{NODES}/n", "application/json-patch+json", "json-patch"),
    ("PATCH", f"{NODES}/n", "application/merge-patch+json", "merge-patch"),
    ("PATCH", f"{NODES}/n", "application/strategic-merge-patch+json", "strategic-merge-patch"),
    ("PATCH", f"{NODES}/n/status", "application/strategic-merge-patch+json", "strategic-merge-patch"),
    ("PATCH", f"{NODES}/n", "application/apply-patch+yaml", "apply-patch"),
]
DRY = ("", "?fieldValidation=Strict", "?dryRun=All", "?fieldValidation=Warn&fieldManager=f")


@pytest.mark.parametrize(("method", "path", "media", "target"), BODIES)
@examples(50)
@given(data=st.data())
def test_any_body_gets_an_answer(
    connection: Connection, method: str, path: str, media: str, target: str, data: st.DataObject
) -> None:
    found = TARGETS[target]
    body = data.draw(inputs(found.seeds, found.words))
    query = data.draw(st.sampled_from(DRY))
    if media.startswith("application/apply"):
        query = f"{query or '?'}&fieldManager=f&force=true"
    check(connection, f"{method} {path}{query} HTTP/1.1\r\nContent-Type: {media}".encode(), body)


@examples(60)
@given(fields=inputs(TARGETS["managed-fields"].seeds, TARGETS["managed-fields"].words))
def test_any_field_set_gets_an_answer(connection: Connection, fields: bytes) -> None:
    """As protobuf, where it is bytes inside bytes."""
    sealed = as_protobuf(catalog.CONFIG_MAPS, CONFIG_MAP)
    plain = b'{"f:data":{"f:k":{}}}'
    # Whoever counts the bytes is content.
    padded = fields[: len(plain)].ljust(len(plain))
    body = sealed.replace(plain, padded)
    assert padded in body
    protobuf, apply = "application/vnd.kubernetes.protobuf", "application/apply-patch+yaml"
    check(connection, f"PUT {MAPS}/a HTTP/1.1\r\nContent-Type: {protobuf}".encode(), body)
    applied = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
    head = f"PATCH {MAPS}/a?fieldManager=m&force=true HTTP/1.1\r\nContent-Type: {apply}"
    check(connection, head.encode(), applied)


# ------------------------------------------------------------------ everything before the body

PATHS = (
    MAPS, f"{MAPS}/a", CSRS, f"{CSRS}/a/approval", NODES, f"{NODES}/n/status", "/api", "/apis", "/version",
    "/openapi/v2", "/openapi/v3/api/v1", "/metrics", "/readyz", "/apis/certificates.k8s.io", "/api/v1/watch/nodes",
    "/api/v1/namespaces", "/apis/authentication.k8s.io/v1/selfsubjectreviews",
    "/api/v1/namespaces/default/serviceaccounts/default/token",
)  # fmt: skip
HEADERS = {
    "Accept": "accept",
    "Authorization": "token",
    "Content-Type": "accept",
    "Impersonate-User": "impersonation",
    "Impersonate-Group": "impersonation",
    "Impersonate-Uid": "impersonation",
    "Impersonate-Extra-x%2Fy": "impersonation",
    "X-Remote-User": "impersonation",
    "User-Agent": "path",
    "Accept-Encoding": "accept",
    "Content-Encoding": "accept",
    "Audit-Id": "bootstrap-token",
    "Traceparent": "query",
    "If-None-Match": "label-selector",
}
PARAMETERS = {
    "labelSelector": "label-selector",
    "fieldSelector": "field-selector",
    "continue": "continue-token",
    "limit": "query",
    "resourceVersion": "continue-token",
    "resourceVersionMatch": "query",
    "timeoutSeconds": "query",
    "fieldManager": "path",
    "fieldValidation": "query",
    "dryRun": "query",
    "includeObject": "query",
    "pretty": "query",
    "sendInitialEvents": "query",
}
OBJECTS = {
    MAPS: CONFIG_MAP,
    CSRS: CSR,
    "/apis/authentication.k8s.io/v1/selfsubjectreviews": (
        b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'
    ),
}
METHODS = ("GET", "GET", "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "BREW")


def sendable(value: bytes) -> bytes:
    """What can stand in a header: the rest is the HTTP parser's to refuse."""
    return value.translate(None, b"".join(bytes([code]) for code in (*range(9), *range(10, 32), 127)))[:8000]


@examples(300)
@given(data=st.data())
def test_any_headers_get_an_answer(speakers: Speakers, data: st.DataObject) -> None:
    method, path = data.draw(st.sampled_from(METHODS)), data.draw(st.sampled_from(PATHS))
    lines = [f"{method} {path} HTTP/1.1".encode()]
    for name in data.draw(st.lists(st.sampled_from(sorted(HEADERS)), min_size=1, max_size=4)):
        target = TARGETS[HEADERS[name]]
        value = sendable(data.draw(inputs(target.seeds, target.words)))
        lines.append(name.encode() + b": " + value)
    body = OBJECTS.get(path, b"{}") if method in ("POST", "PUT") else b""
    speaker = data.draw(st.sampled_from((speakers.admin, speakers.nobody)))
    check(speaker, b"\r\n".join(lines), body.replace(b'"name":"a"', b'"generateName":"a"'))


@examples(300)
@given(data=st.data())
def test_any_query_gets_an_answer(connection: Connection, data: st.DataObject) -> None:
    method, path = data.draw(st.sampled_from(METHODS)), data.draw(st.sampled_from(PATHS))
    query = []
    for name in data.draw(st.lists(st.sampled_from(sorted(PARAMETERS)), min_size=1, max_size=4)):
        target = TARGETS[PARAMETERS[name]]
        query.append(f"{name}={quote(data.draw(inputs(target.seeds, target.words))[:3000])}")
    check(connection, f"{method} {path}?{'&'.join(query)} HTTP/1.1".encode())


@examples(150)
@given(data=st.data())
def test_any_path_gets_an_answer(connection: Connection, data: st.DataObject) -> None:
    path = data.draw(damaged([path.encode() for path in PATHS], TARGETS["path"].words))
    method = data.draw(st.sampled_from(METHODS))
    check(connection, f"{method} /{quote(path.lstrip(b'/'), safe='/?&=%.:')} HTTP/1.1".encode())
