"""Client certificates for the tests of authenticators."""

from __future__ import annotations

import datetime as dt

from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.pki.x509 import pem
from throwaway_ca import ThrowawayCA

NOW = dt.datetime(2026, 6, 1, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)
CA = ThrowawayCA()
ANCHORS = TrustAnchors.from_pem(CA.bundle)
OTHER_CA = ThrowawayCA("other")
OTHER = TrustAnchors.from_pem(OTHER_CA.bundle)


def der(certificate: bytes) -> bytes:
    block = pem.first_block(certificate)
    assert block is not None
    return block.contents


def chain(
    common_name: str = "alice", *, organizations: tuple[str, ...] = (), issuer: ThrowawayCA = CA
) -> tuple[bytes, ...]:
    """What a client sends whose certificate is valid from an hour before to an hour after NOW."""
    pair = issuer.issue(common_name, names=(), organizations=organizations, not_before=NOW - HOUR, not_after=NOW + HOUR)
    return (der(pair.certificate),)
