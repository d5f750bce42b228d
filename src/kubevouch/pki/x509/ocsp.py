"""OCSP requests as a responder reads them, and its responses (RFC 6960; nonces: RFC 9654, before it RFC 8954)."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable, Sequence

import msgspec

from kubevouch.pki.errors import DERError, ParseError
from kubevouch.pki.x509 import der
from kubevouch.pki.x509.crl_builder import REASON_CODES, extension
from kubevouch.pki.x509.x509_certificate import Certificate

MAX_REQUEST = 8 << 10
"""Bytes. One of openssl for one certificate has some 100."""
MAX_CERTIFICATES = 16
"""That one request may ask about."""
MAX_SERIAL = 21
"""Octets: 20 (RFC 5280 section 4.1.2.2), and one of a sign."""
MIN_NONCE, MAX_NONCE = 1, 128
"""Octets (RFC 9654 section 2.1); one of another length is no request that we understand."""

_MALFORMED, _TRY_LATER, _UNAUTHORIZED = 1, 3, 6
_BASIC = der.encode_object_identifier("1.3.6.1.5.5.7.48.1.1")
_NONCE_OID = "1.3.6.1.5.5.7.48.1.2"
_NONCE = der.encode_object_identifier(_NONCE_OID)
_ENUMERATED = 0x0A
_NULL = b"\x05\x00"
_DIGESTS: dict[str, Callable[[bytes], bytes]] = {
    "1.3.14.3.2.26": lambda octets: hashlib.sha1(octets, usedforsecurity=False).digest(),
    "2.16.840.1.101.3.4.2.1": lambda octets: hashlib.sha256(octets).digest(),
    "2.16.840.1.101.3.4.2.2": lambda octets: hashlib.sha384(octets).digest(),
    "2.16.840.1.101.3.4.2.3": lambda octets: hashlib.sha512(octets).digest(),
}


class CertificateID(msgspec.Struct, frozen=True):
    """A certificate that is asked about. ``contents`` is the CertID in DER, as it came."""

    contents: bytes
    digest: str
    issuer_name: bytes
    issuer_key: bytes
    serial: int

    def is_of(self, issuer: Certificate) -> bool:
        """Whether ``issuer`` is the CA that is meant: both its name and its key."""
        digest = _DIGESTS.get(self.digest)
        if digest is None:
            return False
        return (digest(issuer.subject_name), digest(_key_bits(issuer))) == (self.issuer_name, self.issuer_key)


class OCSPRequest(msgspec.Struct, frozen=True):
    certificates: tuple[CertificateID, ...]
    nonce: bytes = b""


class SingleStatus(msgspec.Struct, frozen=True):
    """Of one certificate: good without ``revoked_at``; ``known`` is False for one that we never issued."""

    certificate: CertificateID
    revoked_at: dt.datetime | None = None
    reason: str = "unspecified"
    known: bool = True


def _key_bits(certificate: Certificate) -> bytes:
    """The BIT STRING's octets of the public key, without tag, length and unused bits (RFC 6960 section 4.1.1)."""
    info = certificate.public_key.info
    start, stop = der.expect(info, 0, len(info), der.SEQUENCE)
    _, behind = der.expect(info, start, stop, der.SEQUENCE)
    start, stop = der.expect(info, behind, stop, der.BIT_STRING)
    return info[start + 1 : stop]


# ------------------------------------------------------------------ requests


def parse_request(octets: bytes) -> OCSPRequest:
    """Raises :class:`ParseError` for what is none, or asks for more than we answer."""
    try:
        return _request(octets)
    except DERError as err:
        raise ParseError(f"OCSP request: {err}") from err


def _request(octets: bytes) -> OCSPRequest:
    if len(octets) > MAX_REQUEST:
        raise ParseError(f"OCSP request: got {len(octets)} bytes, expected {MAX_REQUEST} at most")
    start, stop = der.expect(octets, 0, len(octets), der.SEQUENCE)
    if stop != len(octets):
        raise ParseError("OCSP request: trailing data")
    position, end = der.expect(octets, start, stop, der.SEQUENCE)  # tbsRequest; a signature is not looked at
    for tag in (0xA0, 0xA1):  # version, requestorName
        if position < end and octets[position] == tag:
            _, position = der.expect(octets, position, end, tag)
    start, stop = der.expect(octets, position, end, der.SEQUENCE)
    listed = der.elements(octets, start, stop, der.SEQUENCE)
    if not 0 < len(listed) <= MAX_CERTIFICATES:
        raise ParseError(f"OCSP request: got {len(listed)} certificates, expected 1 to {MAX_CERTIFICATES}")
    found = tuple(_certificate_id(octets, begin, finish) for _, begin, finish in listed)
    nonce = b""
    if stop < end:
        start, stop = der.expect(octets, stop, end, 0xA2)
        nonce = _nonce(octets, *der.expect(octets, start, stop, der.SEQUENCE))
    return OCSPRequest(found, nonce)


def _certificate_id(octets: bytes, start: int, stop: int) -> CertificateID:
    begin, end = der.expect(octets, start, stop, der.SEQUENCE)
    inner, algorithm_end = der.expect(octets, begin, end, der.SEQUENCE)
    algorithm_start, algorithm_stop = der.expect(octets, inner, algorithm_end, der.OBJECT_IDENTIFIER)
    position = algorithm_end
    values = []
    for tag in (der.OCTET_STRING, der.OCTET_STRING, der.INTEGER):
        value_start, position = der.expect(octets, position, end, tag)
        values.append(octets[value_start:position])
    if position != end or len(values[2]) > MAX_SERIAL:
        raise ParseError(f"OCSP request: expected a serial number of at most {MAX_SERIAL} octets, and no more")
    digest = der.object_identifier(octets[algorithm_start:algorithm_stop])
    if octets[algorithm_stop:algorithm_end] not in (b"", _NULL):
        raise ParseError("OCSP request: expected a digest without parameters")
    size = len(_DIGESTS[digest](b"")) if digest in _DIGESTS else 0
    if size and not len(values[0]) == len(values[1]) == size:
        raise ParseError(f"OCSP request: got digests of {len(values[0])} and {len(values[1])} octets, expected {size}")
    return CertificateID(octets[start:end], digest, values[0], values[1], der.integer(values[2]))


def _nonce(octets: bytes, start: int, stop: int) -> bytes:
    for _, begin, end in der.elements(octets, start, stop, der.SEQUENCE):
        oid_start, position = der.expect(octets, begin, end, der.OBJECT_IDENTIFIER)
        if der.object_identifier(octets[oid_start:position]) != _NONCE_OID:
            continue
        if position < end and octets[position] == der.BOOLEAN:
            _, position = der.expect(octets, position, end, der.BOOLEAN)
        value_start, value_stop = der.expect(octets, position, end, der.OCTET_STRING)
        nonce_start, nonce_stop = der.expect(octets, value_start, value_stop, der.OCTET_STRING)
        if not MIN_NONCE <= nonce_stop - nonce_start <= MAX_NONCE:
            raise ParseError(f"OCSP request: got a nonce of {nonce_stop - nonce_start} octets, expected 1 to 128")
        return octets[nonce_start:nonce_stop]
    return b""


# ------------------------------------------------------------------ responses


def to_be_signed(
    statuses: Sequence[SingleStatus],
    responder_name: bytes,
    *,
    produced: dt.datetime,
    this_update: dt.datetime,
    next_update: dt.datetime,
    nonce: bytes = b"",
) -> bytes:
    """ResponseData in DER, of the responder whose name in DER this is: the CA itself."""
    extensions = b""
    if nonce:
        value = extension(_NONCE, der.encode(der.OCTET_STRING, nonce))
        extensions = der.encode(0xA1, der.encode(der.SEQUENCE, value))
    return der.encode(
        der.SEQUENCE,
        der.encode(0xA1, responder_name),
        _time(produced),
        der.encode(der.SEQUENCE, *(_single(each, this_update, next_update) for each in statuses)),
        extensions,
    )


def _single(status: SingleStatus, this_update: dt.datetime, next_update: dt.datetime) -> bytes:
    if not status.known:
        said = b"\x82\x00"
    elif status.revoked_at is None:
        said = b"\x80\x00"
    else:
        reason = der.encode(0xA0, der.encode(_ENUMERATED, bytes((REASON_CODES[status.reason],))))
        said = der.encode(0xA1, _time(status.revoked_at), reason)
    return der.encode(
        der.SEQUENCE, status.certificate.contents, said, _time(this_update), der.encode(0xA0, _time(next_update))
    )


def _time(moment: dt.datetime) -> bytes:
    """GeneralizedTime, as OCSP has it for every year."""
    utc = moment.astimezone(dt.UTC)
    return der.encode(der.GENERALIZED_TIME, f"{utc.year:04}{utc:%m%d%H%M%S}Z".encode())


def response(signed: bytes) -> bytes:
    """A successful OCSPResponse around a BasicOCSPResponse."""
    body = der.encode(der.SEQUENCE, _BASIC, der.encode(der.OCTET_STRING, signed))
    return der.encode(der.SEQUENCE, der.encode(_ENUMERATED, b"\x00"), der.encode(0xA0, body))


def _failure(status: int) -> bytes:
    return der.encode(der.SEQUENCE, der.encode(_ENUMERATED, bytes((status,))))


MALFORMED_RESPONSE = _failure(_MALFORMED)
TRY_LATER_RESPONSE = _failure(_TRY_LATER)
UNAUTHORIZED_RESPONSE = _failure(_UNAUTHORIZED)
"""Of a responder that knows nothing of the CA that is asked about (RFC 6960 section 2.3)."""
