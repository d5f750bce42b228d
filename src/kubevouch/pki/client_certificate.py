"""From a TLS client certificate to a user (Kubernetes 1.36 ``authentication/request/x509``; RFC 5280 section 6).

The TLS layer asks for a certificate and verifies nothing, so this is the only check there is. It does what Go's
``Certificate.Verify`` does with usage clientAuth, in Go's order and words, and stops early where Go would go on: the
depth and the number of signature checks are bounded, and policy constraints, which it would have to evaluate, are
refused.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from kubevouch.machinery.text.gotext import quote, string_slice
from kubevouch.pki import name_constraints
from kubevouch.pki.errors import (
    CertificateExpiredError,
    CertificateNotYetValidError,
    ChainError,
    ClientCertificateError,
    IdentityError,
    IncompatibleUsageError,
    ParseError,
    SignatureError,
    UnknownAuthorityError,
)
from kubevouch.pki.x509 import certificate_extensions, signature, x509_certificate
from kubevouch.pki.x509.public_key import KeyKind
from kubevouch.pki.x509.subject import USER_UID
from kubevouch.pki.x509.usages import ANY_OID, CLIENT_AUTH_OID
from kubevouch.pki.x509.x509_certificate import Certificate

MAX_PRESENTED = 10
"""Certificates a peer may send; real chains have two to four."""
MAX_SIGNATURE_CHECKS = 20
"""Go stops at 100. This leaves room for every honest chain and for none that was built to burn time."""

_CERT_SIGN_BIT = 5
_UNKNOWN = "x509: certificate signed by unknown authority"
_POLICY_EXTENSIONS = frozenset({certificate_extensions.POLICY_CONSTRAINTS, certificate_extensions.INHIBIT_ANY_POLICY})


class TrustAnchors:
    """Certificates that are trusted as they stand, looked up by their names."""

    def __init__(self, certificates: Iterable[Certificate]) -> None:
        self.certificates = tuple(certificates)
        self._by_name: dict[bytes, list[Certificate]] = {}
        for certificate in self.certificates:
            self._by_name.setdefault(certificate.subject_name, []).append(certificate)

    @classmethod
    def from_pem(cls, text: bytes) -> TrustAnchors:
        """Raises :class:`~kubevouch.pki.errors.ParseError` for a bundle without certificates."""
        return cls(x509_certificate.parse_bundle(text))

    def named(self, name: bytes) -> Sequence[Certificate]:
        return self._by_name.get(name, ())

    def __contains__(self, certificate: object) -> bool:
        return isinstance(certificate, Certificate) and any(
            anchor.contents == certificate.contents for anchor in self.named(certificate.subject_name)
        )


class ClientIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Who a verified certificate speaks for, and until when."""

    username: str
    groups: tuple[str, ...]
    uid: str
    credential_id: str
    not_after: dt.datetime


def verify_presented(presented: Sequence[bytes], anchors: TrustAnchors, *, now: dt.datetime) -> tuple[Certificate, ...]:
    """The way from the client's certificate to a trust anchor, both included.

    Args:
        presented: the certificates of a handshake in DER, the client's own first; not empty.

    Raises:
        ClientCertificateError: the certificates prove nothing.
    """
    if len(presented) > MAX_PRESENTED:
        raise ChainError(f"got {len(presented)} client certificates, at most {MAX_PRESENTED} are looked at")
    try:
        leaf, *intermediates = [x509_certificate.parse_der(contents) for contents in presented]
    except ParseError as error:
        raise ClientCertificateError(f"tls: failed to parse certificate from client: {error}") from error
    try:
        return verify_chain(leaf, intermediates, anchors, now=now)
    except ClientCertificateError as error:
        raise type(error)(f"verifying certificate {describe(leaf)} failed: {error}") from error


def verify_chain(
    leaf: Certificate,
    intermediates: Sequence[Certificate],
    anchors: TrustAnchors,
    *,
    now: dt.datetime,
    usage: str = CLIENT_AUTH_OID,
) -> tuple[Certificate, ...]:
    """The way from ``leaf`` to a trust anchor, both included.

    Args:
        usage: the extended key usage that every certificate of the way must permit.

    Raises:
        ClientCertificateError: there is no such way; the subclass says why.
    """
    _verify_valid(leaf, (), now, intermediate=False)
    search = _Search(intermediates, anchors, now)
    chains = search.chains((leaf,)) if leaf not in anchors else iter(((leaf,),))
    refusal: ClientCertificateError | None = None
    for chain in chains:
        refusal = _chain_refusal(chain, usage)
        if refusal is None:
            return chain
    raise refusal or search.refusal


class _Search:
    """Depth-first over every way to an anchor, as long as there are signature checks left."""

    def __init__(self, intermediates: Sequence[Certificate], anchors: TrustAnchors, now: dt.datetime) -> None:
        self._intermediates = intermediates
        self._anchors = anchors
        self._now = now
        self._checks = 0
        self.refusal: ClientCertificateError = UnknownAuthorityError(_UNKNOWN)

    def chains(self, chain: tuple[Certificate, ...]) -> Iterator[tuple[Certificate, ...]]:
        """Each way that goes on from ``chain``; when there was none, ``refusal`` then says why, as Go says it."""
        hint, last, found = "", None, False
        child = chain[-1]
        candidates = [(anchor, False) for anchor in self._anchors.named(child.issuer_name)]
        candidates += [(parent, True) for parent in self._intermediates if parent.subject_name == child.issuer_name]
        for parent, intermediate in candidates:
            if parent.public_key.kind is KeyKind.UNKNOWN or any(_is_same(parent, seen) for seen in chain):
                continue
            self._count_check()
            try:
                _verify_signed_by(child, parent)
            except (ChainError, SignatureError) as error:
                hint = hint or _hint(error, parent)
                continue
            last = None
            try:
                _verify_valid(parent, chain, self._now, intermediate=intermediate)
            except ClientCertificateError as error:
                last = error
                hint = hint or _hint(error, parent)
                continue
            if not intermediate:
                found = True
                yield (*chain, parent)
                continue
            before = self.refusal
            for longer in self.chains((*chain, parent)):
                found = True
                yield longer
            last = self.refusal if self.refusal is not before else None
        if not found:
            self.refusal = last or UnknownAuthorityError(_UNKNOWN + hint)

    def _count_check(self) -> None:
        self._checks += 1
        if self._checks > MAX_SIGNATURE_CHECKS:
            raise ChainError("x509: signature check attempts limit reached while verifying certificate chain")


def _hint(error: Exception, parent: Certificate) -> str:
    return (
        f" (possibly because of {quote(str(error))} while trying to verify candidate authority certificate "
        f"{quote(_name(parent))})"
    )


def _is_same(candidate: Certificate, seen: Certificate) -> bool:
    """One subject with one key and the same names is one link, however often it was certified."""
    return (
        candidate.subject_name == seen.subject_name
        and candidate.public_key.info == seen.public_key.info
        and candidate.meaning.has_alt_names == seen.meaning.has_alt_names
        and candidate.meaning.alt_names == seen.meaning.alt_names
    )


def _name(certificate: Certificate) -> str:
    subject = certificate.subject
    return subject.common_name or next(iter(subject.organizations), f"serial:{_serial(certificate)}")


def _verify_signed_by(child: Certificate, parent: Certificate) -> None:
    """The parent is a CA (RFC 5280 section 6.1.4 k, n) and has signed the child; SHA-1 does not count."""
    meaning = parent.meaning
    if (parent.version == 3 and not meaning.has_basic_constraints) or (
        meaning.has_basic_constraints and not meaning.is_ca
    ):
        raise ChainError("x509: invalid signature: parent certificate cannot sign this kind of certificate")
    if meaning.key_usage and _CERT_SIGN_BIT not in meaning.key_usage:
        raise ChainError("x509: invalid signature: parent certificate cannot sign this kind of certificate")
    signature.verify(child.signature_algorithm, parent.public_key, child.signed, child.signature)


def is_issued_by(certificate: Certificate, authority: Certificate) -> bool:
    """Whether ``authority`` itself has signed ``certificate``, whatever the date."""
    if certificate.issuer_name != authority.subject_name:
        return False
    try:
        _verify_signed_by(certificate, authority)
    except (ChainError, SignatureError):
        return False
    return True


def is_self_signed(certificate: Certificate) -> bool:
    """Whether its own key has signed it; a next CA of the same name that the former one has signed is not."""
    return certificate.subject_name == certificate.issuer_name and is_issued_by(certificate, certificate)


def _verify_valid(
    certificate: Certificate, below: tuple[Certificate, ...], now: dt.datetime, *, intermediate: bool
) -> None:
    """What holds for each certificate by itself and for its place above ``below``."""
    meaning = certificate.meaning
    if meaning.unhandled_critical:
        raise ChainError("x509: unhandled critical extension")
    prefix = "x509: certificate has expired or is not yet valid: current time"
    if now < certificate.not_before:
        raise CertificateNotYetValidError(f"{prefix} {_rfc3339(now)} is before {_rfc3339(certificate.not_before)}")
    if now > certificate.not_after:
        raise CertificateExpiredError(f"{prefix} {_rfc3339(now)} is after {_rfc3339(certificate.not_after)}")
    if intermediate and not (meaning.has_basic_constraints and meaning.is_ca):
        raise ChainError("x509: certificate is not authorized to sign other certificates")
    if meaning.max_path_length is not None and len(below) - 1 > meaning.max_path_length:
        raise ChainError("x509: too many intermediates for path length constraint")


def _rfc3339(moment: dt.datetime) -> str:
    return moment.astimezone(dt.UTC).replace(microsecond=0, tzinfo=None).isoformat() + "Z"


def _chain_refusal(chain: tuple[Certificate, ...], usage: str) -> ClientCertificateError | None:
    for certificate in chain:
        usages = certificate.meaning.extended_key_usages
        if usages and usage not in usages and ANY_OID not in usages:
            return IncompatibleUsageError("x509: certificate specifies an incompatible key usage")
    for authority in chain[1:]:
        if any(extension.oid in _POLICY_EXTENSIONS for extension in authority.extensions):
            return ChainError(f"{quote(_name(authority))} has policy constraints, which are not evaluated")
    broken = name_constraints.violation(chain)
    if broken:
        return ChainError(f"x509: a root or intermediate certificate is not authorized to sign for this name: {broken}")
    return None


def identify(certificate: Certificate) -> ClientIdentity | None:
    """The user in the subject of a certificate **that has been verified**.

    The name is the last common name, the groups are the organizations as they stand.

    Returns:
        Nothing without a common name.

    Raises:
        IdentityError: an empty UID, or more than one; with Kubernetes' text.
    """
    subject = certificate.subject
    if not subject.common_name:
        return None
    uids = subject.values(USER_UID)
    if len(uids) > 1:
        raise IdentityError(f"expected 1 UID, but found multiple: {string_slice(uids)}")
    if uids and not uids[0]:
        raise IdentityError("UID cannot be an empty string")
    return ClientIdentity(
        username=subject.common_name,
        groups=subject.organizations,
        uid=uids[0] if uids else "",
        credential_id=f"X509SHA256={certificate.fingerprint().hex()}",
        not_after=certificate.not_after,
    )


def describe(certificate: Certificate) -> str:
    """Serial number and key identifiers, as kube-apiserver logs them."""
    meaning = certificate.meaning
    return (
        f"SN={_serial(certificate)}, SKID={_colons(meaning.subject_key_id)}, AKID={_colons(meaning.authority_key_id)}"
    )


def _serial(certificate: Certificate) -> str:
    """Decimal, as Go prints it; CPython refuses that for numbers as long as a certificate can hold, so those in hex."""
    serial = certificate.serial
    return str(serial) if serial.bit_length() <= 1024 else hex(serial)


def _colons(octets: bytes) -> str:
    return octets.hex(":").upper()
