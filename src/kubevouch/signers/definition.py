"""From a CertificateSigner to the rules by which its CA signs. Pure.

DefinitionError    a spec that its schema takes and that still cannot be meant; ``problems`` holds each
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Callable, Sequence
from typing import TypeVar

from kubevouch.api.kubevouch_v1alpha1.certificate_signers import (
    STRICT,
    CertificateSignerSpec,
    SignerAltNames,
    SignerAuthorities,
    SignerExtensions,
    SignerSubject,
)
from kubevouch.machinery.text.gotext import quote
from kubevouch.pki.issuance import SigningRules
from kubevouch.pki.name_patterns import Kind, Patterns
from kubevouch.pki.permissions import (
    NEVER_COPIED,
    SUBJECT_FIELDS,
    AuthorityPermissions,
    ExtensionPermissions,
    NamePermissions,
    Otherwise,
    Permissions,
    SubjectPermissions,
    UsagePermissions,
)
from kubevouch.pki.profile import Profile
from kubevouch.pki.x509 import information_access
from kubevouch.pki.x509.usages import CERT_SIGN, CRL_SIGN
from kubevouch.signers.interface import SignerError

T = TypeVar("T")

# As the object spells them, and as a subject has them.
ATTRIBUTES = {
    "commonNames": "common_name",
    "organizations": "organizations",
    "organizationalUnits": "organizational_units",
    "countries": "countries",
    "provinces": "provinces",
    "localities": "localities",
    "streetAddresses": "street_addresses",
    "postalCodes": "postal_codes",
    "serialNumbers": "serial_number",
}


class DefinitionError(SignerError):
    """A spec that its schema takes and that still cannot be meant."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def rules_of(spec: CertificateSignerSpec) -> SigningRules:
    """The rules of the signer.

    Raises:
        DefinitionError: with everything that is wrong.
    """
    reader = _Reader()
    lifetime, usages = spec.lifetime, spec.usages
    longest = lifetime.max_seconds or lifetime.default_seconds
    if lifetime.default_seconds > longest:
        reader.problem(f"spec.lifetime.maxSeconds: {longest} is less than defaultSeconds, {lifetime.default_seconds}")
    missing = sorted(set(usages.required).difference(usages.permitted))
    if missing:
        reader.problem(f"spec.usages.required: {quote(missing[0])} is not among the permitted")
    authorities = spec.authorities or SignerAuthorities()
    if authorities.allowed is not (CERT_SIGN in usages.permitted):
        reader.problem(
            f"spec.authorities.allowed: {quote(CERT_SIGN)} is {'not ' if authorities.allowed else ''}among the "
            "permitted usages; CAs need it, and nobody else may have it"
        )
    elif CRL_SIGN in usages.permitted and not authorities.allowed:
        reader.problem(f"spec.usages.permitted: {quote(CRL_SIGN)} is for CAs")
    permissions = Permissions(
        subject=reader.subject(spec.subject or SignerSubject()),
        names=reader.names(spec.alt_names or SignerAltNames()),
        usages=UsagePermissions(frozenset(usages.permitted), frozenset(usages.required), Otherwise(usages.otherwise)),
        authority=AuthorityPermissions(
            authorities.allowed, authorities.max_path_length, Otherwise(authorities.otherwise)
        ),
        extensions=reader.extensions(spec.extensions or SignerExtensions()),
        longest=longest,
        when_longer=Otherwise(lifetime.otherwise),
    )
    own = spec.extensions or SignerExtensions()
    if reader.problems:
        raise DefinitionError(reader.problems)
    return SigningRules(
        signing_duration=dt.timedelta(seconds=longest),
        default_duration=dt.timedelta(seconds=lifetime.default_seconds),
        spread=lifetime.spread_percent / 100,
        profile=Profile.STRICT if spec.profile == STRICT else Profile.COMPATIBLE,
        permissions=permissions,
        extensions=(
            *information_access.authority_information_access(own.ocsp_servers, own.ca_issuers),
            *information_access.crl_distribution_points(own.crl_distribution_points),
        ),
    )


class _Reader:
    """Goes on after a problem, so that all are told at once."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def problem(self, text: str) -> None:
        self.problems.append(text)

    def _try(self, path: str, make: Callable[[], T], instead: T) -> T:
        try:
            return make()
        except ValueError as err:
            self.problem(f"{path}: {err}")
            return instead

    def _patterns(
        self, path: str, texts: Sequence[str], kind: Kind = Kind.TEXT, *, wildcards: bool = False
    ) -> Patterns:
        return self._try(path, lambda: Patterns(texts, kind, wildcards=wildcards), Patterns(()))

    def subject(self, given: SignerSubject) -> SubjectPermissions:
        lists: dict[str, list[str]] = {
            "commonNames": given.common_names,
            "organizations": given.organizations,
            "organizationalUnits": given.organizational_units,
            "countries": given.countries,
            "provinces": given.provinces,
            "localities": given.localities,
            "streetAddresses": given.street_addresses,
            "postalCodes": given.postal_codes,
            "serialNumbers": given.serial_numbers,
        }
        patterns = {ATTRIBUTES[name]: self._patterns(f"spec.subject.{name}", texts) for name, texts in lists.items()}
        required = frozenset(ATTRIBUTES[name] for name in given.required)
        for name in sorted(required):
            if not patterns[name] and not given.anything:
                self.problem(f"spec.subject.required: no {SUBJECT_FIELDS[name]} is permitted")
        return SubjectPermissions(
            {name: each for name, each in patterns.items() if each}, required, given.anything,
            Otherwise(given.otherwise),
        )  # fmt: skip

    def names(self, given: SignerAltNames) -> NamePermissions:
        networks = []
        for text in given.ip_ranges:
            network = self._try("spec.altNames.ipRanges", lambda text=text: ipaddress.ip_network(text), None)  # type: ignore[misc]  # the default binds this turn's
            if network is not None:
                networks.append(network)
        permissions = NamePermissions(
            dns_names=self._patterns("spec.altNames.dnsNames", given.dns_names, Kind.DNS, wildcards=given.wildcards),
            email_addresses=self._patterns("spec.altNames.emailAddresses", given.email_addresses, Kind.EMAIL),
            uris=self._patterns("spec.altNames.uris", given.uris),
            networks=tuple(networks),
            most=given.most,
            required=given.required,
            otherwise=Otherwise(given.otherwise),
        )
        if given.required and not any((given.dns_names, given.email_addresses, given.uris, networks)):
            self.problem("spec.altNames.required: no name is permitted")
        return permissions

    def extensions(self, given: SignerExtensions) -> ExtensionPermissions:
        for oid in given.permitted:
            if oid in NEVER_COPIED:
                self.problem(f"spec.extensions.permitted: {oid} is the signer's own word, and never copied")
        return ExtensionPermissions(frozenset(given.permitted), Otherwise(given.otherwise))
