from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from kubevouch.pki import authority, keys
from kubevouch.pki.authority import CertificateAuthority
from kubevouch.pki.x509 import certificate_builder, request_builder, signature, x509_certificate, x509_request
from kubevouch.pki.x509.certificate_builder import CertificateTemplate
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.pki.x509.usages import resolve
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.pki.x509.x509_request import CertificateRequest

NODE = Subject(common_name="system:node:worker-7", organizations=("system:nodes",))


@pytest.fixture(scope="session")
def now() -> dt.datetime:
    return dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)


@pytest.fixture(scope="session")
def node() -> Subject:
    return NODE


@pytest.fixture(scope="session")
def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(0x1234567, ec.SECP256R1())


@pytest.fixture(scope="session")
def other_key() -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(0x7654321, ec.SECP256R1())


@pytest.fixture(scope="session")
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


@pytest.fixture(scope="session")
def ca(now: dt.datetime) -> CertificateAuthority:
    return authority.create_authority("kubernetes", ec.derive_private_key(0xCA, ec.SECP256R1()), now=now)


@pytest.fixture(scope="session")
def make_request(ec_key: PrivateKey) -> Callable[..., CertificateRequest]:
    """A parsed request; a subject and names may be given, and the key."""

    def make(subject: Subject = NODE, *, key: PrivateKey | None = None, **alt_names: Any) -> CertificateRequest:
        text = request_builder.build_request(key or ec_key, subject, SubjectAltNames(**alt_names))
        return x509_request.parse_pem(text)

    return make


@pytest.fixture(scope="session")
def make_certificate(ca: CertificateAuthority, ec_key: PrivateKey, now: dt.datetime) -> Callable[..., Certificate]:
    """A certificate signed by ``issuer`` (an authority, or ``ca``); fields of the template may be given."""

    def make(
        *, issuer: CertificateAuthority = ca, key: PrivateKey = ec_key, usages: tuple[str, ...] = (), **fields: Any
    ) -> Certificate:
        template = CertificateTemplate(
            **{
                "serial": 7,
                "subject": NODE,
                "public_key": keys.public_key_of(key),
                "not_before": now - dt.timedelta(hours=1),
                "not_after": now + dt.timedelta(hours=1),
                "usages": resolve(usages),
                **fields,
            }
        )
        contents = certificate_builder.build(
            template,
            issuer_name=issuer.certificate.subject_name,
            issuer_key_id=issuer.certificate.meaning.subject_key_id,
            signing=signature.signing(issuer.key),
        )
        return x509_certificate.parse_der(contents)

    return make
