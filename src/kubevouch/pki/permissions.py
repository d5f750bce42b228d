"""What a signer that is described by data permits, and what it makes of a request.

Nothing is permitted that is not named. Each kind of wish says what becomes of a request that asks for more: it fails,
or the wish is dropped. What is left of it is a :class:`Grant`, the most that the certificate may say.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TypeVar

import msgspec

from kubevouch.machinery.text.gotext import quote
from kubevouch.pki import issued_leaf
from kubevouch.pki.errors import ParseError, PolicyError
from kubevouch.pki.name_patterns import Kind, Patterns
from kubevouch.pki.x509 import certificate_extensions
from kubevouch.pki.x509.certificate_extensions import Extension, Extensions
from kubevouch.pki.x509.subject import KNOWN_ATTRIBUTES, Subject
from kubevouch.pki.x509.subject_alt_names import NONE, IPAddress, SubjectAltNames
from kubevouch.pki.x509.usages import CERT_SIGN, CRL_SIGN, CertificateUsages, resolve
from kubevouch.pki.x509.x509_request import CertificateRequest

MAX_NAMES = 100
"""Alternative names of one certificate, unless a signer says otherwise: more is what nobody reads before approving."""

T = TypeVar("T")

_SYSTEM = "system:"
_SHOWN = 253


class Otherwise(StrEnum):
    """What becomes of a wish that is not permitted."""

    FAIL = "Fail"
    DROP = "Drop"


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """What a certificate is to say of its owner.

    Args:
        extensions: copied from the request, beside those that the signer makes itself.
    """

    subject: Subject
    alt_names: SubjectAltNames = NONE
    usages: CertificateUsages
    is_ca: bool = False
    max_path_length: int | None = None
    extensions: tuple[Extension, ...] = ()


NEVER_COPIED = frozenset(
    {
        certificate_extensions.SUBJECT_KEY_ID,
        certificate_extensions.KEY_USAGE,
        certificate_extensions.SUBJECT_ALT_NAME,
        certificate_extensions.BASIC_CONSTRAINTS,
        certificate_extensions.NAME_CONSTRAINTS,
        certificate_extensions.DISTRIBUTION_POINTS,
        certificate_extensions.POLICY_MAPPINGS,
        certificate_extensions.AUTHORITY_KEY_ID,
        certificate_extensions.POLICY_CONSTRAINTS,
        certificate_extensions.EXTENDED_KEY_USAGE,
        certificate_extensions.INHIBIT_ANY_POLICY,
        certificate_extensions.AUTHORITY_INFO_ACCESS,
    }
)
"""Extensions that are the signer's word: nobody who asks for a certificate writes them."""

# Every tool asks for them, and what they say follows from the key and from spec.usages.
_ASKED_BY_HABIT = frozenset(
    {
        certificate_extensions.SUBJECT_KEY_ID,
        certificate_extensions.AUTHORITY_KEY_ID,
        certificate_extensions.KEY_USAGE,
        certificate_extensions.EXTENDED_KEY_USAGE,
        certificate_extensions.SUBJECT_ALT_NAME,
        certificate_extensions.BASIC_CONSTRAINTS,
    }
)

SUBJECT_FIELDS: Mapping[str, str] = {
    "common_name": "common name",
    "organizations": "organization",
    "organizational_units": "organizational unit",
    "countries": "country",
    "provinces": "province",
    "localities": "locality",
    "street_addresses": "street address",
    "postal_codes": "postal code",
    "serial_number": "serial number",
}
"""The attributes that are issued, by their names in :class:`Subject`; what one of them is called."""


class SubjectPermissions(msgspec.Struct, frozen=True, eq=False):
    """By attribute of :class:`Subject`. ``anything``: all but the names of Kubernetes' own users and groups."""

    patterns: Mapping[str, Patterns] = msgspec.field(default_factory=dict)
    required: frozenset[str] = frozenset()
    anything: bool = False
    otherwise: Otherwise = Otherwise.FAIL

    def of(self, subject: Subject) -> Subject:
        """What is permitted of ``subject``. Raises :class:`PolicyError`."""
        unknown = sorted({oid for oid, _ in subject.attributes} - KNOWN_ATTRIBUTES)
        if unknown and self.otherwise is Otherwise.FAIL:
            raise PolicyError(f"subject attribute {unknown[0]} is not issued")
        kept: dict[str, str | tuple[str, ...]] = {}
        for name, what in SUBJECT_FIELDS.items():
            value = getattr(subject, name)
            values = (value,) if isinstance(value, str) and value else tuple(value)
            left = tuple(each for each in values if self._permits(name, each))
            for each in values:
                if each not in left and self.otherwise is Otherwise.FAIL:
                    raise PolicyError(f"subject {what} {quote(each[:_SHOWN])} is not permitted")
            if name in self.required and not left:
                raise PolicyError(f"subject has no {what}, which this signer requires")
            kept[name] = (left[0] if left else "") if isinstance(value, str) else left
        return Subject(**kept)  # type: ignore[arg-type]  # each has the type that it was read with

    def _permits(self, name: str, value: str) -> bool:
        patterns = self.patterns.get(name)
        if value.startswith(_SYSTEM):
            # No star stands for one of Kubernetes' own names: whoever means them writes so.
            return patterns is not None and any(
                each.startswith(_SYSTEM) and Patterns([each]).permit(value) for each in patterns.texts
            )
        return self.anything or (patterns is not None and patterns.permit(value))


class NamePermissions(msgspec.Struct, frozen=True, eq=False):
    """Which alternative names, and how many, at least one of them if ``required``."""

    dns_names: Patterns = msgspec.field(default_factory=lambda: Patterns((), Kind.DNS))
    email_addresses: Patterns = msgspec.field(default_factory=lambda: Patterns((), Kind.EMAIL))
    uris: Patterns = msgspec.field(default_factory=lambda: Patterns(()))
    networks: Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network] = ()
    most: int = MAX_NAMES
    required: bool = False
    otherwise: Otherwise = Otherwise.FAIL

    def of(self, request: CertificateRequest) -> SubjectAltNames:
        """What is permitted of the names. Raises :class:`PolicyError`."""
        names = request.alt_names
        if issued_leaf.are_of_other_kinds(request.extensions, names) and self.otherwise is Otherwise.FAIL:
            raise PolicyError("subjectAltName has a name that is neither DNS, e-mail address, IP address nor URI")
        kept = SubjectAltNames(
            dns_names=tuple(self._kept("DNS", names.dns_names, self.dns_names.permit)),
            email_addresses=tuple(self._kept("Email", names.email_addresses, self.email_addresses.permit)),
            ip_addresses=tuple(self._kept("IP", names.ip_addresses, self._in_networks)),
            uris=tuple(self._kept("URI", names.uris, self.uris.permit)),
        )
        count = len(kept.dns_names) + len(kept.email_addresses) + len(kept.ip_addresses) + len(kept.uris)
        if count > self.most:
            raise PolicyError(f"there are {count} subjectAltNames, {self.most} at most are permitted")
        if self.required and not count:
            raise PolicyError("a subjectAltName is required that this signer permits")
        return kept

    def _kept(self, kind: str, names: Iterable[T], permit: Callable[[T], bool]) -> Iterator[T]:
        for name in names:
            if permit(name):
                yield name
            elif self.otherwise is Otherwise.FAIL:
                raise PolicyError(f"{kind} subjectAltName {quote(str(name)[:_SHOWN])} is not permitted")

    def _in_networks(self, address: IPAddress) -> bool:
        return any(address.version == each.version and address in each for each in self.networks)


class UsagePermissions(msgspec.Struct, frozen=True, eq=False):
    """Of Kubernetes' key usages those that may be asked for, and those that have to be."""

    permitted: frozenset[str]
    required: frozenset[str] = frozenset()
    otherwise: Otherwise = Otherwise.FAIL

    def of(self, usages: Sequence[str]) -> tuple[str, ...]:
        """What is permitted of ``usages``. Raises :class:`PolicyError`."""
        kept = tuple(each for each in usages if each in self.permitted)
        for each in usages:
            if each not in kept and self.otherwise is Otherwise.FAIL:
                raise PolicyError(f"usage {quote(each[:_SHOWN])} is not permitted")
        missing = sorted(self.required.difference(kept))
        if missing:
            raise PolicyError(f"usage {quote(missing[0])} is required")
        if not kept:
            raise PolicyError("no usage is left that this signer permits")
        return kept


class AuthorityPermissions(msgspec.Struct, frozen=True, eq=False):
    """Whether requests for a CA's certificate are met.

    Args:
        most_below: the longest path length; None does not limit it.
    """

    allowed: bool = False
    most_below: int | None = 0
    otherwise: Otherwise = Otherwise.FAIL

    def of(self, request: CertificateRequest, issuer: Extensions | None) -> tuple[bool, int | None]:
        """Whether it becomes a CA, and its path length; no longer than below ``issuer`` there may be one.

        Raises:
            PolicyError: it may not.
        """
        asked = _basic_constraints(request)
        if not asked.is_ca:
            return False, None
        if not self.allowed:
            if self.otherwise is Otherwise.FAIL:
                raise PolicyError("a CA certificate is asked for, which this signer does not issue")
            return False, None
        limits = [asked.max_path_length, self.most_below]
        if issuer is not None and issuer.max_path_length is not None:
            if issuer.max_path_length == 0:
                raise PolicyError("a CA certificate is asked for, and the signer's own CA permits none below it")
            limits.append(issuer.max_path_length - 1)
        return True, min((each for each in limits if each is not None), default=None)


def _basic_constraints(request: CertificateRequest) -> Extensions:
    try:
        return certificate_extensions.interpret(
            tuple(each for each in request.extensions if each.oid == certificate_extensions.BASIC_CONSTRAINTS)
        )
    except ParseError as error:
        raise PolicyError(f"the request's basic constraints do not parse: {error}") from error


class ExtensionPermissions(msgspec.Struct, frozen=True, eq=False):
    """By dotted identifier. What is copied is copied as not critical: nobody here vouches for its meaning."""

    permitted: frozenset[str] = frozenset()
    otherwise: Otherwise = Otherwise.FAIL

    def of(self, extensions: Iterable[Extension]) -> tuple[Extension, ...]:
        """What is permitted of ``extensions``. Raises :class:`PolicyError`."""
        kept = []
        for each in extensions:
            if each.oid in self.permitted:
                kept.append(Extension(each.oid, False, each.value))
            elif each.oid not in _ASKED_BY_HABIT and self.otherwise is Otherwise.FAIL:
                raise PolicyError(f"extension {each.oid} is not permitted")
        for each in kept:
            # Found out after signing, contents that do not parse would be the signer's fault.
            try:
                certificate_extensions.interpret((each,))
            except ParseError as error:
                raise PolicyError(f"extension {each.oid} does not parse: {error}") from error
        return tuple(kept)


class Permissions(msgspec.Struct, frozen=True, eq=False):
    """All of it.

    Args:
        longest: seconds that may be asked for; more fails, or gets this.
    """

    subject: SubjectPermissions
    names: NamePermissions
    usages: UsagePermissions
    authority: AuthorityPermissions = AuthorityPermissions()
    extensions: ExtensionPermissions = ExtensionPermissions()
    longest: int = 0
    when_longer: Otherwise = Otherwise.DROP

    def grant(
        self,
        request: CertificateRequest,
        usages: Sequence[str],
        expiration_seconds: int | None,
        issuer: Extensions | None = None,
    ) -> tuple[Grant, tuple[str, ...]]:
        """What ``request`` is granted, and by which usages; ``issuer`` is what the signer's certificate says of itself.

        Raises:
            PolicyError: it asks for what is not permitted.
            UsageError: a usage outside the closed set.
        """
        subject, names = self.subject.of(request.subject), self.names.of(request)
        if subject == Subject() and not names:
            raise PolicyError("neither a subject nor a subjectAltName is left that this signer permits")
        is_ca, path_length = self.authority.of(request, issuer)
        kept = self.usages.of(usages)
        for each in (CERT_SIGN, CRL_SIGN):
            if each in kept and not is_ca:
                raise PolicyError(f"usage {quote(each)} is for CA certificates only")
        if is_ca and CERT_SIGN not in kept:
            raise PolicyError(f"a CA certificate is asked for without the usage {quote(CERT_SIGN)}")
        if expiration_seconds is not None and expiration_seconds > self.longest and self.when_longer is Otherwise.FAIL:
            raise PolicyError(f"{expiration_seconds} seconds are asked for, {self.longest} at most are permitted")
        grant = Grant(
            subject=subject,
            alt_names=names,
            usages=resolve(kept),
            is_ca=is_ca,
            max_path_length=path_length,
            extensions=self.extensions.of(request.extensions),
        )
        return grant, kept
