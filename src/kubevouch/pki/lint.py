"""Rules that hold for every certificate, whoever asked for it: looked at before a key is used (RFC 5280 section 4).

What a certificate may say of its owner is compared elsewhere with what was allowed; this is about certificates that
would be wrong whatever was allowed. A finding is a fault of the signer's own, so nothing of it reaches the requester.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubevouch.pki.profile import Profile
from kubevouch.pki.x509 import certificate_extensions, usages
from kubevouch.pki.x509.certificate_builder import STRICT_SERIAL_BITS
from kubevouch.pki.x509.x509_certificate import Certificate

MAX_SERIAL_BITS = 159
"""20 octets, of which the first bit is that of the sign (section 4.1.2.2)."""

_CERT_SIGN = usages.KEY_USAGE_BITS[usages.CERT_SIGN]
_EMPTY_NAME = b"\x30\x00"
_MAY_BE_CRITICAL = frozenset(
    {
        certificate_extensions.KEY_USAGE,
        certificate_extensions.EXTENDED_KEY_USAGE,
        certificate_extensions.BASIC_CONSTRAINTS,
        certificate_extensions.SUBJECT_ALT_NAME,
    }
)


def lint(certificate: Certificate, issuer: Certificate, profile: Profile) -> tuple[str, ...]:
    """A clause for each rule that ``certificate``, whose signature is not looked at, breaks.

    No request may be able to bring one about, for the signer stops: what can follow from a request is refused before.

    Args:
        profile: the compatible one leaves out what Kubernetes itself does not keep to.
    """
    found = [*_frame(certificate, issuer), *_extensions(certificate), *_authority(certificate, issuer)]
    if profile is Profile.STRICT:
        found += _strict(certificate, issuer)
    return tuple(found)


def _frame(certificate: Certificate, issuer: Certificate) -> Iterator[str]:
    # Section 4.1.2.1: extensions are of version 3.
    if certificate.version != 3:
        yield f"version {certificate.version}, expected 3"
    # Section 4.1.2.2. Kubernetes draws 0 as well, and never gets it.
    if certificate.serial < 0 or certificate.serial.bit_length() > MAX_SERIAL_BITS:
        yield f"serial number of {certificate.serial.bit_length()} bits, expected a positive one of {MAX_SERIAL_BITS}"
    # Section 4.1.2.4: who wants to verify it looks the issuer up by this name.
    if certificate.issuer_name != issuer.subject_name:
        yield "its issuer is not the name of who signs"
    # Section 4.1.2.5.
    if certificate.not_before >= certificate.not_after:
        yield f"it ends at {certificate.not_after}, before it begins"
    if certificate.not_after > issuer.not_after:
        yield f"it ends at {certificate.not_after}, after who signs it ({issuer.not_after})"


def _extensions(certificate: Certificate) -> Iterator[str]:
    oids = [each.oid for each in certificate.extensions]
    # Section 4.2: one of each.
    for oid in sorted({each for each in oids if oids.count(each) > 1}):
        yield f"extension {oid} stands there more than once"
    for each in certificate.extensions:
        if each.critical and each.oid not in _MAY_BE_CRITICAL:
            yield f"extension {each.oid} is critical, and not everybody knows it"
    meaning = certificate.meaning
    if meaning.has_alt_names and not meaning.alt_names:
        yield "its subjectAltName is empty"


def _authority(certificate: Certificate, issuer: Certificate) -> Iterator[str]:
    meaning, above = certificate.meaning, issuer.meaning
    # Section 4.2.1.9. Whoever has no basic constraints is taken for a CA by some.
    if not meaning.has_basic_constraints:
        yield "it does not say whether it is a CA"
    if meaning.is_ca:
        if _CERT_SIGN not in meaning.key_usage:
            yield "it is a CA that may not sign certificates"
        if not meaning.subject_key_id:
            yield "it is a CA without a subjectKeyIdentifier"
        limit, own = above.max_path_length, meaning.max_path_length
        if limit is not None and (own is None or own >= limit):
            yield f"its path length is {'not limited' if own is None else own}, that of who signs it is {limit}"
    elif meaning.max_path_length is not None:
        yield "it has a path length and is no CA"
    # Section 4.2.1.1, where who signs has something to point to.
    if meaning.authority_key_id not in (b"", above.subject_key_id):
        yield "its authorityKeyIdentifier is not the subjectKeyIdentifier of who signs"


def _strict(certificate: Certificate, issuer: Certificate) -> Iterator[str]:
    meaning = certificate.meaning
    if certificate.serial == 0 or certificate.serial.bit_length() > STRICT_SERIAL_BITS:
        yield f"serial number of {certificate.serial.bit_length()} bits, expected 1 to {STRICT_SERIAL_BITS}"
    if not meaning.is_ca and _CERT_SIGN in meaning.key_usage:
        yield "it may sign certificates and is no CA"
    if not meaning.subject_key_id:
        yield "it has no subjectKeyIdentifier"
    # Go leaves it out where issuer and subject have one name.
    named_alike = certificate.subject_name == certificate.issuer_name
    if issuer.meaning.subject_key_id and not meaning.authority_key_id and not named_alike:
        yield "it has no authorityKeyIdentifier"
    # Sections 4.1.2.6 and 4.2.1.6: somebody has to be named, and where only the names do so, nobody may skip them.
    if certificate.subject_name == _EMPTY_NAME:
        names = [each for each in certificate.extensions if each.oid == certificate_extensions.SUBJECT_ALT_NAME]
        if not names or not names[0].critical:
            yield "it has no subject, and no critical subjectAltName either"
    # Section 4.1.2.4.
    if certificate.issuer_name == _EMPTY_NAME:
        yield "who signs has no name"
