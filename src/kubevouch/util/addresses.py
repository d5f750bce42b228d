"""Addresses as limits see them."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

# The smallest network a customer is given (RFC 6177); its host can use any address in it.
_IPV6_PREFIX = 64
# What holds many of them: what RIPE-690 has providers give a home and a site, and what a provider has itself.
_WIDER_IPV6 = (56, 48, 32)
_WIDER_IPV4 = (24, 20, 16)
WIDER = len(_WIDER_IPV6)
"""How many networks :func:`wider_prefixes` tells at most."""


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


@lru_cache(maxsize=4096)
def wider_prefixes(source: str) -> tuple[str, ...]:
    """The networks around what :func:`source_prefix` has given, the narrowest first; none around other texts."""
    try:
        network = ipaddress.ip_network(source)
    except ValueError:
        return ()
    lengths = _WIDER_IPV4 if network.version == 4 else _WIDER_IPV6
    return tuple(str(network.supernet(new_prefix=each)) for each in lengths)
