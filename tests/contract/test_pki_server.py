"""The cases of ``server.jsonl`` that end in the PKI: ``spec.request``, ``status.certificate``, client certificates.

The HTTP around them is played by the server's own tests against the whole handler chain; here every fixture file gets
its verdict, with Go's text where kube-apiserver 1.36.2 printed one.
"""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from kubevouch.pki import certificate_chain, client_certificate
from kubevouch.pki.errors import (
    CertificateExpiredError,
    ClientCertificateError,
    IdentityError,
    IncompatibleUsageError,
    ParseError,
    PKIError,
    SignatureError,
    UnknownAuthorityError,
)
from kubevouch.pki.x509 import x509_certificate, x509_request

VECTORS = Path(__file__).parents[1] / "vectors"
FIXTURES = VECTORS / "fixtures-server"
NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
PREFIX = "CertificateSigningRequest.certificates.k8s.io"

CASES: dict[str, dict[str, Any]] = {
    case["id"]: case for case in map(json.loads, (VECTORS / "server.jsonl").read_text().splitlines())
}


def _files(part: Any) -> list[str]:
    """The fixture files that a request body holds, in order."""
    if isinstance(part, dict):
        here = [part["$base64file"]] if "$base64file" in part else []
        return here + [name for value in part.values() for name in _files(value)]
    return [name for item in part for name in _files(item)] if isinstance(part, list) else []


def _fixture(name: str) -> bytes:
    return (FIXTURES / name).read_bytes()


REQUESTS = [i for i, c in CASES.items() if i.startswith("srv-req-") and _files(c["when"].get("body"))]
CERTIFICATES = [i for i in CASES if i.startswith("srv-issue") and CASES[i]["area"] == "validation"]
X509 = [i for i in CASES if i.startswith("srv-x509-")]
LEFT = {"srv-req-not-base64"}  # refused by the JSON codec


def test_every_case_with_such_a_fixture_is_played_or_named_as_left() -> None:
    assert {i for i in CASES if i.startswith("srv-req-")} == {*REQUESTS, *LEFT}
    assert len(CERTIFICATES) == 6
    assert len(X509) == 4


@pytest.mark.parametrize("name", REQUESTS)
def test_spec_request(name: str) -> None:
    case = CASES[name]
    text = _fixture(_files(case["when"]["body"])[0])
    then = case["then"]
    if then["status"] == 201:
        x509_request.verify_signature(x509_request.parse_pem(text))
        return
    message = then.get("message_exact") or then["seen"]
    with pytest.raises(PKIError) as refusal:
        x509_request.verify_signature(x509_request.parse_pem(text))
    assert message.endswith(f'": {refusal.value}')


@pytest.mark.parametrize("name", CERTIFICATES)
def test_status_certificate(name: str) -> None:
    case = CASES[name]
    text = _fixture(_files(case["when"]["body"])[-1])
    if case["then"]["status"] == 200:
        assert certificate_chain.verify_certificate_chain(text)
        return
    with pytest.raises(ParseError) as refusal:
        certificate_chain.verify_certificate_chain(text)
    assert case["then"]["message_exact"].endswith(f'Invalid value: "<certificate data>": {refusal.value}')


def _present(name: str) -> client_certificate.ClientIdentity | None:
    anchors = client_certificate.TrustAnchors.from_pem(_fixture("ca.pem"))
    presented = [x509_certificate.parse_pem(_fixture(name)).contents]
    return client_certificate.identify(client_certificate.verify_presented(presented, anchors, now=NOW)[0])


@pytest.mark.parametrize("name", X509)
def test_client_certificates(name: str) -> None:
    case = CASES[name]
    fixture = case["given"]["client_certificate"]
    if case["then"]["status"] == 401 and fixture != "client-no-cn.pem":
        with pytest.raises(ClientCertificateError):
            _present(fixture)
        return
    identity = _present(fixture)
    if fixture == "client-no-cn.pem":
        assert identity is None
        return
    assert identity is not None
    fields = case["then"]["fields"]
    assert identity.username == fields["status.userInfo.username"]
    assert identity.uid == fields["status.userInfo.uid"]
    assert [*identity.groups, "system:authenticated"] == fields["status.userInfo.groups"]


@pytest.mark.parametrize(
    ("fixture", "error", "text"),
    [
        ("client-expired.pem", CertificateExpiredError, "certificate has expired or is not yet valid: current time"),
        ("client-unknown-ca.pem", UnknownAuthorityError, "x509: certificate signed by unknown authority"),
        (
            "client-server-auth-only.pem",
            IncompatibleUsageError,
            "x509: certificate specifies an incompatible key usage",
        ),
        ("client-two-uids.pem", IdentityError, "expected 1 UID, but found multiple: ["),
    ],
)
def test_refused_client_certificates(fixture: str, error: type[ClientCertificateError], text: str) -> None:
    with pytest.raises(error) as refusal:
        _present(fixture)
    assert text in str(refusal.value)


ODD_REQUESTS = {
    "csr-bad-signature.pem": "x509: ECDSA verification failure",
    "csr-new-label.pem": "PEM block type must be CERTIFICATE REQUEST",
    "csr-trailing-der.pem": "asn1: syntax error: trailing data",
    "csr-truncated-der.pem": "asn1: syntax error: data truncated",
    "csr-with-attestation-first.pem": "PEM block type must be CERTIFICATE REQUEST",
    "csr.der": "PEM block type must be CERTIFICATE REQUEST",
    "empty-block.pem": "asn1: syntax error: sequence truncated",
    "not-pem.txt": "PEM block type must be CERTIFICATE REQUEST",
}
GOOD_REQUESTS = [f.name for f in sorted(FIXTURES.glob("csr-*.pem")) if f.name not in ODD_REQUESTS]


@pytest.mark.parametrize(("fixture", "text"), ODD_REQUESTS.items())
def test_odd_requests(fixture: str, text: str) -> None:
    with pytest.raises((ParseError, SignatureError)) as refusal:
        x509_request.verify_signature(x509_request.parse_pem(_fixture(fixture)))
    assert str(refusal.value) == text


@pytest.mark.parametrize("fixture", GOOD_REQUESTS)
def test_good_requests(fixture: str) -> None:
    x509_request.verify_signature(x509_request.parse_pem(_fixture(fixture)))


ODD_CHAINS = {
    "cert-empty-block.pem": "found CERTIFICATE PEM block containing 0 certificates",
    "cert-garbage.pem": "x509: malformed certificate",
    "cert-headers.pem": "no PEM block headers are permitted",
    "cert-then-key.pem": 'only CERTIFICATE PEM blocks are allowed, found "EC PRIVATE KEY"',
    "key-then-cert.pem": 'only CERTIFICATE PEM blocks are allowed, found "EC PRIVATE KEY"',
    "csr-alice.pem": 'only CERTIFICATE PEM blocks are allowed, found "CERTIFICATE REQUEST"',
    "not-pem.txt": "must contain at least one CERTIFICATE PEM block",
}


@pytest.mark.parametrize(("fixture", "text"), ODD_CHAINS.items())
def test_odd_chains(fixture: str, text: str) -> None:
    with pytest.raises(ParseError) as refusal:
        certificate_chain.verify_certificate_chain(_fixture(fixture))
    assert str(refusal.value) == text


@pytest.mark.parametrize(
    ("fixture", "count"), [("cert-chain.pem", 2), ("cert-two-der-one-block.pem", 2), ("cert-with-text.pem", 1)]
)
def test_chains(fixture: str, count: int) -> None:
    assert len(certificate_chain.verify_certificate_chain(_fixture(fixture))) == count
