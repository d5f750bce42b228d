"""When a kubelet asks for its next certificate, and for which names (client-go ``util/certificate``, kubelet 1.36)."""

from __future__ import annotations

import datetime as dt
import ipaddress
import math
from collections.abc import Iterable

import msgspec

from kubevouch.pki.x509.subject_alt_names import IPAddress, SubjectAltNames, canonical
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.wellknown import NODE_USER_PREFIX, NODES_GROUP

_EARLIEST = 0.7
_SPREAD = 0.2


class WantedCertificate(msgspec.Struct, frozen=True, kw_only=True):
    """What a certificate has to say to be good enough."""

    common_name: str
    organizations: tuple[str, ...] = ()
    alt_names: SubjectAltNames = SubjectAltNames()


def node_client(node_name: str) -> WantedCertificate:
    """The client certificate of a node."""
    return WantedCertificate(common_name=f"{NODE_USER_PREFIX}{node_name}", organizations=(NODES_GROUP,))


def rotation_deadline(not_before: dt.datetime, not_after: dt.datetime, draw: float) -> dt.datetime:
    """70 to 90 % of the way from ``not_before`` to ``not_after``.

    Args:
        draw: at random from 0 up to, not including, 1.
    """
    return not_before + (not_after - not_before) * (_EARLIEST + _SPREAD * draw)


def next_rotation(
    current: Certificate | None,
    wanted: WantedCertificate | None,
    *,
    now: dt.datetime,
    draw: float,
    forced: bool = False,
) -> dt.datetime:
    """When to ask for a certificate: ``now`` if forced, if there is none, or if it does not say what is wanted.

    Args:
        wanted: ``None`` while nothing can be asked for; every certificate is good enough then.
    """
    if forced or current is None or (wanted is not None and not satisfies(current, wanted)):
        return now
    return rotation_deadline(current.not_before, current.not_after, draw)


def satisfies(certificate: Certificate, wanted: WantedCertificate) -> bool:
    """Whether the certificate says all that is wanted; what it says beyond that does not matter."""
    names = certificate.meaning.alt_names
    return (
        certificate.subject.common_name == wanted.common_name
        and set(wanted.organizations) <= set(certificate.subject.organizations)
        and set(wanted.alt_names.dns_names) <= set(names.dns_names)
        and set(map(canonical, wanted.alt_names.ip_addresses)) <= set(names.ip_addresses)
    )


def usable(certificate: Certificate, *, now: dt.datetime) -> bool:
    """Whether a pair on disk counts as a current one: the certificate manager hides one that has ended."""
    return now <= certificate.not_after


def seconds_to_expiry(not_after: dt.datetime | None, *, now: dt.datetime) -> float:
    """The value of the ``…_ttl_seconds`` gauges: whole seconds, infinite without a certificate or after its end."""
    if not_after is None or now > not_after:
        return math.inf
    return float((not_after - now) // dt.timedelta(seconds=1))


HOSTNAME = "Hostname"
_ADDRESSES = frozenset({"InternalIP", "ExternalIP"})
_NAMES = frozenset({"InternalDNS", "ExternalDNS"})


def serving_names(addresses: Iterable[tuple[str, str]], *, allow_dns_only: bool = False) -> SubjectAltNames | None:
    """The names of a kubelet's serving certificate, from type and address of each of the node's addresses.

    Args:
        allow_dns_only: Kubernetes' gate AllowDNSOnlyNodeCSR.

    Returns:
        Each name once, sorted; nothing while no IP address is known (Kubernetes 1.31), so that no request is made too
        early.
    """
    names: set[str] = set()
    ip_addresses: set[IPAddress] = set()
    for kind, address in addresses:
        parsed = _parse_sloppy(address) if kind in _ADDRESSES or kind == HOSTNAME else None
        if parsed is not None:
            ip_addresses.add(parsed)
        elif address and (kind in _NAMES or kind == HOSTNAME):
            names.add(address)
    if not ip_addresses and not (allow_dns_only and names):
        return None
    return SubjectAltNames(dns_names=tuple(sorted(names)), ip_addresses=tuple(sorted(ip_addresses, key=str)))


def _parse_sloppy(text: str) -> IPAddress | None:
    """An address; leading zeros in the parts of an IPv4 one are decimal, as before Go 1.17."""
    if text.isascii() and text.count(".") == 3 and ":" not in text:
        text = ".".join(part.lstrip("0") or part[-1:] for part in text.split("."))
    try:
        return canonical(ipaddress.ip_address(text))
    except ValueError:
        return None
