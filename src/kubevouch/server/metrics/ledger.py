"""How full the ledger of issued certificates is."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from kubevouch import wellknown
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.records.certificate_ledger import LAYOUT, TOKEN_BUDGET, totals_of
from kubevouch.server.metrics.catalog import gauge
from kubevouch.storage.watchcache.resource_cache import ResourceCache


def collect(config_maps: ResourceCache[ConfigMap]) -> Iterator[Metric]:
    """Read at a scrape, from what the ledger's ConfigMaps say of themselves."""
    used, tokens = 0, dict[str, int]()
    ends = dict[tuple[str, ...], float]()
    for name in LAYOUT.names:
        stored = config_maps.get(f"{config_maps.prefix}{wellknown.KUBE_SYSTEM_NAMESPACE}/{name}")
        if stored is None:
            continue
        totals = totals_of(stored.obj.metadata.annotations)
        used += totals.bytes
        for token, share in totals.tokens.items():
            tokens[token] = tokens.get(token, 0) + share
        for kind, by_signer in (("node", totals.nodes), ("other", totals.others)):
            for signer, end in by_signer.items():
                ends[signer, kind] = min(end.timestamp(), ends.get((signer, kind), end.timestamp()))
    yield gauge(
        "kubevouch_certificate_ledger_bytes",
        "What the ledger of issued certificates holds: all, and the most that one bootstrap token has let in.",
        ("kind",),
        {("all",): float(used), ("token",): float(max(tokens.values(), default=0))},
    )
    yield gauge(
        "kubevouch_certificate_soonest_end_seconds",
        "When a signer's first certificate ends, in seconds since 1970: of the newest of each node, of all others.",
        ("signer", "kind"),
        ends,
    )
    yield gauge(
        "kubevouch_certificate_ledger_limit_bytes",
        "What it may hold: all, and of one bootstrap token.",
        ("kind",),
        {("all",): float(LAYOUT.capacity), ("token",): float(TOKEN_BUDGET)},
    )
