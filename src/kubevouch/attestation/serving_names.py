"""Names in a serving certificate that the machine's own evidence has."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping

from kubevouch.attestation.interface import Attested


def among(attested: Attested, names: Iterable[str]) -> Mapping[str, str]:
    """Those of ``names`` that the evidence gives to the machine, each with the method that says so."""
    own = {_canonical(each) for each in (*attested.addresses, *attested.dns_names)}
    return {each: attested.provider for each in names if _canonical(each) in own}


def _canonical(name: str) -> str:
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name.lower()
