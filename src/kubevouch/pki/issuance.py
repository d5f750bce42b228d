"""From an approved request to a certificate, and the check that the certificate is what was allowed.

This is the one place where a request becomes a certificate. It does no I/O and decides no approval; who calls it has an
approval in hand.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import msgspec

from kubevouch.machinery.text.gotext import quote
from kubevouch.pki import issued_leaf
from kubevouch.pki.authority import CertificateAuthority
from kubevouch.pki.errors import IssuedMismatchError, ParseError, PKIError, SignatureError
from kubevouch.pki.policy import (
    DEFAULT_SIGNING_DURATION,
    Validity,
    lifetime,
    validity,
    verify_no_escalation,
    verify_shape,
)
from kubevouch.pki.profile import Profile, verify_profile
from kubevouch.pki.x509 import certificate_builder, certificate_extensions, signature, x509_certificate, x509_request
from kubevouch.pki.x509.certificate_builder import CertificateTemplate
from kubevouch.pki.x509.public_key import PublicKey
from kubevouch.pki.x509.subject import KNOWN_ATTRIBUTES, Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.pki.x509.usages import CertificateUsages, resolve
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.pki.x509.x509_request import CertificateRequest


class SigningRules(msgspec.Struct, frozen=True, kw_only=True):
    """A signer's settings.

    Args:
        signing_duration: granted when nothing, or more, is asked for.
        post_quantum: the gate for ML-DSA keys.
        verify_signature: check the new certificate's signature too; for keys that live outside this process.
    """

    signing_duration: dt.timedelta = DEFAULT_SIGNING_DURATION
    profile: Profile = Profile.STRICT
    post_quantum: bool = False
    verify_signature: bool = False


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """The most that a certificate may say: it is held against this after it was signed."""

    subject: Subject
    public_key: bytes
    alt_names: SubjectAltNames
    usages: CertificateUsages
    validity: Validity
    issuer_name: bytes


def verify_signable(signer_name: str, request: CertificateRequest, usages: Sequence[str], profile: Profile) -> None:
    """The signer's rules, then the profile's: only these make a request Failed.

    Raises:
        PolicyError: the request can never be signed; the text is for the Failed condition.
        AuthorityError: the signer is unknown.

    Source: pkg/controller/certificates/signer/signer.go, handle (Kubernetes 1.36).
    """
    verify_shape(signer_name, request, usages)
    verify_profile(profile, signer_name, request, usages)


def issue(
    authority: CertificateAuthority,
    request: CertificateRequest,
    *,
    signer_name: str,
    usages: Sequence[str],
    expiration_seconds: int | None,
    now: dt.datetime,
    rules: SigningRules = SigningRules(),  # noqa: B008 - frozen
    serial: int | None = None,
) -> Certificate:
    """Sign ``request`` by the rules of one of Kubernetes' four signers.

    Args:
        usages: ``spec.usages``.
        expiration_seconds: ``spec.expirationSeconds``.
        serial: drawn at random when not given.

    Raises:
        PolicyError: the request can never be signed; the text is for the Failed condition.
        SignatureError: the request's own signature does not verify.
        UsageError: a usage outside the closed set.
        AuthorityError: the signer is unknown, or the authority has ended.
        IssuedMismatchError: the new certificate is not what was allowed. Stop signing.
    """
    # 1. Whoever decided has looked already; what is judged here is what is signed (docs/adr/0019-rules-twice.md).
    verify_signable(signer_name, request, usages, rules.profile)
    # 2. Proof of possession. The text in front is Kubernetes'.
    try:
        x509_request.verify_signature(request, post_quantum=rules.post_quantum)
    except SignatureError as error:
        raise SignatureError(f"unable to verify certificate request signature: {error}") from error
    # 3. Usages and lifetime.
    resolved = resolve(usages)
    ttl = lifetime(expiration_seconds, rules.signing_duration)
    period = validity(now, ttl, authority.certificate.not_after)
    # 4. Whatever let the request get here: a node signer names nodes.
    verify_no_escalation(signer_name, request.subject)
    # 5. Sign.
    strict = rules.profile is Profile.STRICT
    bits = certificate_builder.STRICT_SERIAL_BITS if strict else certificate_builder.SERIAL_BITS
    template = CertificateTemplate(
        serial=certificate_builder.random_serial(bits) if serial is None else serial,
        subject=request.subject,
        public_key=request.public_key,
        not_before=period.not_before,
        not_after=period.not_after,
        usages=resolved,
        alt_names=request.alt_names,
        with_subject_key_id=strict,
    )
    contents = authority.sign(template)
    # 6. Look at what was signed.
    allowance = Allowance(
        subject=request.subject,
        public_key=request.public_key.canonical_info,
        alt_names=request.alt_names,
        usages=resolved,
        validity=period,
        issuer_name=authority.certificate.subject_name,
    )
    key = authority.certificate.public_key if rules.verify_signature else None
    return verify_issued(contents, allowance, authority_key=key)


def verify_issued(contents: bytes, allowance: Allowance, *, authority_key: PublicKey | None = None) -> Certificate:
    """The certificate in ``contents``, once nothing in it goes beyond ``allowance``.

    Args:
        authority_key: verify the certificate's signature with it.

    Raises:
        IssuedMismatchError: with every difference. The signer must stop, and somebody must be told.
    """
    try:
        certificate = x509_certificate.parse_der(contents)
    except ParseError as error:
        raise IssuedMismatchError((f"it does not parse: {error}",)) from error
    differences = [
        *_differing_fields(certificate, allowance),
        *_differing_names(certificate.meaning.alt_names, allowance.alt_names),
        *_differing_extensions(certificate, allowance.usages),
    ]
    if issued_leaf.has_other_names(certificate):
        differences.append("alternative names of another kind were not asked for")
    if authority_key is not None:
        try:
            signature.verify(
                certificate.signature_algorithm, authority_key, certificate.signed, certificate.signature,
                post_quantum=True,
            )  # fmt: skip
        except PKIError as error:
            differences.append(f"its signature: {error}")
    if differences:
        raise IssuedMismatchError(tuple(differences))
    return certificate


def _differing_fields(certificate: Certificate, allowance: Allowance) -> list[str]:
    differences = []
    if certificate.version != 3:
        differences.append(f"version {certificate.version}, allowed 3")
    if certificate.issuer_name != allowance.issuer_name:
        differences.append(f"issuer {certificate.issuer_name.hex()}, allowed {allowance.issuer_name.hex()}")
    if certificate.public_key.info != allowance.public_key:
        differences.append("another public key")
    issued, allowed = certificate.subject, allowance.subject
    if _comparable(issued) != _comparable(allowed):
        differences.append(f"subject {issued}, allowed {allowed}")
    # What Go does not read of a name, others may: a user's UID is such an attribute.
    unread = sorted({oid for oid, _ in issued.attributes} - KNOWN_ATTRIBUTES)
    if unread:
        differences.append(f"subject attributes {unread} are not issued")
    if certificate.not_before < allowance.validity.not_before.replace(microsecond=0):
        differences.append(f"not before {certificate.not_before}, allowed from {allowance.validity.not_before}")
    if certificate.not_after > allowance.validity.not_after:
        differences.append(f"not after {certificate.not_after}, allowed until {allowance.validity.not_after}")
    return differences


def _comparable(subject: Subject) -> tuple[object, ...]:
    """Values of one type go into one RDN, whose order is that of the encodings: only the multiset can be compared."""
    return (
        subject.common_name,
        subject.serial_number,
        *map(
            sorted,
            (
                subject.organizations,
                subject.organizational_units,
                subject.countries,
                subject.provinces,
                subject.localities,
                subject.street_addresses,
                subject.postal_codes,
            ),
        ),
    )


def _differing_names(issued: SubjectAltNames, allowed: SubjectAltNames) -> list[str]:
    """Every single name is looked up: one bad name among many good ones must not pass."""
    pairs = (
        ("DNS name", issued.dns_names, allowed.dns_names),
        ("e-mail address", issued.email_addresses, allowed.email_addresses),
        ("IP address", issued.ip_addresses, allowed.ip_addresses),
        ("URI", issued.uris, allowed.uris),
    )
    return [
        f"{kind} {quote(str(name))} was not asked for"
        for kind, got, permitted in pairs
        for name in got
        if name not in permitted
    ]


_EXPECTED_EXTENSIONS = frozenset(
    {
        certificate_extensions.KEY_USAGE,
        certificate_extensions.EXTENDED_KEY_USAGE,
        certificate_extensions.BASIC_CONSTRAINTS,
        certificate_extensions.SUBJECT_KEY_ID,
        certificate_extensions.AUTHORITY_KEY_ID,
        certificate_extensions.SUBJECT_ALT_NAME,
    }
)


def _differing_extensions(certificate: Certificate, allowed: CertificateUsages) -> list[str]:
    meaning = certificate.meaning
    differences = [
        f"extension {e.oid} is not issued" for e in certificate.extensions if e.oid not in _EXPECTED_EXTENSIONS
    ]
    if meaning.is_ca:
        differences.append("it is a CA")
    extra_bits = meaning.key_usage - allowed.key_usage
    if extra_bits:
        differences.append(f"key usage bits {sorted(extra_bits)} were not asked for")
    extra_usages = [oid for oid in meaning.extended_key_usages if oid not in allowed.extended]
    if extra_usages:
        differences.append(f"extended key usages {extra_usages} were not asked for")
    # Without the extension a certificate serves every purpose (RFC 5280 section 4.2.1.12).
    if allowed.extended and not meaning.extended_key_usages:
        differences.append("extended key usages are missing")
    if allowed.key_usage and not meaning.key_usage:
        differences.append("key usages are missing")
    return differences
