"""To-be-signed certificates, to the byte as Go's ``x509.CreateCertificate`` (Go 1.26) makes them.

Own DER instead of a library's builder: that one refuses common names over 64 characters (node names have up to 253),
repeated values in one RDN, key usages that Kubernetes permits, and serial number 0.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import secrets
from functools import lru_cache

import msgspec

from kubevouch.pki.x509 import asn1_time, certificate_extensions, der
from kubevouch.pki.x509.certificate_extensions import Extension
from kubevouch.pki.x509.public_key import PublicKey
from kubevouch.pki.x509.signature import Signing
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import NONE, SubjectAltNames
from kubevouch.pki.x509.usages import CertificateUsages

_VERSION_3 = der.encode(0xA0, der.encode_integer(2))
_EMPTY_SEQUENCE = der.encode(der.SEQUENCE)
_TRUE = b"\x01\x01\xff"

SERIAL_BITS = 128
"""Kubernetes draws 0 ≤ n < 2^128."""
STRICT_SERIAL_BITS = 127
"""So that the INTEGER has at most 16 octets (RFC 5280 section 4.1.2.2 allows 20)."""


class CertificateTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """What a certificate is to say.

    Args:
        serial: not negative.
        is_ca: ``None`` leaves basicConstraints out.
        max_path_length: of a CA, how many CAs may stand below it; ``None`` does not limit them.
        with_subject_key_id: Kubernetes' signers leave it out of leaves.
        subject_key_id: another than the one that follows from the key.
        subject_name: a name in DER that is to be repeated byte by byte; empty writes ``subject``.
        extra: extensions that stand behind all others, as they are.
    """

    serial: int
    subject: Subject
    public_key: PublicKey
    not_before: dt.datetime
    not_after: dt.datetime
    usages: CertificateUsages
    alt_names: SubjectAltNames = NONE
    is_ca: bool | None = False
    max_path_length: int | None = None
    with_subject_key_id: bool = False
    subject_key_id: bytes = b""
    subject_name: bytes = b""
    extra: tuple[Extension, ...] = ()


def random_serial(bits: int = SERIAL_BITS) -> int:
    """A serial number from the system's source, never 0."""
    return secrets.randbelow((1 << bits) - 1) + 1


def key_identifier(key: PublicKey) -> bytes:
    """The leftmost 160 bits of the SHA-256 of the public key (RFC 7093 section 2, method 1), as Go since 1.25."""
    info = key.canonical_info
    start, stop = der.expect(info, 0, len(info), der.SEQUENCE)
    _, behind = der.expect(info, start, stop, der.SEQUENCE)
    start, stop = der.expect(info, behind, stop, der.BIT_STRING)
    return hashlib.sha256(info[start + 1 : stop]).digest()[:20]


def build(template: CertificateTemplate, *, issuer_name: bytes, issuer_key_id: bytes, signing: Signing) -> bytes:
    """The signed certificate in DER.

    Args:
        issuer_name: the issuer's subject in DER, copied byte by byte.
        issuer_key_id: the issuer's subjectKeyIdentifier, empty when it has none.

    Raises:
        ValueError: a name that is not ASCII where it has to be.
    """
    signed = to_be_signed(template, issuer_name=issuer_name, issuer_key_id=issuer_key_id, identifier=signing.identifier)
    signature = der.encode_bit_string(signing.sign(signed))
    return der.encode(der.SEQUENCE, signed, signing.identifier, signature)


def to_be_signed(
    template: CertificateTemplate, *, issuer_name: bytes, issuer_key_id: bytes, identifier: bytes
) -> bytes:
    """TBSCertificate in DER (RFC 5280 section 4.1)."""
    subject = template.subject_name or template.subject.encode()
    return der.encode(
        der.SEQUENCE,
        _VERSION_3,
        der.encode_integer(template.serial),
        identifier,
        issuer_name,
        der.encode(der.SEQUENCE, asn1_time.encode(template.not_before), asn1_time.encode(template.not_after)),
        subject,
        template.public_key.canonical_info,
        der.encode(0xA3, der.encode(der.SEQUENCE, *_extensions(template, subject, issuer_name, issuer_key_id))),
    )


def _extension(oid: bytes, value: bytes, *, critical: bool = False) -> bytes:
    return der.encode(der.SEQUENCE, oid, _TRUE if critical else b"", der.encode(der.OCTET_STRING, value))


_KEY_USAGE = der.encode_object_identifier(certificate_extensions.KEY_USAGE)
_EXTENDED_KEY_USAGE = der.encode_object_identifier(certificate_extensions.EXTENDED_KEY_USAGE)
_BASIC_CONSTRAINTS = der.encode_object_identifier(certificate_extensions.BASIC_CONSTRAINTS)
_SUBJECT_KEY_ID = der.encode_object_identifier(certificate_extensions.SUBJECT_KEY_ID)
_AUTHORITY_KEY_ID = der.encode_object_identifier(certificate_extensions.AUTHORITY_KEY_ID)
_SUBJECT_ALT_NAME = der.encode_object_identifier(certificate_extensions.SUBJECT_ALT_NAME)


# A signer issues nearly all its certificates with the same usages.
@lru_cache(maxsize=64)
def _usage_extensions(usages: CertificateUsages, is_ca: bool | None, max_path_length: int | None) -> bytes:
    extensions = b""
    if usages.key_usage:
        extensions += _extension(_KEY_USAGE, der.encode_named_bits(usages.key_usage), critical=True)
    if usages.extended:
        extensions += _extension(_EXTENDED_KEY_USAGE, usages.encode_extended())
    if is_ca is not None:
        limit = der.encode_integer(max_path_length) if is_ca and max_path_length is not None else b""
        constraints = der.encode(der.SEQUENCE, _TRUE if is_ca else b"", limit)
        extensions += _extension(_BASIC_CONSTRAINTS, constraints, critical=True)
    return extensions


def _extensions(template: CertificateTemplate, subject: bytes, issuer_name: bytes, issuer_key_id: bytes) -> list[bytes]:
    """In Go's order; what would be empty is left out."""
    extensions = [_usage_extensions(template.usages, template.is_ca, template.max_path_length)]
    if template.with_subject_key_id:
        key_id = der.encode(der.OCTET_STRING, template.subject_key_id or key_identifier(template.public_key))
        extensions.append(_extension(_SUBJECT_KEY_ID, key_id))
    # Go takes a certificate whose issuer has its own name for self-signed.
    if issuer_key_id and subject != issuer_name:
        extensions.append(_extension(_AUTHORITY_KEY_ID, der.encode(der.SEQUENCE, der.encode(0x80, issuer_key_id))))
    if template.alt_names:
        # RFC 5280 section 4.2.1.6: critical where the subject says nothing.
        critical = subject == _EMPTY_SEQUENCE
        extensions.append(_extension(_SUBJECT_ALT_NAME, template.alt_names.encode(), critical=critical))
    extra = ((der.encode_object_identifier(each.oid), each) for each in template.extra)
    return [*extensions, *(_extension(oid, each.value, critical=each.critical) for oid, each in extra)]
