"""Signed documents of clouds: CMS SignedData (RFC 5652; PKCS #7 before it), with one signer and the document in it.

Nothing is left open that a signer could not have meant: one signature, one digest named in both places, the document
inside, no octet behind the structure. Indefinite lengths (X.690 section 8.1.3.6) are read where AWS writes them, from
the outside down to the document; whatever stands inside an element of known length has to be DER. Why this is our own:
docs/adr/0031-own-cms.md.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa

from kubevouch.pki.errors import DERError, KeyMaterialError, ParseError, SignatureError
from kubevouch.pki.x509 import der, signature, x509_certificate
from kubevouch.pki.x509.public_key import OID_DSA, OID_RSA, KeyKind, PublicKey, split_identifier
from kubevouch.pki.x509.signature import Digest, SignatureAlgorithm
from kubevouch.pki.x509.x509_certificate import Certificate

MAX_BYTES = 64 << 10
MAX_CERTIFICATES = 8
MAX_ATTRIBUTES = 32
_MAX_DEPTH = 8

_SIGNED_DATA = "1.2.840.113549.1.7.2"
_DATA = "1.2.840.113549.1.7.1"
_CONTENT_TYPE = "1.2.840.113549.1.9.3"
_MESSAGE_DIGEST = "1.2.840.113549.1.9.4"
_DIGESTS = {
    "1.3.14.3.2.26": Digest.SHA1,
    "2.16.840.1.101.3.4.2.1": Digest.SHA256,
    "2.16.840.1.101.3.4.2.2": Digest.SHA384,
    "2.16.840.1.101.3.4.2.3": Digest.SHA512,
}
# The key's algorithm in place of that of the signature: then the digest is said elsewhere (RFC 3370 section 3).
_BARE = {OID_RSA: KeyKind.RSA, OID_DSA: KeyKind.DSA}
_DSA_DIGESTS = {Digest.SHA1: hashes.SHA1(), Digest.SHA256: hashes.SHA256()}  # noqa: S303  only where the caller lets SHA-1 pass
_NULL = b"\x05\x00"
_TAGGED_0, _TAGGED_1, _KEY_ID = 0xA0, 0xA1, 0x80
_CONSTRUCTED_OCTETS = 0x24


class SignedData(msgspec.Struct, frozen=True, kw_only=True):
    """A document with a signature that nobody has verified.

    Args:
        content: the document.
        certificates: that came with it, from whoever sent it.
        issuer_name, serial: of the signer's certificate, or else ``key_id``.
        attributes: what is signed in place of the content, a SET OF in DER; empty if the content is.
        message_digest: of the content, as the attributes say.
    """

    content: bytes
    certificates: tuple[Certificate, ...]
    digest: Digest
    algorithm: SignatureAlgorithm
    signature: bytes
    issuer_name: bytes = b""
    serial: int = 0
    key_id: bytes = b""
    attributes: bytes = b""
    message_digest: bytes = b""

    def names(self, certificate: Certificate) -> bool:
        """Whether ``certificate`` is what the signer says his is."""
        if self.key_id:
            return certificate.meaning.subject_key_id == self.key_id
        return (certificate.issuer_name, certificate.serial) == (self.issuer_name, self.serial)


def verify(signed: SignedData, certificate: Certificate, *, allow_sha1: bool = False) -> bytes:
    """The content, signed by the key of ``certificate``, about which nothing else is verified.

    Args:
        certificate: from outside, or of ``signed.certificates``: then its chain is the caller's to verify.
        allow_sha1: let SHA-1 pass.

    Raises:
        SignatureError: another signer, or the signature does not verify.
    """
    if not signed.names(certificate):
        raise SignatureError("signed with another certificate than the expected one")
    if signed.digest is Digest.SHA1 and not allow_sha1:
        raise SignatureError("signed with SHA-1, expected SHA-256 or stronger")
    octets = signed.content
    if signed.attributes:
        found = hashlib.new(signed.digest.lower(), signed.content, usedforsecurity=False).digest()
        if not hmac.compare_digest(found, signed.message_digest):
            raise SignatureError("the signed digest is not that of the content")
        octets = signed.attributes
    if signed.algorithm.kind is KeyKind.DSA:
        _verify_dsa(signed.algorithm, certificate.public_key, octets, signed.signature)
    else:
        signature.verify(signed.algorithm, certificate.public_key, octets, signed.signature, allow_sha1=allow_sha1)
    return signed.content


def signer(signed: SignedData) -> Certificate:
    """The signer's certificate, of those that came along. Raises :class:`SignatureError` unless it is exactly one."""
    found = [each for each in signed.certificates if signed.names(each)]
    if len(found) != 1:
        raise SignatureError(f"got {len(found)} certificates of the signer, expected one")
    return found[0]


def _verify_dsa(algorithm: SignatureAlgorithm, key: PublicKey, signed: bytes, octets: bytes) -> None:
    digest = _DSA_DIGESTS.get(algorithm.digest)
    try:
        loaded = key.key()
    except KeyMaterialError as err:
        raise SignatureError(f"DSA: {err}") from err
    if digest is None or not isinstance(loaded, dsa.DSAPublicKey):
        raise SignatureError(f"signature algorithm specifies {algorithm.name}, but the public key is {key.name}")
    try:
        loaded.verify(octets, signed, digest)
    except (InvalidSignature, ValueError) as err:
        raise SignatureError("DSA verification failure") from err


# ------------------------------------------------------------------ reading


def parse_base64(text: str) -> SignedData:
    """As :func:`parse`, of base64 in lines, without armour, as metadata services give it."""
    packed = "".join(text[: 2 * MAX_BYTES].split()) if text.isascii() else "?"
    if len(packed) % 4 or packed.endswith("==="):
        raise ParseError("CMS: not base64")
    try:
        return parse(binascii.a2b_base64(packed, strict_mode=True))
    except binascii.Error as err:
        raise ParseError("CMS: not base64") from err


def parse(contents: bytes) -> SignedData:
    """The one structure in ``contents``. Raises :class:`ParseError`."""
    if len(contents) > MAX_BYTES:
        raise ParseError(f"CMS: got {len(contents)} bytes, expected {MAX_BYTES} at most")
    try:
        return _content_info(_Reader(_definite(contents)))
    except DERError as err:
        raise ParseError(f"CMS: {err}") from err


class _Reader:
    """A position in the contents of one element."""

    __slots__ = ("_end", "_octets", "_position")

    def __init__(self, octets: bytes, start: int = 0, end: int | None = None) -> None:
        self._octets = octets
        self._position = start
        self._end = len(octets) if end is None else end

    def inside(self, tag: int) -> _Reader:
        """A reader of the next element, which must have this identifier."""
        start, self._position = der.expect(self._octets, self._position, self._end, tag)
        return _Reader(self._octets, start, self._position)

    def contents(self, tag: int) -> bytes:
        return self.inside(tag).rest()

    def rest(self) -> bytes:
        return self._octets[self._position : self._end]

    def next_is(self, tag: int) -> bool:
        return self._position < self._end and self._octets[self._position] == tag

    def whole(self, tag: int) -> bytes:
        """The next element with its identifier and length."""
        begin = self._position
        self.inside(tag)
        return self._octets[begin : self._position]

    def each(self, tag: int, most: int, what: str) -> list[_Reader]:
        bounds = der.elements(self._octets, self._position, self._end, tag)
        if len(bounds) > most:
            raise ParseError(f"CMS: got {len(bounds)} {what}, expected {most} at most")
        self._position = self._end
        return [_Reader(self._octets, start, stop) for _, start, stop in bounds]

    def end(self) -> None:
        if self._position != self._end:
            raise ParseError("CMS: trailing data")


def _content_info(reader: _Reader) -> SignedData:
    outer = reader.inside(der.SEQUENCE)
    reader.end()
    _expect_type(outer, _SIGNED_DATA)
    wrapper = outer.inside(_TAGGED_0)
    outer.end()
    signed = wrapper.inside(der.SEQUENCE)
    wrapper.end()
    version = der.integer(signed.contents(der.INTEGER))
    algorithms = signed.inside(der.SET).each(der.SEQUENCE, 1, "digest algorithms")
    content = _content(signed.inside(der.SEQUENCE))
    certificates: tuple[Certificate, ...] = ()
    if signed.next_is(_TAGGED_0):
        listed = signed.inside(_TAGGED_0).each(der.SEQUENCE, MAX_CERTIFICATES, "certificates")
        certificates = tuple(x509_certificate.parse_draft(der.encode(der.SEQUENCE, each.rest())) for each in listed)
    signers = signed.inside(der.SET).each(der.SEQUENCE, 1, "signers")
    signed.end()
    if not signers or not algorithms:
        raise ParseError("CMS: expected one signer and one digest algorithm, got none")
    found = _signer_info(signers[0], _digest(algorithms[0].rest()), content, certificates)
    if version != (3 if found.key_id else 1):  # RFC 5652 section 5.1
        raise ParseError(f"CMS: got version {version} of SignedData, which is not that of its signer")
    return found


def _expect_type(reader: _Reader, wanted: str) -> None:
    got = der.object_identifier(reader.contents(der.OBJECT_IDENTIFIER))
    if got != wanted:
        raise ParseError(f"CMS: got content of type {got}, expected {wanted}")


def _content(reader: _Reader) -> bytes:
    _expect_type(reader, _DATA)
    if not reader.next_is(_TAGGED_0):
        raise ParseError("CMS: the content is not inside, expected it there")
    wrapper = reader.inside(_TAGGED_0)
    reader.end()
    content = wrapper.contents(der.OCTET_STRING)
    wrapper.end()
    return content


def _signer_info(reader: _Reader, digest: Digest, content: bytes, certificates: tuple[Certificate, ...]) -> SignedData:
    version = der.integer(reader.contents(der.INTEGER))
    issuer_name, serial, key_id = b"", 0, b""
    if reader.next_is(_KEY_ID):
        key_id = reader.contents(_KEY_ID)
    else:
        named = reader.inside(der.SEQUENCE)
        issuer_name = named.whole(der.SEQUENCE)
        serial = der.integer(named.contents(der.INTEGER))
        named.end()
    if version != (3 if key_id else 1):
        raise ParseError(
            f"CMS: got version {version} of SignerInfo, which is not that of its signer's name"
        )  # section 5.3
    if _digest(reader.contents(der.SEQUENCE)) is not digest:
        raise ParseError("CMS: the signer's digest algorithm is not the announced one")
    attributes = message_digest = b""
    if reader.next_is(_TAGGED_0):
        # Signed as the SET OF that they are, not with the identifier of their place (RFC 5652 section 5.4).
        attributes = der.encode(der.SET, reader.contents(_TAGGED_0))
        message_digest = _message_digest(_Reader(attributes).inside(der.SET))
    elif _is_set(content):
        # RFC 5652 section 5.4 leaves it open whether attributes were signed or a content that reads like them.
        raise ParseError("CMS: the content is a SET, expected a document")
    algorithm = _algorithm(reader.contents(der.SEQUENCE), digest)
    octets = reader.contents(der.OCTET_STRING)
    if reader.next_is(_TAGGED_1):
        reader.inside(_TAGGED_1)  # nobody has signed these
    reader.end()
    return SignedData(
        content=content,
        certificates=certificates,
        digest=digest,
        algorithm=algorithm,
        signature=octets,
        issuer_name=issuer_name,
        serial=serial,
        key_id=key_id,
        attributes=attributes,
        message_digest=message_digest,
    )


def _message_digest(reader: _Reader) -> bytes:
    """The attribute of that name; that of the content's type has to be there, and none twice (RFC 5652 section 11)."""
    values: dict[str, _Reader] = {}
    for attribute in reader.each(der.SEQUENCE, MAX_ATTRIBUTES, "signed attributes"):
        name = der.object_identifier(attribute.contents(der.OBJECT_IDENTIFIER))
        if name in values:
            raise ParseError(f"CMS: got the signed attribute {name} twice")
        values[name] = attribute.inside(der.SET)
        attribute.end()
    if _CONTENT_TYPE not in values or _MESSAGE_DIGEST not in values:
        raise ParseError("CMS: expected content type and message digest among the signed attributes")
    _expect_type(values[_CONTENT_TYPE], _DATA)
    digest = values[_MESSAGE_DIGEST].contents(der.OCTET_STRING)
    for each in (values[_CONTENT_TYPE], values[_MESSAGE_DIGEST]):
        each.end()
    return digest


def _digest(identifier: bytes) -> Digest:
    oid, parameters = _identifier(identifier)
    found = _DIGESTS.get(oid)
    if found is None or parameters not in (b"", _NULL):
        raise ParseError(f"CMS: got digest algorithm {oid}, expected SHA-1 or SHA-2 without parameters")
    return found


def _algorithm(identifier: bytes, digest: Digest) -> SignatureAlgorithm:
    oid, parameters = _identifier(identifier)
    bare = _BARE.get(oid)
    if bare is not None and parameters in (b"", _NULL):
        return SignatureAlgorithm(f"{digest}-{bare}", bare, digest)
    algorithm = signature.algorithm_of(identifier)
    if algorithm.digest is not digest or not (algorithm.pss or parameters in (b"", _NULL)):
        raise ParseError(f"CMS: got signature algorithm {oid}, expected one with {digest}")
    return algorithm


def _identifier(contents: bytes) -> tuple[str, bytes]:
    oid, parameters = split_identifier(contents)
    if der.encode_object_identifier(oid) + parameters != contents:
        raise ParseError("CMS: trailing data in an algorithm")
    return oid, parameters


def _is_set(content: bytes) -> bool:
    try:
        return der.element(content, 0, len(content))[::2] == (der.SET, len(content))
    except DERError:
        return False


# ------------------------------------------------------------------ indefinite lengths


def _definite(octets: bytes) -> bytes:
    """The one element in ``octets``, without indefinite lengths around the content and without segments of it."""
    if octets[1:2] != b"\x80":
        return octets
    element, behind = _rewritten(octets, 0, len(octets), _MAX_DEPTH)
    return element + octets[behind:]  # what is behind is refused by who reads on


def _rewritten(octets: bytes, position: int, end: int, depth: int) -> tuple[bytes, int]:
    """The element at ``position`` with a definite length, and where it stopped."""
    if not depth:
        raise der.structure_error("too many levels of indefinite length")
    if position + 2 > end:
        raise der.syntax_error("truncated tag or length")
    tag = octets[position]
    if octets[position + 1] != 0x80:
        _, start, stop = der.element(octets, position, end)
        if tag == _CONSTRUCTED_OCTETS:
            return _joined(octets, start, stop, depth, marked=False)
        return octets[position:stop], stop
    if not tag & 0x20 or tag & 0x1F == 0x1F:
        raise der.syntax_error("indefinite length of a primitive element")
    if tag == _CONSTRUCTED_OCTETS:
        return _joined(octets, position + 2, end, depth, marked=True)
    members, stop = _members(octets, position + 2, end, depth, marked=True)
    return der.encode(tag, *members) if members else der.encode(tag, b""), stop


def _members(octets: bytes, position: int, end: int, depth: int, *, marked: bool) -> tuple[list[bytes], int]:
    """The elements up to the mark of the end, or else up to ``end``."""
    found: list[bytes] = []
    while marked or position < end:
        if marked and octets[position : position + 2] == b"\x00\x00":
            return found, position + 2
        element, position = _rewritten(octets, position, end, depth - 1)
        found.append(element)
    return found, position


def _joined(octets: bytes, position: int, end: int, depth: int, *, marked: bool) -> tuple[bytes, int]:
    segments, stop = _members(octets, position, end, depth, marked=marked)
    joined = []
    for each in segments:
        start, finish = der.expect(each, 0, len(each), der.OCTET_STRING)
        joined.append(each[start:finish])
    return der.encode(der.OCTET_STRING, b"".join(joined)), stop
