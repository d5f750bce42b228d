"""Which issued certificates got the lifetime that their request asked for.

Source: pkg/registry/certificates/certificates/storage/metrics.go (Kubernetes 1.36).
"""

from __future__ import annotations

import datetime as dt

from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509.x509_certificate import parse_bundle

_BACKDATED = dt.timedelta(minutes=5)  # signers let certificates begin a little earlier


def duration_honored(new: CertificateSigningRequest, old: CertificateSigningRequest) -> bool | None:
    """Whether the certificate that this update sets lasts as long as was asked for; None where there is no such."""
    wanted = old.spec.expiration_seconds
    if wanted is None or old.status.certificate or not new.status.certificate:
        return None
    try:
        leaf = parse_bundle(new.status.certificate)[0]
    except ParseError:
        return None
    asked = dt.timedelta(seconds=wanted)
    return abs(leaf.not_after - leaf.not_before - asked) < _BACKDATED + asked / 20
