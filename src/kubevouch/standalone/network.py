"""Addresses and listening sockets of this machine."""

from __future__ import annotations

import ipaddress
import socket

LOOPBACK = "127.0.0.1"
_BACKLOG = 1024
# TEST-NET-1 (RFC 5737): connecting a datagram socket sends nothing, it only asks the routing table.
_ANYWHERE = ("192.0.2.1", 9)


def default_address() -> str:
    """The address with which this machine would reach others; loopback if it reaches none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_ANYWHERE)
            address: str = probe.getsockname()[0]
        except OSError:
            return LOOPBACK
    return address


def service_addresses(ranges: str) -> tuple[str, ...]:
    """The first address of each range of ``10.96.0.0/12,fd00:96::/112``: the API server's own.

    Raises:
        ValueError: one is no range, or too small to have such an address.
    """
    try:
        return tuple(str(ipaddress.ip_network(text.strip())[1]) for text in ranges.split(","))
    except IndexError as err:
        raise ValueError(f"{ranges} has no address to give") from err


def parsed(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """``host``, or this machine's own address where it is a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return ipaddress.ip_address(default_address())


def is_loopback(host: str) -> bool:
    """Whether a machine that asks at ``host`` asks itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_ours(host: str) -> bool:
    """Whether ``host`` is an address of this machine. A name other than localhost may be anybody's."""
    if is_loopback(host):
        return True
    try:
        family = socket.AF_INET6 if ipaddress.ip_address(host).version == 6 else socket.AF_INET
    except ValueError:
        return False
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((host, 0))
        except OSError:
            return False
    return True


def is_wildcard(address: str) -> bool:
    """Whether listening on ``address`` means every address of the machine."""
    return ipaddress.ip_address(address).is_unspecified


def bind(address: str, port: int) -> list[socket.socket]:
    """Listening sockets for an address; ``::`` takes IPv4 too. Raises ``OSError``."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if address == "::" else 1)
        bound.bind((address, port))
        bound.listen(_BACKLOG)
        bound.setblocking(False)
    except OSError:
        bound.close()
        raise
    return [bound]
