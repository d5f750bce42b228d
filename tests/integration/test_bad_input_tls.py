"""Clients that do not speak TLS, or show a certificate that proves nothing: an answer, not a broken connection."""

from __future__ import annotations

import datetime as dt
import json
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubevouch.phases.certificates.certs import load_authority, pair_at
from kubevouch.pki import keys
from kubevouch.pki.authority import CertificateAuthority, LeafSpec, create_authority, issue_leaf
from kubevouch.pki.control_plane import SUPER_ADMIN
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.util.clock import SystemClock
from processes import PATIENCE_SECONDS, Up
from wire import CSRS, Wire

REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
UNAUTHORIZED = (401, "Unauthorized", "Unauthorized")
NOW = SystemClock().now()


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with Up(tmp_path_factory.mktemp("tls")) as running:
        yield running
        assert "Traceback" not in running.stderr


@pytest.fixture
def authority(up: Up) -> CertificateAuthority:
    return load_authority(pair_at(up.folder / "cluster/pki", "ca"))


def wire_of(up: Up, folder: Path, signer: CertificateAuthority, spec: LeafSpec) -> Wire:
    """Someone with a certificate for ``spec`` by ``signer``."""
    key = keys.generate(KeyAlgorithm.ECDSA_P256)
    pair = folder / "pair.pem"
    pair.write_bytes(issue_leaf(signer, spec, key, now=NOW).pem() + keys.to_pem(key))
    return Wire(int(up.port), (up.folder / "cluster/pki/ca.crt").read_bytes(), pair)


def spec(**changes: dt.timedelta | tuple[str, ...]) -> LeafSpec:
    fields = {"common_name": SUPER_ADMIN.common_name, "organizations": SUPER_ADMIN.organizations}
    return LeafSpec(**(fields | {"purposes": ("client auth",)} | changes))  # type: ignore[arg-type]  # by the callers


def test_a_good_certificate_is_let_in(up: Up, tmp_path: Path, authority: CertificateAuthority) -> None:
    """So that the refusals below are for the reason that they name."""
    assert wire_of(up, tmp_path, authority, spec()).request("GET", CSRS).code == 200


def test_an_expired_certificate(up: Up, tmp_path: Path, authority: CertificateAuthority) -> None:
    wire = wire_of(up, tmp_path, authority, spec(validity=dt.timedelta(minutes=-1)))
    assert wire.request("GET", CSRS).told == UNAUTHORIZED
    assert wire.request("GET", "/version").told == UNAUTHORIZED


def test_a_certificate_for_servers(up: Up, tmp_path: Path, authority: CertificateAuthority) -> None:
    wire = wire_of(up, tmp_path, authority, spec(purposes=("server auth",)))
    assert wire.request("GET", CSRS).told == UNAUTHORIZED


@pytest.mark.parametrize("name", ["kubernetes", "other"])
def test_a_certificate_of_another_authority(up: Up, tmp_path: Path, name: str) -> None:
    """Also of one with the same name."""
    other = create_authority(name, keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW)
    wire = wire_of(up, tmp_path, other, spec())
    assert wire.request("GET", CSRS).told == UNAUTHORIZED


def test_a_certificate_of_the_front_proxy(up: Up, tmp_path: Path) -> None:
    """It may speak for others, so it is nobody without the headers that say for whom."""
    proxy = load_authority(pair_at(up.folder / "cluster/pki", "front-proxy-ca"))
    assert wire_of(up, tmp_path, proxy, spec()).request("GET", CSRS).told == UNAUTHORIZED


@pytest.mark.parametrize(("token", "known"), [("", True), ("0" * 16, False)])
def test_a_token_counts_beside_an_expired_certificate(
    up: Up, tmp_path: Path, authority: CertificateAuthority, token: str, known: bool
) -> None:
    wire = wire_of(up, tmp_path, authority, spec(validity=dt.timedelta(minutes=-1)))
    token_id, _, secret = up.join_arguments[1].partition(".")
    reply = wire.json("POST", REVIEWS, REVIEW, Authorization=f"Bearer {token_id}.{token or secret}")
    if known:
        assert json.loads(reply.body)["status"]["userInfo"]["username"] == f"system:bootstrap:{token_id}"
    else:
        assert reply.told == UNAUTHORIZED


def test_an_expired_certificate_on_the_next_request_of_a_connection(
    up: Up, tmp_path: Path, authority: CertificateAuthority
) -> None:
    wire = wire_of(up, tmp_path, authority, spec(validity=dt.timedelta(minutes=-1)))
    request = f"GET {CSRS} HTTP/1.1\r\nHost: here\r\n"
    answer = wire.raw(f"{request}\r\n{request}Connection: close\r\n\r\n".encode())
    assert answer.count(b"HTTP/1.1 401 Unauthorized") == 2


def test_plain_http_on_the_port(up: Up) -> None:
    with socket.create_connection(("127.0.0.1", int(up.port)), PATIENCE_SECONDS) as plain:
        plain.sendall(b"GET /version HTTP/1.1\r\nHost: here\r\n\r\n")
        answer = plain.makefile("rb").read()
    assert answer == b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"


def test_a_version_of_tls_that_is_too_old(up: Up) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with (
        socket.create_connection(("127.0.0.1", int(up.port)), PATIENCE_SECONDS) as plain,
        pytest.raises(ssl.SSLError),
    ):
        context.wrap_socket(plain)
