"""X.509 certificates, read as Go's certificate parser (Go 1.26 ``crypto/x509``) reads them.

It decides what may stand in ``status.certificate`` and what a client certificate says. Parsing proves nothing: see
``client_certificate.py`` for that. Names, times and extensions are judged as there; the extensions' contents that
nothing here uses are checked only as far as Go's parser refuses them (``certificate_extensions.py``).
"""

from __future__ import annotations

import datetime as dt
import hashlib
from functools import lru_cache

import msgspec

from kubevouch.machinery.text.gotext import quote
from kubevouch.pki.errors import DERError, ParseError
from kubevouch.pki.x509 import asn1_time, der, pem, public_key, signature
from kubevouch.pki.x509.certificate_extensions import Extension, Extensions, interpret
from kubevouch.pki.x509.public_key import PublicKey
from kubevouch.pki.x509.signature import SignatureAlgorithm
from kubevouch.pki.x509.subject import Subject, parse_certified

# ecdsa-with-SHA256, a P-256 key, sha256WithRSAEncryption, an RSA key: read by comparing.
_COMMON_IDENTIFIERS = frozenset(
    bytes.fromhex(identifier)
    for identifier in (
        "06082a8648ce3d040302",
        "06072a8648ce3d020106082a8648ce3d030107",
        "06092a864886f70d01010b0500",
        "06092a864886f70d0101010500",
    )
)
# Bounds what others can make the cache hold: 1 MiB of certificates.
_CACHED_CERTIFICATES = 256
_CACHED_BYTES = 4 << 10
_VERSION = 0xA0
_ISSUER_ID = 0x81
_SUBJECT_ID = 0x82
_EXTENSIONS = 0xA3


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate of which nothing has been verified.

    Args:
        contents: the whole certificate in DER; ``signed`` is the part under the signature.
        version: 1, 2 or 3.
        issuer_name: the issuer's Name in DER, as it came; likewise ``subject_name``.
        not_before: in UTC; valid at this moment and at ``not_after``.
        extensions: every one, as it came; what they say is in ``meaning``.
    """

    contents: bytes
    signed: bytes
    version: int
    serial: int
    issuer: Subject
    issuer_name: bytes
    subject: Subject
    subject_name: bytes
    not_before: dt.datetime
    not_after: dt.datetime
    public_key: PublicKey
    extensions: tuple[Extension, ...]
    meaning: Extensions
    signature_algorithm: SignatureAlgorithm
    signature: bytes

    def fingerprint(self) -> bytes:
        """SHA-256 of the whole certificate."""
        return hashlib.sha256(self.contents).digest()

    def pem(self) -> bytes:
        return pem.encode(pem.CERTIFICATE, self.contents)


class _Reader:
    """A position in one element; a failed step is refused in the words that belong to it."""

    __slots__ = ("_end", "_octets", "position")

    def __init__(self, octets: bytes, position: int, end: int) -> None:
        self._octets = octets
        self.position = position
        self._end = end

    def step(self, tag: int, refusal: str) -> tuple[int, int]:
        """Bounds of the contents of the next element, which must have this tag."""
        octets, start = self._octets, self.position + 2
        # Nearly every element has one octet of tag and one of length: this halves the time of a parse.
        if start <= self._end and octets[start - 2] == tag and octets[start - 1] < 0x80:
            stop = start + octets[start - 1]
            if stop <= self._end:
                self.position = stop
                return start, stop
        try:
            start, stop = der.expect(octets, self.position, self._end, tag)
        except DERError as error:
            raise ParseError(f"x509: {refusal}") from error
        self.position = stop
        return start, stop

    def contents(self, tag: int, refusal: str) -> bytes:
        start, stop = self.step(tag, refusal)
        return self._octets[start:stop]

    def next_is(self, tag: int) -> bool:
        return self.position < self._end and self._octets[self.position] == tag


def parse_der(contents: bytes) -> Certificate:
    """The one certificate in ``contents``.

    Raises:
        ParseError: with Go's text.
    """
    certificate = _at(contents, 0)
    if len(certificate.contents) != len(contents):
        raise ParseError("x509: trailing data")
    return certificate


def parse_draft(contents: bytes) -> Certificate:
    """As :func:`parse_der`, of what nobody looks at twice: it takes no place among the remembered ones."""
    return _parse(contents, 0)


def parse_concatenated(contents: bytes) -> list[Certificate]:
    """The certificates that follow each other in ``contents`` without a gap. Raises :class:`ParseError`."""
    certificates = []
    position = 0
    while position < len(contents):
        certificates.append(_at(contents, position))
        position += len(certificates[-1].contents)
    return certificates


def parse_pem(text: bytes) -> Certificate:
    """The first certificate of the first CERTIFICATE block; other blocks before it are passed over.

    Raises:
        ParseError: there is none, or it does not parse.
    """
    for block in pem.blocks(text):
        if block.type == pem.CERTIFICATE:
            return parse_der(block.contents)
    raise ParseError("no CERTIFICATE block found")


def parse_bundle(text: bytes) -> list[Certificate]:
    """Every certificate of a PEM bundle, as client-go's ``ParseCertsPEM`` reads a CA file.

    Blocks of another type, and blocks with headers, are passed over.

    Raises:
        ParseError: a block does not parse, or there is none.
    """
    certificates = [
        certificate
        for block in pem.blocks(text)
        if block.type == pem.CERTIFICATE and not block.headers
        for certificate in parse_concatenated(block.contents)
    ]
    if not certificates:
        raise ParseError("data does not contain any valid RSA or ECDSA certificates")
    return certificates


def _at(octets: bytes, at: int) -> Certificate:
    return _parse_first(octets) if at == 0 and len(octets) <= _CACHED_BYTES else _parse(octets, at)


# The signer looks at what it has signed, then the server at the same bytes in the status, then controllers.
@lru_cache(maxsize=_CACHED_CERTIFICATES)
def _parse_first(octets: bytes) -> Certificate:
    return _parse(octets, 0)


def _parse(octets: bytes, at: int) -> Certificate:
    outer = _Reader(octets, at, len(octets))
    start, stop = outer.step(der.SEQUENCE, "malformed certificate")
    frame = _Reader(octets, start, stop)
    info_start, info_stop = frame.step(der.SEQUENCE, "malformed tbs certificate")
    info = _Reader(octets, info_start, info_stop)
    version = _version(octets, info)
    serial = _serial(info)
    algorithm = _algorithm(frame, info)
    position = info.position
    info.step(der.SEQUENCE, "malformed issuer")
    issuer_name = octets[position : info.position]
    issuer = parse_certified(issuer_name)
    not_before, not_after = _validity(octets, *info.step(der.SEQUENCE, "malformed validity"))
    position = info.position
    info.step(der.SEQUENCE, "malformed issuer")
    subject_name = octets[position : info.position]
    subject = issuer if subject_name == issuer_name else parse_certified(subject_name)
    key = _key(octets, info)
    extensions: tuple[Extension, ...] = ()
    if version > 1:
        extensions = _extensions(octets, info, version)
    meaning = interpret(extensions)
    signed_by = frame.contents(der.BIT_STRING, "malformed signature")
    try:
        signature_octets = der.right_aligned(signed_by)
    except DERError as error:
        raise ParseError("x509: malformed signature") from error
    return Certificate(
        contents=octets[at : outer.position],
        signed=octets[start:info_stop],
        version=version,
        serial=serial,
        issuer=issuer,
        issuer_name=issuer_name,
        subject=subject,
        subject_name=subject_name,
        not_before=not_before,
        not_after=not_after,
        public_key=key,
        extensions=extensions,
        meaning=meaning,
        signature_algorithm=algorithm,
        signature=signature_octets,
    )


def _version(octets: bytes, info: _Reader) -> int:
    if not info.next_is(_VERSION):
        return 1
    start, stop = info.step(_VERSION, "malformed version")
    inner = _Reader(octets, start, stop)
    contents = inner.contents(der.INTEGER, "malformed version")
    try:
        version = der.int64(contents)
    except DERError as error:
        raise ParseError("x509: malformed version") from error
    if inner.position != stop or version < 0:
        raise ParseError("x509: malformed version")
    if version > 2:
        raise ParseError("x509: invalid version")
    return version + 1


def _serial(info: _Reader) -> int:
    try:
        serial = der.integer(info.contents(der.INTEGER, "malformed serial number"))
    except DERError as error:
        raise ParseError("x509: malformed serial number") from error
    if serial < 0:
        raise ParseError("x509: negative serial number")
    return serial


def _algorithm(frame: _Reader, info: _Reader) -> SignatureAlgorithm:
    inner = info.contents(der.SEQUENCE, "malformed signature algorithm identifier")
    outer = frame.contents(der.SEQUENCE, "malformed algorithm identifier")
    if inner != outer:
        raise ParseError("x509: inner and outer signature algorithm identifiers don't match")
    check_identifier(inner)
    return signature.algorithm_of(inner)


def check_identifier(identifier: bytes) -> None:
    """Refuse the contents of an AlgorithmIdentifier as Go does. Raises :class:`ParseError`."""
    if identifier in _COMMON_IDENTIFIERS:
        return
    reader = _Reader(identifier, 0, len(identifier))
    try:
        der.object_identifier(reader.contents(der.OBJECT_IDENTIFIER, "malformed OID"))
    except DERError as error:
        raise ParseError("x509: malformed OID") from error
    if reader.position < len(identifier):
        try:
            tag = der.element(identifier, reader.position, len(identifier))[0]
        except DERError as error:
            raise ParseError("x509: malformed parameters") from error
        if tag > 0xFF:
            raise ParseError("x509: malformed parameters")


def _validity(octets: bytes, start: int, stop: int) -> tuple[dt.datetime, dt.datetime]:
    not_before, position = _time(octets, start, stop)
    return not_before, _time(octets, position, stop)[0]


def _time(octets: bytes, position: int, end: int) -> tuple[dt.datetime, int]:
    tag = octets[position] if position < end else 0
    if tag not in {der.UTC_TIME, der.GENERALIZED_TIME}:
        raise ParseError("x509: unsupported time format")
    try:
        start, stop = der.expect(octets, position, end, tag)
        return asn1_time.parse(tag, octets[start:stop]), stop
    except DERError as error:
        kind = "UTCTime" if tag == der.UTC_TIME else "GeneralizedTime"
        raise ParseError(f"x509: malformed {kind}") from error


def _key(octets: bytes, info: _Reader) -> PublicKey:
    position = info.position
    reader = _Reader(octets, *info.step(der.SEQUENCE, "malformed spki"))
    identifier = reader.contents(der.SEQUENCE, "malformed public key algorithm identifier")
    check_identifier(identifier)
    bits = reader.contents(der.BIT_STRING, "malformed subjectPublicKey")
    try:
        aligned = der.right_aligned(bits)
    except DERError as error:
        raise ParseError("x509: malformed subjectPublicKey") from error
    return public_key.parse(octets[position : info.position], identifier, aligned)


def _extensions(octets: bytes, info: _Reader, version: int) -> tuple[Extension, ...]:
    if info.next_is(_ISSUER_ID):
        info.step(_ISSUER_ID, "malformed issuerUniqueID")
    if info.next_is(_SUBJECT_ID):
        info.step(_SUBJECT_ID, "malformed subjectUniqueID")
    if version < 3 or not info.next_is(_EXTENSIONS):
        return ()
    wrapper = _Reader(octets, *info.step(_EXTENSIONS, "malformed extensions"))
    start, stop = wrapper.step(der.SEQUENCE, "malformed extensions")
    extensions: dict[str, Extension] = {}
    reader = _Reader(octets, start, stop)
    while reader.position < stop:
        extension = _extension(_Reader(octets, *reader.step(der.SEQUENCE, "malformed extension")))
        if extension.oid in extensions:
            raise ParseError(f"x509: certificate contains duplicate extension with OID {quote(extension.oid)}")
        extensions[extension.oid] = extension
    return tuple(extensions.values())


def _extension(reader: _Reader) -> Extension:
    try:
        oid = der.object_identifier(reader.contents(der.OBJECT_IDENTIFIER, "malformed extension OID field"))
    except DERError as error:
        raise ParseError("x509: malformed extension OID field") from error
    critical = False
    if reader.next_is(der.BOOLEAN):
        refusal = "malformed extension critical field"
        try:
            critical = der.boolean(reader.contents(der.BOOLEAN, refusal))
        except DERError as error:
            raise ParseError(f"x509: {refusal}") from error
    return Extension(oid, critical, reader.contents(der.OCTET_STRING, "malformed extension value field"))
