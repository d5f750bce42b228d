"""Whether the names in a chain are within what the CAs above them may vouch for, judged as Go (1.26) judges it.

Source: crypto/x509/constraints.go (Go 1.26), checkChainConstraints; RFC 5280 sections 4.2.1.10 and 6.1.4 (b), (c), (g).
As there, only alternative names are looked at, never the subject: a common name is no DNS name.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence

from kubevouch.machinery.text.gotext import quote
from kubevouch.pki.errors import DERError
from kubevouch.pki.x509 import der, subject_alt_names, uri
from kubevouch.pki.x509.certificate_extensions import NameConstraints
from kubevouch.pki.x509.subject_alt_names import is_domain
from kubevouch.pki.x509.x509_certificate import Certificate

MAX_COMPARISONS = 250_000
"""Names times constraints: what Go allowed one certificate before 1.26. Real chains have some dozens."""

_IP_TAG = 0x87
_ATOMS = re.compile(r"((?:\\.|[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~.])+)@(.*)", re.ASCII | re.DOTALL)
_QUOTED = re.compile(r'"((?:[^"\\\0\n\r\x80-\U0010ffff]|\\[\x01-\x09\x0b\x0c\x0e-\x7f])*)"@(.*)', re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)

Mailbox = tuple[str, str]


def violation(chain: Sequence[Certificate]) -> str:
    """What stands against a chain, its leaf first, in Go's words; empty if nothing does."""
    constrained = [
        (place, each.meaning.name_constraints)
        for place, each in enumerate(chain)
        if each.meaning.name_constraints is not None
    ]
    comparisons = 0
    for place, certificate in enumerate(chain):
        above = [constraints for index, constraints in constrained if index > place]
        if not above or not certificate.meaning.has_alt_names:
            continue
        comparisons += _count(certificate) * sum(map(len, above))
        if comparisons > MAX_COMPARISONS:
            return f"more than {MAX_COMPARISONS} comparisons of names and constraints"
        broken = next(_violations(certificate, above), "")
        if broken:
            return broken
    return ""


def _count(certificate: Certificate) -> int:
    names = certificate.meaning.alt_names
    return len(names.dns_names) + len(names.email_addresses) + len(names.ip_addresses) + len(names.uris)


def _violations(certificate: Certificate, above: Sequence[NameConstraints]) -> Iterator[str]:
    """In Go's order: names that cannot be compared come first, then one CA after the other."""
    names = certificate.meaning.alt_names
    hosts: list[tuple[str, str]] = []
    for text in names.uris:
        host, why = _host_of(text)
        if why:
            yield why
            return
        hosts.append((text, host))
    mailboxes: list[Mailbox] = []
    for address in names.email_addresses:
        mailbox = mailbox_of(address)
        if mailbox is None:
            yield f"cannot parse rfc822Name {quote(address)}"
            return
        mailboxes.append((mailbox[0], mailbox[1].lower()))
    for constraints in above:
        permitted, excluded = constraints.permitted, constraints.excluded
        for raw in _addresses(certificate):
            yield from _judged(
                "IP address", quote(str(ipaddress.ip_address(raw))),
                [_network_text(each) for each in permitted.networks if _contains(each, raw)], bool(permitted.networks),
                [_network_text(each) for each in excluded.networks if _contains(each, raw)],
            )  # fmt: skip
        for name in names.dns_names:
            if not is_domain(name) or name.endswith("."):
                yield f"x509: cannot parse dnsName {quote(name)}"
            yield from _judged(
                "DNS name", quote(name), [each for each in permitted.dns_names if _is_below(name, each)],
                bool(permitted.dns_names), [each for each in excluded.dns_names if _is_excluded(name, each)],
            )  # fmt: skip
        for text, host in hosts:
            yield from _judged(
                "URI", quote(text), [each for each in permitted.uris if _is_below(host, each)], bool(permitted.uris),
                [each for each in excluded.uris if _is_excluded(host, each)],
            )  # fmt: skip
        for local, domain in mailboxes:
            yield from _judged(
                "email address", f"{{{quote(local)} {quote(domain)}}}",
                [each for each in permitted.email_addresses if _is_of(local, domain, each)],
                bool(permitted.email_addresses),
                [each for each in excluded.email_addresses if _is_of(local, domain, each)],
            )  # fmt: skip


def _judged(kind: str, shown: str, within: Sequence[str], limited: bool, hits: Sequence[str]) -> Iterator[str]:
    if limited and not within:
        yield f"{kind} {shown} is not permitted by any constraint"
    elif hits:
        yield f"{kind} {shown} is excluded by constraint {quote(hits[0])}"


def _is_below(name: str, constraint: str) -> bool:
    """Whether it is the constraint's name or one below it; with a leading dot only below it. By whole labels."""
    name, constraint = name.lower(), constraint.lower()
    if not constraint:
        return True
    if not name.endswith(constraint):
        return False
    return len(name) == len(constraint) or constraint.startswith(".") or name[-len(constraint) - 1] == "."


def _is_excluded(name: str, constraint: str) -> bool:
    """A wildcard is also excluded by what it could stand for (CVE-2025-61727)."""
    if _is_below(name, constraint):
        return True
    _, dot, parent = constraint.lower().partition(".")
    return name.startswith("*") and bool(dot) and name.lower().partition(".")[1:] == (dot, parent)


def _is_of(local: str, domain: str, constraint: str) -> bool:
    if "@" not in constraint:
        return _is_below(domain, constraint)
    mailbox = mailbox_of(constraint)
    return mailbox is not None and mailbox[0] == local and mailbox[1].lower() == domain


def _contains(network: bytes, address: bytes) -> bool:
    half = len(network) // 2
    if len(address) != half:
        return False
    pairs = zip(address, network[:half], network[half:], strict=True)
    return all(octet & mask == base & mask for octet, base, mask in pairs)


def _network_text(network: bytes) -> str:
    half = len(network) // 2
    return f"{ipaddress.ip_address(network[:half])}/{int.from_bytes(network[half:]).bit_count()}"


def _addresses(certificate: Certificate) -> Iterator[bytes]:
    """As they are encoded: an IPv6 address that maps an IPv4 one is compared with constraints of IPv6."""
    for extension in certificate.extensions:
        if extension.oid != subject_alt_names.OID:
            continue
        value = extension.value
        try:
            start, stop = der.expect(value, 0, len(value), der.SEQUENCE)
            yield from (value[begin:end] for tag, begin, end in _tagged(value, start, stop) if tag == _IP_TAG)
        except DERError:
            return  # it has been parsed: what is wrong stands behind the names


def _tagged(value: bytes, position: int, stop: int) -> Iterator[tuple[int, int, int]]:
    while position < stop:
        tag, begin, position = der.element(value, position, stop)
        yield tag, begin, position


def _host_of(text: str) -> tuple[str, str]:
    """The domain of a URI, and why there is none that could be compared."""
    host = uri.parse(text).host.lower()
    if not host:
        return "", f"URI with empty host ({quote(text)}) cannot be matched against constraints"
    if not host.endswith("]"):
        host = host.partition(":")[0]
    try:
        ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        if not host.startswith("["):
            return host, ""
    return "", f"URI with IP ({quote(text)}) cannot be matched against constraints"


def mailbox_of(address: str) -> Mailbox | None:
    """Local part and domain of an address (RFC 2821 section 4.1.2, as Go reads it); None if it is none."""
    quoted = _QUOTED.fullmatch(address)
    match = quoted or _ATOMS.fullmatch(address)
    if match is None:
        return None
    local, domain = _ESCAPE.sub(r"\1", match[1]), match[2]
    if quoted is None and (local.startswith(".") or local.endswith(".") or ".." in local):
        return None
    return (local, domain) if is_domain(domain) else None
