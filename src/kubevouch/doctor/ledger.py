"""Whether the ledger of issued certificates has room for the machines that still join."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kubevouch.api.core_v1 import ConfigMap
from kubevouch.client.config_map_overflow import find_further
from kubevouch.client.interface import Client
from kubevouch.doctor.findings import Code, Finding, argument
from kubevouch.records import certificate_ledger
from kubevouch.records.certificate_ledger import LAYOUT, TOKEN_BUDGET, totals_of
from kubevouch.records.config_map_overflow import size

# Of the whole, and of a token's part: time to do something is left.
_SOON = 0.8


def judge(config_maps: Mapping[str, ConfigMap]) -> Iterator[Finding]:
    """``config_maps``: the ledger's that are there, by name."""
    used = sum(size(each.data) for each in config_maps.values())
    if used >= _SOON * LAYOUT.capacity:
        yield Code.LEDGER_FULL.found(f"it holds {used >> 20} MiB of the {LAYOUT.capacity >> 20} that it may")
    tokens: dict[str, int] = {}
    for each in config_maps.values():
        for token, share in totals_of(each.metadata.annotations).tokens.items():
            tokens[token] = tokens.get(token, 0) + share
    for token in sorted(tokens):
        if tokens[token] >= _SOON * TOKEN_BUDGET:
            yield Code.LEDGER_TOKEN_FULL.found(
                f"the machines that the token {token} has let in have {tokens[token] >> 20} MiB of the "
                f"{TOKEN_BUDGET >> 20} that one token may have",
                f"kubevouch token delete {argument(token)}",
            )


async def examine(client: Client) -> list[Finding]:
    """Raises APIStatusError, TransportError."""
    names = [f"{certificate_ledger.PREFIX}{shard}" for shard in certificate_ledger.SHARDS]
    found = await find_further(client, [*names, *LAYOUT.further])
    return list(judge({name: each for name, each in found.items() if each is not None}))
