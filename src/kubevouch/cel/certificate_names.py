"""Functions for the names in certificates, which expressions about requests may use.

    under:       'a.example.com'.under('example.com'), x509.dnsNames.under('example.com'): whether it, or all of them,
                 are hosts below the domain; letters of either case are the same
    inNetworks:  x509.ipAddresses.inNetworks(['10.0.0.0/8']): whether it, or all of them, are in one of the networks
    isSubset:    x509.dnsNames.isSubset(machine.dnsNames): whether all are in the other list

Of an empty list all of them are.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any, Final

from kubevouch.cel.checker import Additions
from kubevouch.cel.declarations import Signature
from kubevouch.cel.functions import method
from kubevouch.cel.library.network import parsed_networks
from kubevouch.cel.types import BOOL, STRING, list_of, parameter
from kubevouch.cel.values import EvaluationError, Run, same, type_name
from kubevouch.machinery.text.gotext import quote

# What stands in front of the domain has to be labels: neither a wild card nor anything that a reader takes for the end.
_LABELS = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)+", re.ASCII)
_MAX_NAME = 253


@method("under", "string string")
def _is_under(name: str, domain: str, *, run: Run) -> bool:
    run.spend_on_text(name, domain)
    end = domain.lower().removeprefix(".")
    if not end:
        raise EvaluationError("got an empty domain, expected one such as example.com")
    folded = name.lower()
    return len(name) <= _MAX_NAME and folded.endswith(end) and bool(_LABELS.fullmatch(folded[: -len(end)]))


@method("under", "list string")
def _are_under(names: list[Any], domain: str, *, run: Run) -> bool:
    return all(_is_under(_text(each), domain, run=run) for each in names)


@method("inNetworks", "string list")
def _is_in(address: str, networks: list[Any], *, run: Run) -> bool:
    return _are_in([address], networks, run=run)


@method("inNetworks", "list list")
def _are_in(addresses: list[Any], networks: list[Any], *, run: Run) -> bool:
    run.spend(1 + len(networks) * (1 + len(addresses)))
    known = parsed_networks(map(_text, networks))
    return all(any(_address(each) in network for network in known) for each in addresses)


@method("isSubset", "list list")
def _is_subset(these: list[Any], those: list[Any], *, run: Run) -> bool:
    run.spend(1 + len(these) * len(those))
    return all(any(same(one, other, run) for other in those) for one in these)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise EvaluationError(f"got {type_name(value)}, expected string")
    return value


def _address(value: Any) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    text = _text(value)
    try:
        return ipaddress.ip_address(text)
    except ValueError as err:
        raise EvaluationError(f"got {quote(text)}, expected an IP address") from err


_T = parameter("T")
_STRINGS = list_of(STRING)

ADDITIONS: Final = Additions(
    lambda _: None,
    {
        "under": (
            Signature("string_under_string", True, (STRING, STRING), BOOL, False),
            Signature("list_under_string", True, (_STRINGS, STRING), BOOL, False),
        ),
        "inNetworks": (
            Signature("string_in_networks_list", True, (STRING, _STRINGS), BOOL, False),
            Signature("list_in_networks_list", True, (_STRINGS, _STRINGS), BOOL, False),
        ),
        "isSubset": (Signature("list_is_subset_list", True, (list_of(_T), list_of(_T)), BOOL, True),),
    },
)
"""For the checker."""
