from __future__ import annotations

import datetime as dt

import msgspec
import pytest

from decisions import csr
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestStatus
from kubevouch.registry.certificates.durations import duration_honored
from throwaway_ca import ThrowawayCA

BEGIN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
DAY = 86400


def issued(certificate: bytes, wanted: int | None) -> CertificateSigningRequest:
    obj = csr("example.com/a")
    spec = msgspec.structs.replace(obj.spec, expiration_seconds=wanted)
    return msgspec.structs.replace(obj, spec=spec, status=CertificateSigningRequestStatus(certificate=certificate))


def lasting(seconds: int) -> bytes:
    return ThrowawayCA().issue(not_before=BEGIN, not_after=BEGIN + dt.timedelta(seconds=seconds)).certificate


@pytest.mark.parametrize(
    ("seconds", "honored"),
    [
        (DAY, True),
        (DAY + DAY // 20 + 299, True),
        (DAY + DAY // 20 + 300, False),
        (DAY - DAY // 20 - 299, True),
        (DAY - DAY // 20 - 300, False),
    ],
)
def test_five_minutes_and_a_twentieth_are_allowed(seconds: int, honored: bool) -> None:
    assert duration_honored(issued(lasting(seconds), DAY), issued(b"", DAY)) is honored


def test_what_does_not_count() -> None:
    certificate = lasting(DAY)
    assert duration_honored(issued(certificate, None), issued(b"", None)) is None
    assert duration_honored(issued(certificate, DAY), issued(certificate, DAY)) is None
    assert duration_honored(issued(b"", DAY), issued(b"", DAY)) is None
    assert duration_honored(issued(b"no certificate", DAY), issued(b"", DAY)) is None
