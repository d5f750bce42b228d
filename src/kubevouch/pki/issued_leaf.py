"""What an issued certificate says beyond what was asked for, or leaves out of it, as the machine that asked sees it.

Whoever signs, or sits in between, may answer a request with any certificate of the cluster's CA for the machine's key:
a CA's, one with another cluster's names, one that serves where only a client was asked for. Extensions without a
meaning for who uses the certificate (distribution points and such) are the signer's business.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator

from kubevouch.pki.errors import DERError
from kubevouch.pki.policy import BACKDATE, MIN_TTL
from kubevouch.pki.x509 import der, subject_alt_names, usages
from kubevouch.pki.x509.certificate_extensions import Extension
from kubevouch.pki.x509.subject import COMMON_NAME, ORGANIZATION, Attribute, Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames, canonical
from kubevouch.pki.x509.x509_certificate import Certificate

SLACK = dt.timedelta(hours=1)
"""Added to a life that was asked for: other signers date their certificates back by more than Kubernetes' do."""

_CA_BITS = frozenset({usages.KEY_USAGE_BITS[usages.CERT_SIGN], usages.KEY_USAGE_BITS[usages.CRL_SIGN]})
_DIGITAL_SIGNATURE = usages.KEY_USAGE_BITS[usages.DIGITAL_SIGNATURE]


def differences(
    leaf: Certificate, *, subject: Subject, alt_names: SubjectAltNames, purpose: str, expiration_seconds: int | None
) -> Iterator[str]:
    """A clause for each difference, which goes on from "the certificate". Its key is not looked at.

    Args:
        subject: common name and organizations; no other attribute can be asked for.
        purpose: the one extended key usage.
        expiration_seconds: None leaves the life to the signer.
    """
    # 1. The subject. A user's UID is an attribute of its own, which common name and organizations do not show.
    if sorted(map(repr, leaf.subject.attributes)) != sorted(map(repr, _attributes(subject))):
        yield (
            f"is for {leaf.subject.common_name!r} in {list(leaf.subject.organizations)} with "
            f"{len(leaf.subject.attributes)} attributes, expected {subject.common_name!r} in "
            f"{list(subject.organizations)} and nothing more"
        )
    # 2. The names; each by itself.
    got, wanted = _names(leaf.meaning.alt_names), _names(alt_names)
    for name in sorted(got - wanted):
        yield f"has the name {name!r}, which nobody asked for"
    for name in sorted(wanted - got):
        yield f"does not have all names: {name!r} is missing"
    if has_other_names(leaf):
        yield "has names of a kind that nobody asked for"
    # 3. The uses (RFC 5280 sections 4.2.1.3, 4.2.1.9, 4.2.1.12).
    meaning = leaf.meaning
    if meaning.is_ca or meaning.key_usage & _CA_BITS:
        yield "is that of a CA"
    if meaning.key_usage and _DIGITAL_SIGNATURE not in meaning.key_usage:
        yield "may not be used to sign"
    if set(meaning.extended_key_usages) != {usages.EXTENDED_KEY_USAGES[purpose]}:
        yield f"is for other purposes than {purpose}: {', '.join(meaning.extended_key_usages) or 'any'}"
    # 4. The life.
    if expiration_seconds is not None:
        most = max(dt.timedelta(seconds=expiration_seconds), MIN_TTL) + BACKDATE + SLACK
        if leaf.not_after - leaf.not_before > most:
            yield f"is valid for {leaf.not_after - leaf.not_before}, {expiration_seconds} s were asked for"


def _attributes(subject: Subject) -> list[Attribute]:
    organizations: list[Attribute] = [(ORGANIZATION, each) for each in subject.organizations]
    return [*organizations, (COMMON_NAME, subject.common_name)] if subject.common_name else organizations


def _kinds(names: SubjectAltNames) -> tuple[tuple[object, ...], ...]:
    return names.dns_names, names.email_addresses, names.ip_addresses, names.uris


def _names(names: SubjectAltNames) -> set[str]:
    addresses = {str(canonical(each)) for each in names.ip_addresses}
    return {*names.dns_names, *names.email_addresses, *addresses, *names.uris}


def has_other_names(leaf: Certificate) -> bool:
    """Whether it has alternative names of a kind that is not read: otherName, directoryName and such."""
    return are_of_other_kinds(leaf.extensions, leaf.meaning.alt_names)


def are_of_other_kinds(extensions: Iterable[Extension], read: SubjectAltNames) -> bool:
    """Whether there are more names in ``extensions`` than ``read``, which is what was read of them."""
    return _count_names(extensions) != sum(map(len, _kinds(read)))


def _count_names(extensions: Iterable[Extension]) -> int:
    """How many names there are, of whatever kind; -1 if they cannot be counted."""
    count = 0
    for extension in extensions:
        if extension.oid == subject_alt_names.OID:
            value = extension.value
            try:
                start, stop = der.expect(value, 0, len(value), der.SEQUENCE)
                count += len(der.elements(value, start, stop, None))
            except DERError:
                return -1
    return count
