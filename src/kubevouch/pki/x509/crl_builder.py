"""Certificate revocation lists: full, delta, and of a part of all certificates (RFC 5280 section 5).

Own DER, as for certificates: a CA's name is copied byte by byte, and any key signs that a CA may have.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import msgspec

from kubevouch.pki.x509 import asn1_time, der

REASON_CODES = {
    "unspecified": 0, "keyCompromise": 1, "cACompromise": 2, "affiliationChanged": 3, "superseded": 4,
    "cessationOfOperation": 5, "certificateHold": 6, "removeFromCRL": 8, "privilegeWithdrawn": 9, "aACompromise": 10,
}  # fmt: skip
"""RFC 5280 section 5.3.1."""

_VERSION_2 = der.encode_integer(1)
_ENUMERATED = 0x0A
_TRUE = b"\x01\x01\xff"
_REASON_CODE = der.encode_object_identifier("2.5.29.21")
_AUTHORITY_KEY_ID = der.encode_object_identifier("2.5.29.35")
_CRL_NUMBER = der.encode_object_identifier("2.5.29.20")
_DELTA_INDICATOR = der.encode_object_identifier("2.5.29.27")
_ISSUING_POINT = der.encode_object_identifier("2.5.29.28")
_FRESHEST = der.encode_object_identifier("2.5.29.46")


class RevokedSerial(msgspec.Struct, frozen=True, gc=False):
    """One line of a list. ``unspecified`` is not written (RFC 5280 section 5.3.1)."""

    serial: int
    at: dt.datetime
    reason: str = "unspecified"


class CRLTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """What a list is to say.

    Args:
        number: higher than that of every list of the issuer before it.
        base: of a delta CRL, the number of the full one that it continues.
        point: the URL at which the list is found that holds a part of all certificates; those that name it.
        freshest: the URL of the delta CRLs that continue a full one.
    """

    number: int
    this_update: dt.datetime
    next_update: dt.datetime
    revoked: Sequence[RevokedSerial] = ()
    base: int | None = None
    point: str = ""
    freshest: str = ""


def to_be_signed(template: CRLTemplate, *, issuer_name: bytes, issuer_key_id: bytes, identifier: bytes) -> bytes:
    """TBSCertList in DER. Raises ``ValueError`` for a URL that is not ASCII."""
    lines = b"".join(map(_line, sorted(template.revoked, key=lambda each: each.serial)))
    return der.encode(
        der.SEQUENCE,
        _VERSION_2,
        identifier,
        issuer_name,
        asn1_time.encode(template.this_update),
        asn1_time.encode(template.next_update),
        der.encode(der.SEQUENCE, lines) if lines else b"",
        der.encode(0xA0, der.encode(der.SEQUENCE, *_extensions(template, issuer_key_id))),
    )


def _line(revoked: RevokedSerial) -> bytes:
    code = REASON_CODES[revoked.reason]
    reason = extension(_REASON_CODE, der.encode(_ENUMERATED, bytes((code,)))) if code else b""
    return der.encode(
        der.SEQUENCE,
        der.encode_integer(revoked.serial),
        asn1_time.encode(revoked.at),
        der.encode(der.SEQUENCE, reason) if reason else b"",
    )


def _extensions(template: CRLTemplate, issuer_key_id: bytes) -> list[bytes]:
    found = []
    if issuer_key_id:
        found.append(extension(_AUTHORITY_KEY_ID, der.encode(der.SEQUENCE, der.encode(0x80, issuer_key_id))))
    found.append(extension(_CRL_NUMBER, der.encode_integer(template.number)))
    if template.base is not None:
        found.append(extension(_DELTA_INDICATOR, der.encode_integer(template.base), critical=True))
    if template.point:
        name = der.encode(0xA0, _full_name(template.point))
        found.append(extension(_ISSUING_POINT, der.encode(der.SEQUENCE, name), critical=True))
    if template.freshest:
        point = der.encode(der.SEQUENCE, der.encode(0xA0, _full_name(template.freshest)))
        found.append(extension(_FRESHEST, der.encode(der.SEQUENCE, point)))
    return found


def _full_name(url: str) -> bytes:
    """DistributionPointName, of its fullName the one URI."""
    return der.encode(0xA0, der.encode(0x86, url.encode("ascii")))


def extension(oid: bytes, value: bytes, *, critical: bool = False) -> bytes:
    return der.encode(der.SEQUENCE, oid, _TRUE if critical else b"", der.encode(der.OCTET_STRING, value))
