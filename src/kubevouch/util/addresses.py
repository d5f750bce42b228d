"""Addresses as limits see them."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

# The smallest network a customer is given (RFC 6177); its host can use any address in it.
_IPV6_PREFIX = 64


@lru_cache(maxsize=4096)
def source_prefix(address: str) -> str:
    """An IPv4 address, or the /64 of an IPv6 one; IPv4 in IPv6 counts as IPv4. Other texts stay as they are."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, _IPV6_PREFIX), strict=False))
