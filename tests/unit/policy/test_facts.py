"""policy/facts.py: what is derived of a request."""

from __future__ import annotations

import datetime as dt
import hashlib
import ipaddress

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding

from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import Time
from kubevouch.pki.x509 import x509_request
from kubevouch.pki.x509.public_key import PublicKey
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.policy.facts import RequestFacts, SubjectFacts, facts_of

NOW = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
NAMES = SubjectAltNames(
    dns_names=("a.example.com", "b.example.com"),
    email_addresses=("a@example.com",),
    ip_addresses=(ipaddress.ip_address("10.0.0.1"), ipaddress.ip_address("fd00::1")),
    uris=("spiffe://example.com/a",),
)


def facts(key: object, subject: Subject, names: SubjectAltNames = NAMES) -> tuple[RequestFacts, PublicKey]:
    pem = build_request(key, subject, names)  # type: ignore[arg-type] # any key that cryptography makes
    csr = CertificateSigningRequest(
        metadata=ObjectMeta(name="csr-1", uid="u-1", creation_timestamp=Time.of(NOW)),
        spec=CertificateSigningRequestSpec(
            request=pem,
            signer_name="example.com/hosts",
            usages=["server auth"],
            expiration_seconds=3600,
            username="alice",
            uid="42",
            groups=["team-a"],
            extra={"example.com/x": ["1", "2"]},
        ),
    )
    parsed = x509_request.parse_pem(pem)
    return facts_of(csr, parsed), parsed.public_key


def test_all_of_a_request() -> None:
    found, key = facts(ec.generate_private_key(ec.SECP384R1()), Subject(common_name="a", organizations=("o", "p")))
    assert found == RequestFacts(
        name="csr-1",
        uid="u-1",
        signer_name="example.com/hosts",
        username="alice",
        user_uid="42",
        groups=("team-a",),
        extra={"example.com/x": ("1", "2")},
        usages=("server auth",),
        expiration_seconds=3600,
        key_fingerprint=hashlib.sha256(key.info).hexdigest(),
        key_algorithm="ECDSA",
        key_bits=384,
        subject=SubjectFacts(common_name="a", organizations=("o", "p")),
        dns_names=("a.example.com", "b.example.com"),
        ip_addresses=("10.0.0.1", "fd00::1"),
        email_addresses=("a@example.com",),
        uris=("spiffe://example.com/a",),
        extensions=("2.5.29.17",),
        created=NOW,
    )


def test_the_wire_form_is_kubernetes_like_and_comes_back() -> None:
    found, _ = facts(ed25519.Ed25519PrivateKey.generate(), Subject(common_name="a"))
    text = msgspec.json.encode(found)
    assert b'"dnsNames":["a.example.com"' in text
    assert b'"keyAlgorithm":"Ed25519"' in text
    assert msgspec.json.decode(text, type=RequestFacts) == found


def test_sizes_of_keys() -> None:
    found, _ = facts(rsa.generate_private_key(65537, 2048), Subject(common_name="a"), SubjectAltNames())
    assert (found.key_algorithm, found.key_bits, found.dns_names, found.extensions) == ("RSA", 2048, (), ())


@pytest.mark.parametrize(
    ("constraints", "is_ca"), [(b"0\x03\x01\x01\xff", True), (b"0\x00", False), (b"\x05\x00", True)]
)
def test_who_asks_for_the_certificate_of_a_ca(constraints: bytes, is_ca: bool) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    wanted = x509.UnrecognizedExtension(x509.ObjectIdentifier("2.5.29.19"), constraints)
    made = x509.CertificateSigningRequestBuilder(x509.Name([])).add_extension(wanted, critical=True)
    contents = made.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)
    found = facts_of(CertificateSigningRequest(), x509_request.parse_der(contents))
    assert (found.is_ca, found.extensions) == (is_ca, ("2.5.29.19",))
