"""Why a certificate is no good as that of a CA that signs: told before it signs anything, not by whoever verifies."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from kubevouch.machinery.text.gotext import go_time
from kubevouch.pki.profile import MIN_STRICT_CURVE_BITS, MIN_STRICT_RSA_BITS
from kubevouch.pki.x509 import usages
from kubevouch.pki.x509.public_key import KeyKind
from kubevouch.pki.x509.x509_certificate import Certificate

_CERT_SIGN = usages.KEY_USAGE_BITS[usages.CERT_SIGN]
_EMPTY_NAME = b"\x30\x00"


def faults(certificate: Certificate, now: dt.datetime) -> Iterator[str]:
    """A clause for each reason (RFC 5280 sections 4.1.2.6, 4.2.1.3, 4.2.1.9, 6.1.4), which goes on from "the CA"."""
    meaning, key = certificate.meaning, certificate.public_key
    if not (meaning.has_basic_constraints and meaning.is_ca):
        yield "is no CA: its certificate does not say so"
    elif meaning.key_usage and _CERT_SIGN not in meaning.key_usage:
        yield "may not sign certificates: its key usage leaves that out"
    if certificate.subject_name == _EMPTY_NAME:
        yield "has no name"
    if now >= certificate.not_after:
        yield f"has ended at {go_time(certificate.not_after)}"
    if now < certificate.not_before:
        yield f"begins at {go_time(certificate.not_before)}"
    if key.kind is KeyKind.RSA and key.bits < MIN_STRICT_RSA_BITS:
        yield f"has a weak key: RSA with {key.bits} bits, expected at least {MIN_STRICT_RSA_BITS}"
    if key.kind is KeyKind.ECDSA and key.bits < MIN_STRICT_CURVE_BITS:
        yield f"has a weak key: {key.name}, expected at least {MIN_STRICT_CURVE_BITS} bits"
    if meaning.unhandled_critical:
        yield f"has a critical extension that nobody here knows: {meaning.unhandled_critical[0]}"
