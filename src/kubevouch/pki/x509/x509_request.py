"""PKCS #10 certificate requests, read as every Kubernetes component reads them.

The rule is to side with Go (1.26) wherever parsers disagree: a request that this process reads differently from the
component that issues or approves would let one thing be approved and another be signed.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from kubevouch.pki.errors import DERError, ParseError, SignatureError
from kubevouch.pki.x509 import der, pem, public_key, signature, subject_alt_names
from kubevouch.pki.x509.certificate_extensions import Extension
from kubevouch.pki.x509.public_key import PublicKey
from kubevouch.pki.x509.signature import SignatureAlgorithm
from kubevouch.pki.x509.subject import Subject, parse_requested
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames

MAX_REQUEST_BYTES = 64 << 10
"""Attestation evidence rides behind the request, so this is far above the 1 to 8 KiB of a request by itself."""

# Bounds what a poster of large requests can make the caches hold: 4 MiB.
_CACHED_REQUESTS = 512
_CACHED_BYTES = 8 << 10

_EXTENSION_REQUEST = bytes.fromhex("2a864886f70d01090e")  # 1.2.840.113549.1.9.14, PKCS #9
_ATTRIBUTES = 0xA0
_NO_BLOCK = "PEM block type must be CERTIFICATE REQUEST"


class CertificateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request whose signature has **not** been looked at; see :func:`verify_signature`.

    ``subject`` and ``alt_names`` are what Go sees. ``extensions`` are all the requested ones, of which only the
    subjectAltName ever reaches a certificate. ``contents`` is the DER of the whole, ``signed`` the part under the
    signature.
    """

    subject: Subject
    alt_names: SubjectAltNames
    public_key: PublicKey
    extensions: tuple[Extension, ...]
    version: int
    signature_algorithm: SignatureAlgorithm
    signature: bytes
    signed: bytes
    contents: bytes


def parse_pem(text: bytes, *, limit: int = MAX_REQUEST_BYTES) -> CertificateRequest:
    """The request in the first PEM block of ``spec.request``; what stands behind that block is ignored.

    Raises:
        ParseError: no block, a block of another type, or contents that do not parse; with Kubernetes' and Go's texts.
    """
    if len(text) > _CACHED_BYTES:
        return _parse_pem.__wrapped__(text, limit)
    return _parse_pem(text, limit)


# The server validates, admits and stores a request, then approver and signer look at the same bytes.
@lru_cache(maxsize=_CACHED_REQUESTS)
def _parse_pem(text: bytes, limit: int) -> CertificateRequest:
    block = pem.first_block(text, limit=limit)
    if block is None or block.type != pem.CERTIFICATE_REQUEST:
        raise ParseError(_NO_BLOCK)
    return parse_der(block.contents)


def parse_der(contents: bytes) -> CertificateRequest:
    """The request in ``contents``, all of it.

    Raises:
        ParseError: with Go's text.
    """
    # 1. The frame: CertificationRequest and CertificationRequestInfo (RFC 2986 section 4).
    end = len(contents)
    start, stop = der.expect(contents, 0, end, der.SEQUENCE, 0, "certificateRequest")
    info_start, info_stop = der.expect(contents, start, stop, der.SEQUENCE, start, "tbsCertificateRequest")
    position, behind = der.expect(contents, info_start, info_stop, der.INTEGER, info_start, "int")
    version = der.int64(contents[position:behind])
    name_at = behind
    name_end = der.element(contents, name_at, info_stop)[2]
    key_start, key_end, identifier, key_bits = _key_frame(contents, name_end, info_stop, info_start)
    position, behind = der.expect(contents, key_end, info_stop, _ATTRIBUTES, info_start, "")
    attributes = der.elements(contents, position, behind, None)
    position, behind = der.expect(contents, info_stop, stop, der.SEQUENCE, start, "AlgorithmIdentifier")
    algorithm = signature.algorithm_of(contents[position:behind])
    position, behind = der.expect(contents, behind, stop, der.BIT_STRING, start, "BitString")
    signature_octets = der.right_aligned(contents[position:behind])
    if stop != end:
        raise der.syntax_error("trailing data")
    # 2. The parts, in the order in which Go refuses them.
    key = public_key.parse(contents[key_start:key_end], identifier, key_bits)
    subject = parse_requested(contents, name_at, name_end)
    extensions = _requested_extensions(contents, attributes)
    alt_names = subject_alt_names.NONE
    for extension in extensions:
        if extension.oid == subject_alt_names.OID:
            alt_names = subject_alt_names.parse(extension.value)
    return CertificateRequest(
        subject=subject,
        alt_names=alt_names,
        public_key=key,
        extensions=extensions,
        version=version,
        signature_algorithm=algorithm,
        signature=signature_octets,
        signed=contents[start:info_stop],
        contents=contents,
    )


def _key_frame(octets: bytes, position: int, end: int, base: int) -> tuple[int, int, bytes, bytes]:
    """Bounds of the SubjectPublicKeyInfo, contents of its AlgorithmIdentifier, octets of its BIT STRING."""
    start, stop = der.expect(octets, position, end, der.SEQUENCE, base, "publicKeyInfo")
    begin, limit = der.expect(octets, start, stop, der.SEQUENCE, start, "AlgorithmIdentifier")
    identifier = octets[begin:limit]
    public_key.split_identifier(identifier)
    begin, limit = der.expect(octets, limit, stop, der.BIT_STRING, start, "BitString")
    return position, stop, identifier, der.right_aligned(octets[begin:limit])


def _requested_extensions(octets: bytes, attributes: list[tuple[int, int, int]]) -> tuple[Extension, ...]:
    """The extensions of every extensionRequest attribute; only the first value of an attribute counts.

    Attributes that do not parse are passed over, as Go does (challengePassword, unstructuredName).
    """
    requested: list[Extension] = []
    for position, _, end in attributes:
        value = _first_value_of_extension_request(octets, position, end)
        if value is None:
            continue
        extensions = _extensions(octets, *value)
        for extension in extensions:
            if any(extension.oid == seen.oid for seen in requested):
                raise ParseError("x509: certificate request contains duplicate requested extensions")
            requested.append(extension)
    return tuple(requested)


def _first_value_of_extension_request(octets: bytes, position: int, end: int) -> tuple[int, int] | None:
    try:
        start, stop = der.expect(octets, position, end, der.SEQUENCE)
        begin, limit = der.expect(octets, start, stop, der.OBJECT_IDENTIFIER)
        der.object_identifier(octets[begin:limit])
        is_request = octets[begin:limit] == _EXTENSION_REQUEST
        begin, limit = der.expect(octets, limit, stop, der.SET)
        values = der.elements(octets, begin, limit, None)
    except DERError:
        return None
    return (values[0][0], values[0][2]) if is_request and values else None


def _extensions(octets: bytes, position: int, end: int) -> list[Extension]:
    start, stop = der.expect(octets, position, end, der.SEQUENCE, position, "")
    extensions = []
    for _, begin, limit in der.elements(octets, start, stop, der.SEQUENCE):
        oid_start, oid_stop = der.expect(octets, begin, limit, der.OBJECT_IDENTIFIER, begin, "ObjectIdentifier")
        oid = der.object_identifier(octets[oid_start:oid_stop])
        critical, at = False, oid_stop
        if at < limit and octets[at] == der.BOOLEAN:
            value_start, at = der.expect(octets, at, limit, der.BOOLEAN)
            critical = der.boolean(octets[value_start:at])
        value_start, value_stop = der.expect(octets, at, limit, der.OCTET_STRING, begin, "")
        extensions.append(Extension(oid, critical, octets[value_start:value_stop]))
    return extensions


def verify_signature(request: CertificateRequest, *, post_quantum: bool = False) -> CertificateRequest:
    """The request itself, once its signature by its own key has verified (RFC 2986 section 4.2, step 2).

    It proves that the poster once held the key; it proves neither when nor for which cluster. SHA-1 passes, as in Go:
    what refuses it is the strict profile.

    Args:
        post_quantum: also accept ML-DSA, which Kubernetes 1.36 refuses.

    Raises:
        SignatureError: with Go's text.
    """
    question = _Question(request, post_quantum)
    failure = _failure(question) if len(request.contents) <= _CACHED_BYTES else _failure.__wrapped__(question)
    if failure:
        raise SignatureError(failure)
    return request


class _Question:
    """What a verdict depends on, so that the signer need not verify again what the API server has verified."""

    __slots__ = ("key", "post_quantum", "request")

    def __init__(self, request: CertificateRequest, post_quantum: bool) -> None:
        self.request = request
        self.post_quantum = post_quantum
        self.key = (
            request.signed,
            request.signature,
            request.signature_algorithm.name,
            request.public_key.info,
            post_quantum,
        )

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Question) and self.key == other.key


@lru_cache(maxsize=_CACHED_REQUESTS)
def _failure(question: _Question) -> str:
    request = question.request
    try:
        signature.verify(
            request.signature_algorithm,
            request.public_key,
            request.signed,
            request.signature,
            allow_sha1=True,
            post_quantum=question.post_quantum,
        )
    except SignatureError as error:
        return str(error)
    return ""
