"""Requests as kubelets make them, read back; their bytes are compared in tests/contract/test_pki_node.py."""

from __future__ import annotations

import ipaddress

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from kubevouch.pki import keys
from kubevouch.pki.x509 import signature, x509_request
from kubevouch.pki.x509.request_builder import _rsa_digest, build_request
from kubevouch.pki.x509.signature import Digest, PrivateKey
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.pki.x509.x509_request import CertificateRequest

NAMES = SubjectAltNames(dns_names=("a.example",), ip_addresses=(ipaddress.ip_address("192.0.2.1"),))


def verified(text: bytes, key: PrivateKey) -> CertificateRequest:
    request = x509_request.parse_pem(text)
    signature.verify(
        request.signature_algorithm, keys.public_key_of(key), request.signed, request.signature, allow_sha1=False
    )
    return request


def test_what_is_asked_for_is_in_it_and_signed(ec_key: PrivateKey, rsa_key: PrivateKey, node: Subject) -> None:
    for key in (ec_key, rsa_key):
        for names in (NAMES, SubjectAltNames()):
            request = verified(build_request(key, node, names), key)
            assert (request.subject.common_name, request.subject.organizations) == (
                node.common_name, node.organizations,
            )  # fmt: skip
            assert request.public_key.canonical_info == keys.public_key_of(key).canonical_info
            assert request.alt_names == names


def test_names_without_a_subject_are_critical(ec_key: PrivateKey, node: Subject) -> None:
    """RFC 5280 4.2.1.6; TRUE stands in DER as 01 01 ff."""
    critical = b"\x06\x03\x55\x1d\x11\x01\x01\xff"
    assert critical in verified(build_request(ec_key, Subject(), NAMES), ec_key).signed
    assert critical not in verified(build_request(ec_key, node, NAMES), ec_key).signed


def test_a_name_that_is_not_ascii_is_refused(ec_key: PrivateKey, node: Subject) -> None:
    with pytest.raises(ValueError, match="ascii"):
        build_request(ec_key, node, SubjectAltNames(dns_names=("ä.example",)))


@pytest.mark.parametrize(("bits", "digest"), [(2048, Digest.SHA256), (3072, Digest.SHA384), (4096, Digest.SHA512)])
def test_the_digest_grows_with_the_key(bits: int, digest: Digest, ec_key: PrivateKey) -> None:
    assert _rsa_digest(rsa.generate_private_key(65537, bits)) is digest
    assert _rsa_digest(ec_key) is Digest.SHA256
