"""What our readers of certificates and requests see, beside what ``cryptography`` and openssl see in the same bytes.

A reader that is alone in what it sees lets one thing be approved and another be signed. Ours sides with Go, which is
laxer than both in places that are listed here with their reasons; everything else is a finding. What ours refuses is
none: nothing is issued to it, and nobody let in.

    DifferenceError     bytes that another reader refuses, or reads another way, for none of these reasons
"""

from __future__ import annotations

import re
import subprocess
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

import peers
from kubevouch.pki import keys
from kubevouch.pki.errors import PKIError
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import certificate_extensions, der, pem, uri, x509_certificate, x509_request
from kubevouch.pki.x509.certificate_extensions import Extension
from kubevouch.pki.x509.public_key import KeyKind, PublicKey
from kubevouch.pki.x509.signature import Digest, signing
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import OID as SUBJECT_ALT_NAME
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames


class DifferenceError(AssertionError):
    """The readers do not agree; the text says who sees what."""


REASONS = {
    r"ExtraData": "Go does not look at what stands behind the last field of a SEQUENCE (cryptobyte)",
    r"EncodedDefault": "Go reads a DEFAULT that is written out",
    r"InvalidSetOrdering": "Go does not check the order of a SET OF",
    r"InvalidVersion": "Go reads certificates of version 2, and a request's version is no part of any decision",
    r"CertificationRequestInfo::(attributes|version)": "of the attributes only extensionRequest is read",
    r"Only single-valued attributes are supported": "of an attribute's values the first counts, as in Go",
    r"InvalidSize \{ min: 1": "Go reads an empty SEQUENCE OF as no member",
    r"x400Address/EDIPartyName|OtherName|DirectoryName|RegisteredID": "names of these kinds are not read, nor issued",
    r"GeneralName\"?.*(value: [03458]|ContextSpecific)|subject_alternative_name\", \d+\]": "other names, again",
    r"AttributeTypeValue::(value|type_id)": "an issuer is compared byte by byte, whatever its values are",
    r"path_length must be None": "Go reads a path length without CA, and does not use it",
    r"authority_cert_|relative distinguished name cannot be empty": "Go reads no more of it than it uses",
    r"unique_id|TbsCertificate::raw_extensions": "Go reads no unique identifiers, and extensions in version 3 alone",
    # openssl's words.
    r"unknown signature algorithm|invalid bit string bits left": "an algorithm that nobody knows verifies nothing",
}  # fmt: skip
"""What is said of bytes that ours reads, and why ours does."""

# The extensions that anything is decided by. In a request it is the first one alone.
_READ = {
    SUBJECT_ALT_NAME, certificate_extensions.EXTENDED_KEY_USAGE, certificate_extensions.KEY_USAGE,
    certificate_extensions.BASIC_CONSTRAINTS, certificate_extensions.SUBJECT_KEY_ID,
    certificate_extensions.AUTHORITY_KEY_ID,
}  # fmt: skip
# Nothing that such a key has signed verifies, so that it may be anything.
_UNVERIFIED = {KeyKind.UNKNOWN, KeyKind.DSA}
# Nor does what an RSA key has signed that no library computes with.
_UNUSABLE = {*_UNVERIFIED, KeyKind.RSA}


@dataclass(frozen=True)
class Refused:
    """By a reader, in its words."""

    why: str

    @property
    def is_justified(self) -> bool:
        return any(re.search(pattern, self.why) for pattern in REASONS)


def _try(read: Callable[[], Any]) -> Any:
    """What is read, or the refusal. Whatever cryptography raises is one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of lengths that are no longer usual
            return read()
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion, x509.UnsupportedGeneralNameType) as err:
        return Refused(f"{type(err).__name__}: {err}")
    except (x509.DuplicateExtension, x509.AttributeNotFound) as err:
        return Refused(f"{type(err).__name__}: {err}")


def compare_certificate(contents: bytes) -> None:
    """Raises :class:`DifferenceError`, or what our own reader raises."""
    ours = x509_certificate.parse_der(contents)
    theirs = _try(lambda: x509.load_der_x509_certificate(contents))
    if _refused("certificate", theirs, ours.public_key):
        return
    _expect("serial", ours.serial, _try(lambda: theirs.serial_number))
    _expect("not before", ours.not_before, _try(lambda: theirs.not_valid_before_utc))
    _expect("not after", ours.not_after, _try(lambda: theirs.not_valid_after_utc))
    _compare(theirs, ours.subject, ours.public_key, ours.meaning.alt_names, ours.extensions, _READ)


def compare_request(contents: bytes) -> None:
    """Raises :class:`DifferenceError`, or what our own reader raises."""
    ours = x509_request.parse_der(contents)
    theirs = _try(lambda: x509.load_der_x509_csr(contents))
    verified = _verifies(ours)
    if not verified and isinstance(theirs, Refused) and "Csr::signature_alg" in theirs.why:
        return  # an algorithm that nobody knows
    if not _refused("request", theirs, ours.public_key):
        _compare(theirs, ours.subject, ours.public_key, ours.alt_names, ours.extensions, {SUBJECT_ALT_NAME})
        # Go verifies SHA-1 of a request, cryptography does not: the strict profile of the signer refuses it.
        if verified and ours.signature_algorithm.digest is not Digest.SHA1:
            _expect("signature", True, _try(lambda: theirs.is_signature_valid))


def _verifies(request: x509_request.CertificateRequest) -> bool:
    try:
        x509_request.verify_signature(request)
    except PKIError:
        return False
    return True


def _compare(
    theirs: Any,
    subject: Subject,
    key: PublicKey,
    names: SubjectAltNames,
    extensions: Iterable[Extension],
    read: set[str],
) -> None:
    attributes = _try(lambda: [(each.oid.dotted_string, each.value) for each in theirs.subject])
    if not (_is_odd(subject) and isinstance(attributes, Refused)) and not _refused("subject", attributes):
        # What is no string to Go is no value, and so nobody's name.
        expected = [
            (oid, None if mine is None else value)
            for (oid, value), (_, mine) in zip(attributes, subject.attributes, strict=False)
        ]
        _expect("subject", list(subject.attributes), expected)
        _expect("count of attributes", len(subject.attributes), len(attributes))
    _compare_key(theirs, key)
    if any(extension.oid not in read for extension in extensions):
        return  # cryptography reads all extensions or none, and this one may be anything
    seen = _try(lambda: _names(theirs.extensions))
    if not _refused("names", seen):
        mine = (names.dns_names, names.email_addresses, names.ip_addresses, names.uris)
        _expect("names", mine, seen)


def _is_odd(subject: Subject) -> bool:
    """Whether an attribute is no string to Go, and so has no value; others need not read it at all."""
    return any(value is None for _, value in subject.attributes)


def _compare_key(theirs: Any, key: PublicKey) -> None:
    info = _try(lambda: theirs.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))
    if key.kind in _UNVERIFIED or (key.kind in _UNUSABLE and isinstance(info, Refused)):
        return
    if isinstance(info, Refused):
        raise DifferenceError(f"key: {key.name} to us, {info.why}")
    _expect("key", key.canonical_info, info)


def _names(extensions: x509.Extensions) -> tuple[Any, ...]:
    try:
        found = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return (), (), (), ()
    addresses = found.get_values_for_type(x509.IPAddress)
    return (
        tuple(found.get_values_for_type(x509.DNSName)),
        tuple(found.get_values_for_type(x509.RFC822Name)),
        tuple(getattr(address, "ipv4_mapped", None) or address for address in addresses),
        tuple(map(_uri, found.get_values_for_type(x509.UniformResourceIdentifier))),
    )


def _uri(text: str) -> str:
    """As Go's ``net/url`` prints it and puts it into the certificate: escaped, the scheme in lower case."""
    try:
        return uri.parse(text).text
    except ValueError:
        return text


def _refused(what: str, theirs: Any, key: PublicKey | None = None) -> bool:
    if not isinstance(theirs, Refused):
        return False
    about_key = re.search(r"SubjectPublicKeyInfo|X509_PUBKEY_get0", theirs.why)
    if not theirs.is_justified and not (key is not None and key.kind in _UNUSABLE and about_key):
        raise DifferenceError(f"{what}: read by us, {theirs.why}")
    return True


def _expect(what: str, ours: Any, theirs: Any) -> None:
    if isinstance(theirs, Refused):
        _refused(what, theirs)
    elif ours != theirs:
        raise DifferenceError(f"{what}: {ours!r} to us, {theirs!r} to the other reader")


# ------------------------------------------------------------------ what the holder of a key can make

KEY = keys.generate(KeyAlgorithm.ECDSA_P256)
_HOW = signing(KEY)


def signed(information: bytes) -> bytes:
    """The certificate or request around these bytes, signed with :data:`KEY`, so that its signature hides nothing."""
    return der.encode(der.SEQUENCE, information, _HOW.identifier, der.encode_bit_string(_HOW.sign(information)))


def information(contents: bytes) -> bytes:
    """What :func:`signed` was made of."""
    start = der.header(contents, 0, len(contents))[1]
    return contents[start : der.header(contents, start, len(contents))[2]]


# ------------------------------------------------------------------ openssl

_OPENSSL_OPTIONS = (
    "-inform",
    "DER",
    "-noout",
    "-subject",
    "-nameopt",
    "oid,sep_multiline,dump_all,dump_der",
    "-pubkey",
)
_STRINGS = {0x0C: "utf-8", 0x13: "ascii", 0x12: "ascii", 0x16: "ascii"}
_ATTRIBUTE = re.compile(r"([0-9.]+)=#([0-9A-F]+)")
_TIMES = re.compile(r"^not(?:Before|After)=([0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8})Z$", re.MULTILINE)


def compare_certificate_with_openssl(contents: bytes) -> None:
    """As :func:`compare_certificate`; each call is a process. What cryptography refuses has its reason already."""
    ours = x509_certificate.parse_der(contents)
    if isinstance(_try(lambda: x509.load_der_x509_certificate(contents)), Refused) or _is_odd(ours.subject):
        return
    theirs = _openssl("x509", contents, "-serial", "-dates", "-dateopt", "iso_8601")
    if _refused("certificate", theirs, ours.public_key):
        return
    _compare_with_openssl(theirs, ours.subject, ours.public_key)
    serial = re.search(r"^serial=(-?[0-9A-F]+)$", theirs, re.MULTILINE)
    _expect("serial", ours.serial, serial and int(serial[1], 16))
    times = [f"{time:%Y-%m-%d %H:%M:%S}" for time in (ours.not_before, ours.not_after)]
    _expect("validity", times, _TIMES.findall(theirs))


def compare_request_with_openssl(contents: bytes) -> None:
    """As :func:`compare_request`; each call is a process. What cryptography refuses has its reason already."""
    ours = x509_request.parse_der(contents)
    if isinstance(_try(lambda: x509.load_der_x509_csr(contents)), Refused) or _is_odd(ours.subject):
        return
    theirs = _openssl("req", contents, "-verify")
    if _refused("request", theirs, ours.public_key):
        return
    _compare_with_openssl(theirs, ours.subject, ours.public_key)
    if _verifies(ours):
        _expect("signature", True, "self-signature verify OK" in theirs)


def _compare_with_openssl(theirs: str, subject: Subject, key: PublicKey) -> None:
    seen = [(oid, _openssl_string(bytes.fromhex(value))) for oid, value in _ATTRIBUTE.findall(theirs)]
    mine = [
        (oid, value) for (oid, value), (_, other) in zip(subject.attributes, seen, strict=False) if other is not None
    ]
    _expect("subject", mine, [(oid, value) for oid, value in seen if value is not None])
    _expect("count of attributes", len(subject.attributes), len(seen))
    block = pem.first_block(theirs.encode())
    if key.kind not in _UNVERIFIED and (block is not None or key.kind not in _UNUSABLE):
        _expect("key", key.canonical_info, block and block.contents)


def _openssl_string(element: bytes) -> str | None:
    """The text of a value, if it is of a kind that both read alike."""
    encoding = _STRINGS.get(element[0]) if len(element) < 0x80 else None
    try:
        return element[2:].decode(encoding) if encoding else None
    except UnicodeDecodeError:
        return None


def _openssl(command: str, contents: bytes, *more: str) -> Any:
    program = peers.binary("debian", "usr/bin/openssl")
    done = subprocess.run(
        [program, command, *_OPENSSL_OPTIONS, *more], input=contents, capture_output=True, check=False, timeout=60
    )
    said = (done.stdout + done.stderr).decode("utf-8", "replace")
    # A signature that does not verify is a failure, too, but the request is printed.
    if done.returncode and "subject=" not in said:
        return Refused(said)
    return said
