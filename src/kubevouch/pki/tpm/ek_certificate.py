"""Certificates by which a maker of TPMs vouches for endorsement keys (TCG EK Credential Profile 2.5).

What libraries for X.509 refuse is usual here: no subject, and in its place a critical subjectAltName that holds nothing
but a directory name. What they let through is not: makers' CAs that have the same name and another key.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence

import msgspec

from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.pki.device_chain import verify_way
from kubevouch.pki.errors import DERError, DeviceChainError, ParseError, StructureError
from kubevouch.pki.tpm.marshalling import Reader
from kubevouch.pki.x509 import certificate_extensions, der, x509_certificate
from kubevouch.pki.x509.public_key import KeyKind
from kubevouch.pki.x509.subject import parse_certified
from kubevouch.pki.x509.x509_certificate import Certificate

MAX_CERTIFICATE_BYTES = 8 << 10
"""Of an NV index, or a certificate; real ones have 1 to 2 KiB."""
MAX_CHAIN = 6
"""Certificates that a node may show beside that of its endorsement key."""

# TCG_PCCLIENT_STORED_CERT (PC Client Implementation Specification for Conventional BIOS 1.21, 7.4.5): tag, type "full".
_STORED = bytes.fromhex("100100")
_RSA_IDENTIFIER = bytes.fromhex("300d06092a864886f70d0101010500")
# id-RSAES-OAEP, by which the oldest certificates call an RSA key (TCG credential profile 1.1, RFC 4055 section 4).
_OAEP = bytes.fromhex("06092a864886f70d010107")

_EK_CERTIFICATE = "2.23.133.8.1"
_MANUFACTURER, _MODEL, _FIRMWARE = "2.23.133.2.1", "2.23.133.2.2", "2.23.133.2.3"
_DIRECTORY_NAME = 0xA4
_OTHER_NAME = 0xA0
_MANUFACTURER_FORM = re.compile(r"id:[0-9A-Fa-f]{8}", re.ASCII)
_KEY_ENCIPHERMENT_BIT = 2
_KEY_AGREEMENT_BIT = 4
_CERT_SIGN_BIT = 5
_VERSION = 0xA0


class Endorsed(msgspec.Struct, frozen=True):
    """What a maker says of his TPM. ``manufacturer`` is ``id:`` and his four letters in hexadecimal."""

    manufacturer: str
    model: str
    firmware: str


def from_nv(octets: bytes) -> bytes:
    """The certificate in the contents of an NV index, or in a bare one: what its own DER covers.

    Raises:
        StructureError: there is none, or something else than padding stands behind it.
    """
    reader = Reader(octets, "EK certificate")
    if reader.left > MAX_CERTIFICATE_BYTES:
        raise reader.refusal(f"got {reader.left} bytes, expected at most {MAX_CERTIFICATE_BYTES}")
    if octets.startswith(_STORED):
        reader.octets(len(_STORED) + 2)
    start = reader.position
    try:
        stop = der.expect(octets, start, len(octets), der.SEQUENCE)[1]
    except DERError as err:
        raise reader.refusal(str(err)) from err
    padding = octets[stop:]
    # An index is made larger than its certificate and keeps what was in it: zeros, or the ones of erased flash.
    if padding.strip(b"\0") and padding.strip(b"\xff"):
        raise reader.refusal(f"got {len(padding)} bytes behind the certificate, expected padding")
    return octets[start:stop]


def parse(contents: bytes) -> Certificate:
    """The certificate, also in the known wrong encodings of some makers.

    Those are a serial number that is negative or not minimal, and a key that is called one for OAEP. They are put right
    in a copy, which is read; what the signature is over, and the fingerprint, stay as they came.

    Raises:
        StructureError
    """
    try:
        signed, corrected = _corrected(contents)
        read = x509_certificate.parse_draft(corrected)
    except ParseError as err:
        raise StructureError(f"EK certificate: {err}") from err
    return msgspec.structs.replace(read, contents=contents, signed=signed)


def _corrected(contents: bytes) -> tuple[bytes, bytes]:
    """The part under the signature as it came, and the whole certificate put right."""
    start, stop = der.expect(contents, 0, len(contents), der.SEQUENCE)
    inner, inner_stop = der.expect(contents, start, stop, der.SEQUENCE)
    fields = der.elements(contents, inner, inner_stop, None)
    written = [contents[at:end] for at, _, end in fields]
    serial = 1 if written and written[0][0] == _VERSION else 0
    key = serial + 5
    if len(fields) <= key or written[serial][0] != der.INTEGER or written[key][0] != der.SEQUENCE:
        raise ParseError("x509: malformed tbs certificate")
    _, begin, end = fields[serial]
    written[serial] = der.encode_integer(int.from_bytes(contents[begin:end], "big"))
    members = der.elements(contents, fields[key][1], fields[key][2], None)
    if len(members) == 2 and contents[members[0][1] : members[0][2]].startswith(_OAEP):
        written[key] = der.encode(der.SEQUENCE, _RSA_IDENTIFIER, contents[members[1][0] : members[1][2]])
    corrected = der.encode(der.SEQUENCE, der.encode(der.SEQUENCE, *written), contents[inner_stop:stop])
    return contents[start:inner_stop], corrected


def verify(
    certificate: Certificate, others: Sequence[Certificate], roots: TrustAnchors, now: dt.datetime
) -> tuple[tuple[Certificate, ...], Endorsed]:
    """The way to one of ``roots``, and who has made the TPM.

    Args:
        others: certificates that may lie between, in any order.

    Raises:
        DeviceChainError: with the ``step``: those of :func:`~kubevouch.pki.device_chain.verify_way`, then ``ca``,
            ``key-usage``, ``san``.
    """
    alt_names = frozenset({certificate_extensions.SUBJECT_ALT_NAME})
    way = verify_way(certificate, others, roots, now=now, usage=_EK_CERTIFICATE, understood=alt_names)
    meaning = certificate.meaning
    if meaning.is_ca:
        raise DeviceChainError("ca", "got the certificate of a CA, expected that of an endorsement key")
    is_rsa = certificate.public_key.kind is KeyKind.RSA
    bit = _KEY_ENCIPHERMENT_BIT if is_rsa else _KEY_AGREEMENT_BIT
    if meaning.key_usage and (bit not in meaning.key_usage or _CERT_SIGN_BIT in meaning.key_usage):
        wanted = "key encipherment" if is_rsa else "key agreement"
        raise DeviceChainError("key-usage", f"the certificate's key is not for {wanted}")
    manufacturer, model, firmware = _names(certificate)
    return way, Endorsed(manufacturer, model, firmware)


def _names(certificate: Certificate) -> tuple[str, str, str]:
    extension = next((e for e in certificate.extensions if e.oid == certificate_extensions.SUBJECT_ALT_NAME), None)
    if extension is None:
        raise DeviceChainError("san", "the certificate has no subjectAltName, expected a directoryName")
    if not extension.critical and not certificate.subject.attributes:
        raise DeviceChainError("san", "the certificate has no subject, and its subjectAltName is not critical")
    value = extension.value
    try:
        start, stop = der.expect(value, 0, len(value), der.SEQUENCE)
        names = der.elements(value, start, stop, None)
        directory = [value[begin:end] for at, begin, end in names if value[at] == _DIRECTORY_NAME]
        if (
            stop != len(value)
            or len(directory) != 1
            or any(value[at] not in {_DIRECTORY_NAME, _OTHER_NAME} for at, _, _ in names)
        ):
            raise DeviceChainError("san", f"got {len(directory)} directoryNames of {len(names)} names, expected one")
        if der.expect(directory[0], 0, len(directory[0]), der.SEQUENCE)[1] != len(directory[0]):
            raise DeviceChainError("san", "got bytes behind the directoryName")
        subject = parse_certified(directory[0])
    except ParseError as err:
        raise DeviceChainError("san", f"the subjectAltName cannot be read: {err}") from err
    found = []
    for oid, what in ((_MANUFACTURER, "manufacturer"), (_MODEL, "model"), (_FIRMWARE, "version")):
        values = subject.values(oid)
        if len(values) != 1 or not values[0]:
            raise DeviceChainError("san", f"got {len(values)} values of the TPM's {what} ({oid}), expected one")
        found.append(values[0][:256])
    if _MANUFACTURER_FORM.fullmatch(found[0]) is None:
        raise DeviceChainError("san", f"got the manufacturer {found[0][:32]!r}, expected id: and 8 hexadecimal digits")
    return found[0], found[1], found[2]
