"""The check of a certificate that another program has issued: that it is for this request, and by whom it should be.

Other CAs choose serial numbers, name their policies and say where they are asked about revocation, so this is not
``pki.issuance``, which knows each byte. What decides who somebody is, and for how long, is held as hard.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence

import msgspec

from kubevouch.machinery.text.gotext import quote
from kubevouch.pki import issued_leaf
from kubevouch.pki.certificate_chain import MAX_CHAIN, verify_certificate_chain
from kubevouch.pki.client_certificate import TrustAnchors, verify_chain
from kubevouch.pki.errors import ClientCertificateError, IssuedMismatchError, ParseError, PolicyError
from kubevouch.pki.permissions import SUBJECT_FIELDS
from kubevouch.pki.x509 import certificate_extensions
from kubevouch.pki.x509.certificate_extensions import Extension
from kubevouch.pki.x509.public_key import PublicKey
from kubevouch.pki.x509.subject import COMMON_NAME, KNOWN_ATTRIBUTES, SERIAL_NUMBER, Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.pki.x509.usages import CLIENT_AUTH_OID, CertificateUsages
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.pki.x509.x509_request import CertificateRequest

CLOCKS_DIFFER = dt.timedelta(minutes=5)
"""How much later than here it may be where the certificate was issued."""

# digitalSignature and keyEncipherment, which many CAs put into every leaf (RFC 5280 section 4.2.1.3).
_USUAL_KEY_USAGE = frozenset({0, 2})

_COMPARED = frozenset({
    certificate_extensions.KEY_USAGE, certificate_extensions.EXTENDED_KEY_USAGE,
    certificate_extensions.SUBJECT_ALT_NAME, certificate_extensions.BASIC_CONSTRAINTS,
})  # fmt: skip
# What CAs add to every leaf and what does not say who somebody is: which key this is and who signed it, where to ask
# about revocation, by which policy it was issued; RFC 6962's timestamps; TLS Feature (RFC 7633); the provisioner that
# step-ca writes down; Netscape's type and comment, as openssl's example configuration adds them.
_USUAL_EXTENSIONS = frozenset({
    certificate_extensions.SUBJECT_KEY_ID, certificate_extensions.AUTHORITY_KEY_ID,
    certificate_extensions.DISTRIBUTION_POINTS, certificate_extensions.POLICIES,
    certificate_extensions.AUTHORITY_INFO_ACCESS, "2.5.29.46",
    "1.3.6.1.4.1.11129.2.4.2", "1.3.6.1.5.5.7.1.24", "1.3.6.1.4.1.37476.9000.64.1",
    "2.16.840.1.113730.1.1", "2.16.840.1.113730.1.13",
})  # fmt: skip


class Expectation(msgspec.Struct, frozen=True, kw_only=True):
    """What a certificate has to say.

    Args:
        not_after: it may end no later.
        tolerated: OIDs of extended key usages and of extensions that the CA adds to what is asked for.
        own_subject: the CA leaves subjects out or makes its own, as those do that validate domains: then the subject
            may be empty or one of the alternative names, and says nothing about who somebody is.
    """

    public_key: PublicKey
    subject: Subject
    alt_names: SubjectAltNames
    usages: CertificateUsages
    not_after: dt.datetime
    tolerated: frozenset[str] = frozenset()
    own_subject: bool = False


def verify_copyable(request: CertificateRequest, tolerated: frozenset[str] = frozenset()) -> None:
    """Many CAs copy what a request says: it must not say what no issued certificate may.

    Otherwise whoever makes such a request would be taken for a CA that issues what nobody asked for.

    Raises:
        PolicyError: says what is too much.
    """
    for oid, what in _SINGLE.items():
        if len(request.subject.values(oid)) > 1:
            raise PolicyError(f"the subject has more than one {what}, and readers differ in which one counts")
    for problem in _differing_extensions(request.extensions, tolerated):
        raise PolicyError(problem)
    try:
        meaning = certificate_extensions.interpret(request.extensions)
    except ParseError as error:
        raise PolicyError(f"an extension cannot be read: {error}") from error
    if meaning.is_ca:
        raise PolicyError("it asks for the certificate of a CA")


def verify_issued_elsewhere(
    text: bytes, expected: Expectation, anchors: TrustAnchors, *, now: dt.datetime
) -> tuple[Certificate, ...]:
    """The certificate in PEM ``text`` and what came behind it, once it is what was asked for.

    Raises:
        IssuedMismatchError: with every difference. Whoever sent it must not be asked again before somebody has looked.
    """
    try:
        chain = verify_certificate_chain(text)
    except ParseError as error:
        raise IssuedMismatchError((f"it does not parse: {error}",)) from error
    leaf, *behind = chain
    differences = [
        *_differing_identity(leaf, expected),
        *_differing_names(leaf, expected.alt_names),
        *_differing_purposes(leaf, expected),
        *_differing_extensions(leaf.extensions, expected.tolerated),
        *_differing_times(leaf, expected, now),
    ]
    if len(behind) > MAX_CHAIN:
        differences.append(f"{len(behind)} certificates behind it, allowed {MAX_CHAIN}")
    else:
        differences += _differing_chain(leaf, behind, expected, anchors, now)
    if differences:
        raise IssuedMismatchError(tuple(differences))
    return tuple(chain)


def _differing_identity(leaf: Certificate, expected: Expectation) -> list[str]:
    differences = []
    if leaf.version != 3:
        differences.append(f"version {leaf.version}, allowed 3")
    # The first of all questions: a certificate for another key is somebody else's.
    if leaf.public_key.canonical_info != expected.public_key.canonical_info:
        differences.append("another public key")
    if expected.own_subject:
        said = leaf.subject.common_name.lower()
        names = {name.lower() for name in (*expected.alt_names.dns_names, *map(str, expected.alt_names.ip_addresses))}
        # One attribute, and that is the common name.
        if len(leaf.subject.attributes) > bool(said) or (said and said not in names):
            differences.append(f"subject {_shown(leaf.subject, issued=True)}, allowed none or one of the names")
    elif _comparable(leaf.subject, issued=True) != _comparable(expected.subject):
        differences.append(f"subject {_shown(leaf.subject, issued=True)}, allowed {_shown(expected.subject)}")
    return differences


# Kubernetes takes the last of several, others the first.
_SINGLE = {COMMON_NAME: "common name", SERIAL_NUMBER: "serial number"}


def _comparable(subject: Subject, *, issued: bool = False) -> dict[str, list[str]]:
    """What a subject says, whatever the order; an attribute that nobody here reads may be a user's UID.

    Of an ``issued`` one every value counts, also those that a field leaves out because another one follows.
    """
    said = {name: sorted(_values(subject, name)) for name in SUBJECT_FIELDS}
    if issued:
        said["common_name"], said["serial_number"] = (sorted(subject.values(oid)) for oid in _SINGLE)
    said["unread"] = sorted({oid for oid, _ in subject.attributes} - KNOWN_ATTRIBUTES)
    return said


def _values(subject: Subject, name: str) -> tuple[str, ...]:
    value: str | tuple[str, ...] = getattr(subject, name)
    return ((value,) if value else ()) if isinstance(value, str) else value


def _shown(subject: Subject, *, issued: bool = False) -> str:
    said = {name: values for name, values in _comparable(subject, issued=issued).items() if values}
    return "; ".join(f"{name} {', '.join(map(quote, values))}" for name, values in said.items()) or "none"


def _differing_names(leaf: Certificate, allowed: SubjectAltNames) -> list[str]:
    """Neither one more nor one less: a certificate with others' names, or without its own, is somebody else's."""
    issued = leaf.meaning.alt_names
    pairs = (
        ("DNS name", [each.lower() for each in issued.dns_names], [each.lower() for each in allowed.dns_names]),
        ("e-mail address", list(issued.email_addresses), list(allowed.email_addresses)),
        ("IP address", list(map(str, issued.ip_addresses)), list(map(str, allowed.ip_addresses))),
        ("URI", list(map(str, issued.uris)), list(map(str, allowed.uris))),
    )
    differences = []
    for kind, got, wanted in pairs:
        differences += [f"{kind} {quote(name)} was not asked for" for name in sorted(set(got) - set(wanted))]
        differences += [f"{kind} {quote(name)} is missing" for name in sorted(set(wanted) - set(got))]
    if issued_leaf.has_other_names(leaf):
        differences.append("alternative names of another kind were not asked for")
    return differences


def _differing_purposes(leaf: Certificate, expected: Expectation) -> list[str]:
    meaning, allowed = leaf.meaning, expected.usages
    differences = []
    if meaning.is_ca:
        differences.append("it is a CA")
    if meaning.unhandled_critical:
        differences.append("a critical extension that is not known")
    bits = meaning.key_usage - allowed.key_usage - _USUAL_KEY_USAGE
    if bits:
        differences.append(f"key usage bits {sorted(bits)} were not asked for")
    got, wanted = set(meaning.extended_key_usages), set(allowed.extended)
    if extra := got - wanted - expected.tolerated:
        differences.append(f"extended key usages {sorted(extra)} were not asked for")
    if missing := wanted - got:
        differences.append(f"extended key usages {sorted(missing)} are missing")
    return differences


def _differing_extensions(extensions: Iterable[Extension], tolerated: frozenset[str]) -> list[str]:
    """Those that nobody here compares or knows to be harmless: constraints on names, and what others may believe."""
    unknown = {each.oid for each in extensions} - _COMPARED - _USUAL_EXTENSIONS - tolerated
    return [f"extension {oid} was not asked for" for oid in sorted(unknown)]


def _differing_times(leaf: Certificate, expected: Expectation, now: dt.datetime) -> list[str]:
    differences = []
    if leaf.not_before > now + CLOCKS_DIFFER:
        differences.append(f"not before {leaf.not_before}, and it is {now}")
    if leaf.not_after <= now:
        differences.append(f"not after {leaf.not_after}, and it is {now}")
    if leaf.not_after > expected.not_after + CLOCKS_DIFFER:
        differences.append(f"not after {leaf.not_after}, allowed until {expected.not_after}")
    return differences


def _differing_chain(
    leaf: Certificate,
    behind: Sequence[Certificate],
    expected: Expectation,
    anchors: TrustAnchors,
    now: dt.datetime,
) -> list[str]:
    usage = next(iter(expected.usages.extended), CLIENT_AUTH_OID)
    # A certificate is not refused for a clock that is some seconds behind the issuer's.
    at = max(now, leaf.not_before) if leaf.not_before <= now + CLOCKS_DIFFER else now
    try:
        verify_chain(leaf, behind, anchors, now=at, usage=usage)
    except ClientCertificateError as error:
        return [f"no way to a trusted CA: {error}"]
    return []
