"""The bytes are compared with Go's by the hashes of the case files; these are the parts they do not reach."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from kubevouch.pki import keys
from kubevouch.pki.authority import CertificateAuthority
from kubevouch.pki.x509 import certificate_builder, certificate_extensions
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.pki.x509.x509_certificate import Certificate

Make = Callable[..., Certificate]


def oids(certificate: Certificate) -> list[str]:
    return [extension.oid.rpartition(".")[2] for extension in certificate.extensions]


def test_extensions_in_gos_order(make_certificate: Make) -> None:
    certificate = make_certificate(
        usages=("client auth", "digital signature"),
        with_subject_key_id=True,
        alt_names=SubjectAltNames(dns_names=("d",)),
    )
    assert oids(certificate) == ["15", "37", "19", "14", "35", "17"]
    assert [e.critical for e in certificate.extensions] == [True, False, True, False, False, False]


def test_what_would_be_empty_is_left_out(make_certificate: Make) -> None:
    assert oids(make_certificate()) == ["19", "35"]
    assert oids(make_certificate(is_ca=None)) == ["35"]


def test_names_are_critical_where_the_subject_is_empty(make_certificate: Make) -> None:
    certificate = make_certificate(subject=Subject(), alt_names=SubjectAltNames(dns_names=("d",)))
    assert certificate.extensions[-1].critical


def test_an_issuer_with_the_same_name_is_taken_for_the_same(make_certificate: Make, ca: CertificateAuthority) -> None:
    assert oids(make_certificate(subject=Subject(common_name="kubernetes"))) == ["19"]
    assert ca.certificate.meaning.authority_key_id == b""


def test_serial_numbers(make_certificate: Make) -> None:
    assert make_certificate(serial=0).serial == 0
    assert make_certificate(serial=(1 << 128) - 1).serial == (1 << 128) - 1
    drawn = {certificate_builder.random_serial(3) for _ in range(200)}
    assert drawn == set(range(1, 8))


def test_a_long_name_and_a_repeated_value(make_certificate: Make) -> None:
    subject = Subject(common_name="system:node:" + "n" * 253, organizations=("system:nodes", "system:nodes"))
    certificate = make_certificate(subject=subject)
    assert certificate.subject.common_name == subject.common_name
    assert certificate.subject.organizations == subject.organizations


@pytest.mark.parametrize("key", [ec.derive_private_key(3, ec.SECP256R1()), ed25519.Ed25519PrivateKey.generate()])
def test_key_identifier(key: ec.EllipticCurvePrivateKey, make_certificate: Make) -> None:
    public = keys.public_key_of(key)
    point = public.info[-65:] if isinstance(key, ec.EllipticCurvePrivateKey) else public.info[-32:]
    assert certificate_builder.key_identifier(public) == hashlib.sha256(point).digest()[:20]
    made = make_certificate(key=key, with_subject_key_id=True)
    assert made.meaning.subject_key_id == certificate_builder.key_identifier(public)
    assert certificate_extensions.SUBJECT_KEY_ID in {e.oid for e in made.extensions}
