"""pki/authority_faults.py: each reason, once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from kubevouch.pki.authority import CertificateAuthority
from kubevouch.pki.authority_faults import faults
from kubevouch.pki.x509.certificate_extensions import Extension
from kubevouch.pki.x509.x509_certificate import Certificate

GOOD: dict[str, Any] = {"is_ca": True, "usages": ("cert sign",)}
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"is_ca": False, "usages": ("cert sign",)}, "is no CA"),
    ({"is_ca": None, "usages": ("cert sign",)}, "is no CA"),
    ({"is_ca": True, "usages": ("digital signature",)}, "may not sign certificates"),
    (GOOD | {"key": rsa.generate_private_key(65537, 1024)}, "RSA with 1024 bits"),
    (GOOD | {"key": ec.generate_private_key(ec.SECP224R1())}, "weak key: ECDSA-P224"),
    (GOOD | {"extra": (Extension("1.2.3", True, b"\x05\x00"),)}, "critical extension that nobody here knows: 1.2.3"),
]


def test_a_good_one_has_none(
    ca: CertificateAuthority, make_certificate: Callable[..., Certificate], now: dt.datetime
) -> None:
    assert list(faults(ca.certificate, now)) == []
    assert list(faults(make_certificate(is_ca=True), now)) == []  # without key usage it may do anything
    assert list(faults(make_certificate(**GOOD), now)) == []


@pytest.mark.parametrize(("fields", "why"), WRONG, ids=[why for _, why in WRONG])
def test_each(make_certificate: Callable[..., Certificate], now: dt.datetime, fields: dict[str, Any], why: str) -> None:
    (found,) = faults(make_certificate(**fields), now)
    assert why in found


def test_times_and_names(ca: CertificateAuthority) -> None:
    certificate = ca.certificate
    assert [each[:9] for each in faults(certificate, certificate.not_after)] == ["has ended"]
    assert [each[:9] for each in faults(certificate, certificate.not_before - dt.timedelta(seconds=1))] == ["begins at"]
    nameless = msgspec.structs.replace(certificate, subject_name=b"\x30\x00")
    assert list(faults(nameless, certificate.not_before)) == ["has no name"]
