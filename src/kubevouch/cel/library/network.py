"""IP addresses and networks in CIDR notation.

Source: k8s.io/apiserver/pkg/cel/library/{ip,cidr}.go, Go's net/netip (Kubernetes 1.36).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kubevouch.cel.functions import function, method, opaque
from kubevouch.cel.values import EvaluationError, Opaque, Run
from kubevouch.machinery.text.gotext import quote

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_LONGEST = 64


@opaque("net.IP")
@dataclass(frozen=True)
class IP(Opaque):
    """An address without a zone."""

    address: Address

    @property
    def text(self) -> str:
        return str(self.address)


@opaque("net.CIDR")
@dataclass(frozen=True)
class CIDR(Opaque):
    """An address, which may have bits beyond the prefix, and the length of the prefix."""

    address: Address
    bits: int

    @property
    def network(self) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
        return ipaddress.ip_network((self.address, self.bits), strict=False)

    @property
    def text(self) -> str:
        return f"{self.address}/{self.bits}"


def _address(text: str) -> Address:
    """Raises ``ValueError`` in Go's words."""
    if len(text) > _LONGEST or not text.isascii():
        raise ValueError(f"ParseAddr({quote(text)}): unable to parse IP")
    try:
        return ipaddress.ip_address(text)
    except ValueError as err:
        raise ValueError(f"ParseAddr({quote(text)}): {_why(text)}") from err


def _why(text: str) -> str:
    if ":" in text or "." not in text:
        return "unable to parse IP"
    fields = text.split(".")
    for field in fields:
        if field and not field.isdigit():
            return "unexpected character (at " + quote(field.lstrip("0123456789")) + ")"
    if "" in fields:
        return "IPv4 field must have at least one digit"
    if any(len(field) > 1 and field[0] == "0" for field in fields):
        return "IPv4 field has octet with leading zero"
    if any(int(field) > 255 for field in fields):
        return "IPv4 field has value >255"
    return "IPv4 address too short" if len(fields) < 4 else "IPv4 address too long"


def _is_mapped(address: Address) -> bool:
    return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None


def _parsed_ip(text: str) -> IP:
    try:
        address = _address(text)
    except ValueError as err:
        raise EvaluationError(f"IP Address {quote(text)} parse error during conversion from string: {err}") from err
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None:
        raise EvaluationError(f"IP address {quote(text)} with zone value is not allowed")
    if _is_mapped(address):
        raise EvaluationError(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return IP(address)


def _parsed_cidr(text: str) -> CIDR:
    what = "network address parse error during conversion from string"
    address_text, slash, bits = text.rpartition("/")
    where = f"{what}: {what}: netip.ParsePrefix({quote(text)})"
    if not slash:
        raise EvaluationError(f"{where}: no '/'")
    try:
        address = _address(address_text)
    except ValueError as err:
        raise EvaluationError(f"{where}: {err}") from err
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None:
        raise EvaluationError(f"{where}: IPv6 zones cannot be present in a prefix")
    if not (bits.isascii() and bits.isdigit()) or len(bits) > 3 or (len(bits) > 1 and bits[0] == "0"):
        raise EvaluationError(f"{where}: bad bits after slash: {quote(bits)}")
    if int(bits) > address.max_prefixlen:
        raise EvaluationError(f"{where}: prefix length out of range")
    if _is_mapped(address):
        raise EvaluationError(f"{what}: IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return CIDR(address, int(bits))


def parsed_networks(texts: Iterable[str]) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """Raises :class:`EvaluationError`."""
    return [_parsed_cidr(text).network for text in texts]


def _parses(parse: Any, text: str) -> bool:
    try:
        parse(text)
    except EvaluationError:
        return False
    return True


# ------------------------------------------------------------------ addresses


@function("ip", "string")
def _ip(text: str, *, run: Run) -> IP:
    run.spend_on_text(text)
    return _parsed_ip(text)


@function("isIP", "string")
def _is_ip(text: str, *, run: Run) -> bool:
    run.spend_on_text(text)
    return _parses(_parsed_ip, text)


@function("ip.isCanonical", "string")
def _is_canonical(text: str, *, run: Run) -> bool:
    run.spend_on_text(text, text)
    return _parsed_ip(text).text == text


method("family", "net.IP")(lambda ip: ip.address.version)
method("isUnspecified", "net.IP")(lambda ip: ip.address.is_unspecified)
method("isLoopback", "net.IP")(lambda ip: ip.address.is_loopback)
method("isLinkLocalUnicast", "net.IP")(lambda ip: ip.address.is_link_local)


@method("isLinkLocalMulticast", "net.IP")
def _is_link_local_multicast(ip: IP) -> bool:
    octets = ip.address.packed
    return octets[:3] == b"\xe0\0\0" if len(octets) == 4 else octets[0] == 0xFF and octets[1] & 0x0F == 2


@method("isGlobalUnicast", "net.IP")
def _is_global_unicast(ip: IP) -> bool:
    address = ip.address
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not special and address.packed != b"\xff" * 4


# ------------------------------------------------------------------ networks


@function("cidr", "string")
def _cidr(text: str, *, run: Run) -> CIDR:
    run.spend_on_text(text)
    return _parsed_cidr(text)


@function("isCIDR", "string")
def _is_cidr(text: str, *, run: Run) -> bool:
    run.spend_on_text(text)
    return _parses(_parsed_cidr, text)


method("ip", "net.CIDR")(lambda cidr: IP(cidr.address))
method("prefixLength", "net.CIDR")(lambda cidr: cidr.bits)
method("masked", "net.CIDR")(lambda cidr: CIDR(cidr.network.network_address, cidr.bits))


@method("containsIP", "net.CIDR net.IP")
def _contains_ip(cidr: CIDR, ip: IP) -> bool:
    return ip.address in cidr.network


@method("containsIP", "net.CIDR string")
def _contains_ip_text(cidr: CIDR, text: str, *, run: Run) -> bool:
    return _contains_ip(cidr, _ip(text, run=run))


@method("containsCIDR", "net.CIDR net.CIDR")
def _contains_cidr(cidr: CIDR, other: CIDR) -> bool:
    return cidr.bits <= other.bits and other.address in cidr.network


@method("containsCIDR", "net.CIDR string")
def _contains_cidr_text(cidr: CIDR, text: str, *, run: Run) -> bool:
    return _contains_cidr(cidr, _cidr(text, run=run))
