"""From an approved request to a certificate, and the check that the certificate is what was allowed.

This is the one place where a request becomes a certificate. It does no I/O and decides no approval; who calls it has an
approval in hand.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence

import msgspec

from kubevouch.machinery.text.gotext import quote
from kubevouch.pki import issued_leaf
from kubevouch.pki.authority import CertificateAuthority
from kubevouch.pki.errors import IssuedMismatchError, ParseError, PKIError, SignatureError
from kubevouch.pki.lint import lint
from kubevouch.pki.permissions import Grant, Permissions
from kubevouch.pki.policy import (
    DEFAULT_SIGNING_DURATION,
    Validity,
    lifetime,
    spread,
    validity,
    verify_no_escalation,
    verify_shape,
)
from kubevouch.pki.profile import Profile, verify_profile
from kubevouch.pki.x509 import certificate_builder, certificate_extensions, signature, x509_certificate, x509_request
from kubevouch.pki.x509.certificate_builder import CertificateTemplate
from kubevouch.pki.x509.certificate_extensions import Extension
from kubevouch.pki.x509.public_key import PublicKey
from kubevouch.pki.x509.subject import KNOWN_ATTRIBUTES, Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.pki.x509.usages import CertificateUsages, resolve
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.pki.x509.x509_request import CertificateRequest


class SigningRules(msgspec.Struct, frozen=True, kw_only=True):
    """A signer's settings.

    Args:
        signing_duration: the most that is granted, and what is granted when nothing is asked for.
        default_duration: granted when nothing is asked for, where that is less.
        spread: between 0 and 1, the part of a lifetime by which it may end sooner, so that certificates that were asked
            for together do not end together.
        post_quantum: the gate for ML-DSA keys.
        verify_signature: check the new certificate's signature too; for keys that live outside this process.
        permissions: what a signer of one's own permits; None is one of Kubernetes' four.
        backdate: how far in the past certificates begin, as part of their lifetime; None is as Kubernetes' signers.
        extensions: what the signer says in each certificate beside what is asked for, such as where its CRLs are.
    """

    signing_duration: dt.timedelta = DEFAULT_SIGNING_DURATION
    default_duration: dt.timedelta | None = None
    spread: float = 0.0
    profile: Profile = Profile.STRICT
    post_quantum: bool = False
    verify_signature: bool = False
    permissions: Permissions | None = None
    extensions: tuple[Extension, ...] = ()
    backdate: dt.timedelta | None = None


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """The most that a certificate may say: it is held against this after it was signed."""

    subject: Subject
    public_key: bytes
    alt_names: SubjectAltNames
    usages: CertificateUsages
    validity: Validity
    issuer_name: bytes
    is_ca: bool = False
    max_path_length: int | None = None
    extensions: tuple[Extension, ...] = ()


def verify_signable(
    signer_name: str,
    request: CertificateRequest,
    usages: Sequence[str],
    rules: SigningRules,
    *,
    expiration_seconds: int | None = None,
    issuer: Certificate | None = None,
) -> Grant:
    """The signer's rules, then the profile's: only these make a request Failed. What is granted, if they do not.

    Args:
        issuer: what signs, if that is known already.

    Raises:
        PolicyError: the request can never be signed; the text is for the Failed condition.
        AuthorityError: the signer is unknown.

    Source: pkg/controller/certificates/signer/signer.go, handle (Kubernetes 1.36).
    """
    permissions = rules.permissions
    if permissions is None:
        verify_shape(signer_name, request, usages)
        verify_profile(rules.profile, signer_name, request, usages)
        return Grant(subject=request.subject, alt_names=request.alt_names, usages=resolve(usages))
    meaning = issuer.meaning if issuer is not None else None
    grant, kept = permissions.grant(request, usages, expiration_seconds, meaning)
    granted = msgspec.structs.replace(request, subject=grant.subject, alt_names=grant.alt_names)
    verify_profile(rules.profile, signer_name, granted, kept, of_a_ca=grant.is_ca)
    return grant


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
    seed: str = "",
) -> Certificate:
    """Sign ``request`` by the rules of one of Kubernetes' four signers, or by ``rules.permissions``.

    Args:
        usages: ``spec.usages``.
        expiration_seconds: ``spec.expirationSeconds``.
        serial: drawn at random when not given.
        seed: decides, with the request's key, where in the spread the certificate ends: the UID of what is asked for,
            so that who asks again for the same gets the same.

    Raises:
        PolicyError: the request can never be signed; the text is for the Failed condition.
        SignatureError: the request's own signature does not verify.
        UsageError: a usage outside the closed set.
        AuthorityError: the signer is unknown, or the authority has ended.
        IssuedMismatchError: the new certificate is not what was allowed. Stop signing.
    """
    # 1. Whoever decided has looked already; what is judged here is what is signed (docs/adr/0019-rules-twice.md).
    issuer = authority.certificate
    grant = verify_signable(
        signer_name, request, usages, rules, expiration_seconds=expiration_seconds, issuer=issuer
    )  # fmt: skip
    # 2. Proof of possession. The text in front is Kubernetes'.
    try:
        x509_request.verify_signature(request, post_quantum=rules.post_quantum)
    except SignatureError as error:
        raise SignatureError(f"unable to verify certificate request signature: {error}") from error
    # 3. Lifetime.
    ttl = lifetime(expiration_seconds, rules.signing_duration, rules.default_duration)
    whole = validity(now, ttl, issuer.not_after, rules.backdate)
    period = spread(whole, now, rules.spread, request.public_key.canonical_info, seed)
    # 4. Whatever let the request get here: a node signer names nodes.
    verify_no_escalation(signer_name, grant.subject)
    # 5. Write it down, and look at it before the key is used.
    strict = rules.profile is Profile.STRICT
    bits = certificate_builder.STRICT_SERIAL_BITS if strict else certificate_builder.SERIAL_BITS
    template = CertificateTemplate(
        serial=certificate_builder.random_serial(bits) if serial is None else serial,
        subject=grant.subject,
        public_key=request.public_key,
        not_before=period.not_before,
        not_after=period.not_after,
        usages=grant.usages,
        alt_names=grant.alt_names,
        is_ca=grant.is_ca,
        max_path_length=grant.max_path_length,
        with_subject_key_id=strict or grant.is_ca,
        extra=(*rules.extensions, *grant.extensions),
    )
    allowance = Allowance(
        subject=grant.subject,
        public_key=request.public_key.canonical_info,
        alt_names=grant.alt_names,
        usages=grant.usages,
        validity=period,
        issuer_name=issuer.subject_name,
        is_ca=grant.is_ca,
        max_path_length=grant.max_path_length,
        extensions=template.extra,
    )
    draft = verify_draft(authority.draft(template), allowance, issuer=issuer, profile=rules.profile)
    # 6. Sign, and look at what was signed: to the byte what was looked at before, or every difference is told.
    contents = authority.sign(template)
    if rules.verify_signature:
        certificate = verify_issued(contents, allowance, authority_key=issuer.public_key)
    else:
        certificate = _parsed(contents, x509_certificate.parse_der)
    if certificate.signed != draft.signed:
        verify_issued(contents, allowance)
        raise IssuedMismatchError(("what was signed is not what was looked at before",))
    return certificate


def verify_draft(contents: bytes, allowance: Allowance, *, issuer: Certificate, profile: Profile) -> Certificate:
    """The certificate that is about to be signed, once it goes beyond nothing that was allowed and breaks no rule.

    Raises:
        IssuedMismatchError: with every difference. Nothing has been signed.
    """
    draft = _verify(contents, allowance, x509_certificate.parse_draft)
    found = lint(draft, issuer, profile)
    if found:
        raise IssuedMismatchError(found)
    return draft


def verify_issued(contents: bytes, allowance: Allowance, *, authority_key: PublicKey | None = None) -> Certificate:
    """The certificate in ``contents``, once nothing in it goes beyond ``allowance``.

    Args:
        authority_key: verify the certificate's signature with it.

    Raises:
        IssuedMismatchError: with every difference. The signer must stop, and somebody must be told.
    """
    return _verify(contents, allowance, x509_certificate.parse_der, authority_key)


def _parsed(contents: bytes, parse: Callable[[bytes], Certificate]) -> Certificate:
    try:
        return parse(contents)
    except ParseError as error:
        raise IssuedMismatchError((f"it does not parse: {error}",)) from error


def _verify(
    contents: bytes,
    allowance: Allowance,
    parse: Callable[[bytes], Certificate],
    authority_key: PublicKey | None = None,
) -> Certificate:
    certificate = _parsed(contents, parse)
    differences = [
        *_differing_fields(certificate, allowance),
        *_differing_names(certificate.meaning.alt_names, allowance.alt_names),
        *_differing_extensions(certificate, allowance),
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


def _differing_extensions(certificate: Certificate, allowance: Allowance) -> list[str]:
    meaning, allowed = certificate.meaning, allowance.usages
    differences = [
        f"extension {e.oid} is not issued"
        for e in certificate.extensions
        if e.oid not in _EXPECTED_EXTENSIONS and e not in allowance.extensions
    ]
    if meaning.is_ca and not allowance.is_ca:
        differences.append("it is a CA")
    if meaning.is_ca and meaning.max_path_length != allowance.max_path_length:
        differences.append(f"path length {meaning.max_path_length}, allowed {allowance.max_path_length}")
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
