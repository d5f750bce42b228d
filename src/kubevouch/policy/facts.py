"""What is derived of a CertificateSigningRequest: the one truth for every approver, webhook, tool and expression.

Whoever decides looks at nothing else of what the requester wrote, so that nothing is approved as it is read in one way
and signed as it is read in another.
"""

from __future__ import annotations

import datetime as dt
import hashlib

import msgspec

from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import certificate_extensions
from kubevouch.pki.x509.certificate_extensions import BASIC_CONSTRAINTS
from kubevouch.pki.x509.public_key import KeyKind
from kubevouch.pki.x509.subject import KNOWN_ATTRIBUTES, Subject
from kubevouch.pki.x509.x509_request import CertificateRequest


class SubjectFacts(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The subject, as Go reads it.

    Args:
        unknown: the types of attributes that are no string, or that no certificate is ever given, as dotted decimals.
    """

    common_name: str = ""
    organizations: tuple[str, ...] = ()
    organizational_units: tuple[str, ...] = ()
    countries: tuple[str, ...] = ()
    provinces: tuple[str, ...] = ()
    localities: tuple[str, ...] = ()
    street_addresses: tuple[str, ...] = ()
    postal_codes: tuple[str, ...] = ()
    serial_number: str = ""
    unknown: tuple[str, ...] = ()


class RequestFacts(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A request for a certificate, decoded.

    Args:
        expiration_seconds: None leaves the lifetime to the signer.
        key_fingerprint: hexadecimal SHA-256 of the SubjectPublicKeyInfo.
        key_algorithm: ``RSA``, ``ECDSA``, ``Ed25519``, ``DSA``, ``ML-DSA``; ``unknown`` for others.
        key_bits: of modulus or curve; 0 where there is no such size.
        ip_addresses: in the usual short text; one that maps an IPv4 address is that address.
        extensions: the types that are requested, as dotted decimals; of them only the subjectAltName is ever issued.
        is_ca: it asks for the certificate of a CA, or for basic constraints that nobody can read.
        created: None until it is stored.
    """

    name: str
    uid: str = ""
    signer_name: str
    username: str
    user_uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}
    usages: tuple[str, ...] = ()
    expiration_seconds: int | None = None
    key_fingerprint: str
    key_algorithm: str
    key_bits: int = 0
    subject: SubjectFacts = SubjectFacts()
    dns_names: tuple[str, ...] = ()
    ip_addresses: tuple[str, ...] = ()
    email_addresses: tuple[str, ...] = ()
    uris: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()
    is_ca: bool = False
    created: dt.datetime | None = None


def facts_of(csr: CertificateSigningRequest, request: CertificateRequest) -> RequestFacts:
    """``request`` is what ``csr.spec.request`` parses to."""
    spec, meta, names, key = csr.spec, csr.metadata, request.alt_names, request.public_key
    return RequestFacts(
        name=meta.name,
        uid=meta.uid,
        signer_name=spec.signer_name,
        username=spec.username,
        user_uid=spec.uid,
        groups=tuple(spec.groups),
        extra={each: tuple(values) for each, values in spec.extra.items()},
        usages=tuple(map(str, spec.usages)),
        expiration_seconds=spec.expiration_seconds,
        # As a certificate has it, so that two ways to write a key down are one key.
        key_fingerprint=hashlib.sha256(key.canonical_info).hexdigest(),
        key_algorithm="unknown" if key.kind is KeyKind.UNKNOWN else str(key.kind),
        key_bits=key.bits,
        subject=_subject(request.subject),
        dns_names=names.dns_names,
        ip_addresses=tuple(map(str, names.ip_addresses)),
        email_addresses=names.email_addresses,
        uris=names.uris,
        extensions=tuple(each.oid for each in request.extensions),
        is_ca=_is_ca(request),
        created=None if meta.creation_timestamp is None else meta.creation_timestamp.datetime(),
    )


def _is_ca(request: CertificateRequest) -> bool:
    asked = tuple(each for each in request.extensions if each.oid == BASIC_CONSTRAINTS)
    try:
        return certificate_extensions.interpret(asked).is_ca
    except ParseError:
        return True


def _subject(subject: Subject) -> SubjectFacts:
    return SubjectFacts(
        common_name=subject.common_name,
        organizations=subject.organizations,
        organizational_units=subject.organizational_units,
        countries=subject.countries,
        provinces=subject.provinces,
        localities=subject.localities,
        street_addresses=subject.street_addresses,
        postal_codes=subject.postal_codes,
        serial_number=subject.serial_number,
        unknown=tuple(oid for oid, value in subject.attributes if value is None or oid not in KNOWN_ATTRIBUTES),
    )
