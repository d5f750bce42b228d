"""What the caches of a server hold, in bytes: the parts of its memory that clients have a hand in."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import Metric

from kubevouch.registry.write_budget import WriteBudget
from kubevouch.server.metrics.catalog import counter, gauge
from kubevouch.storage.compactor import RevisionBytes
from kubevouch.storage.watchcache.cacher import Cacher


def collect(
    cacher: Cacher, revisions: RevisionBytes, budget: WriteBudget, frames: Callable[[], int]
) -> Iterator[Metric]:
    """Read at a scrape. ``frames``: what the encoders of all served resources keep of watch events."""
    budgets = cacher.budgets
    kinds = {
        "objects": cacher.object_bytes,
        "history": budgets.history_bytes,
        "history-decoded": budgets.decoded_bytes,
        "encodings": budgets.encoding_bytes,
        "frames": frames(),
    }
    yield gauge(
        "kubevouch_cache_bytes",
        "What is held in memory, as stored or as encoded.",
        ("kind",),
        {(kind,): float(size) for kind, size in kinds.items()},
    )
    yield gauge("kubevouch_cache_watchers", "Watches under way, those of this process too.", (), {(): cacher.watchers})
    yield gauge(
        "kubevouch_store_uncompacted_bytes",
        "Values written since the oldest state that the store keeps.",
        (),
        {(): float(revisions.bytes)},
    )
    yield gauge(
        "kubevouch_store_unserved_values",
        "Values of kinds that are not served, which are left alone.",
        ("kind",),
        {(kind,): float(count) for kind, count in cacher.unserved().items()},
    )
    yield gauge(
        "kubevouch_store_unreadable_values",
        "Values of served kinds of which no object can be made.",
        ("kind",),
        {(kind,): float(count) for kind, count in cacher.unreadable().items()},
    )
    yield counter(
        "kubevouch_write_budget_refusals",
        "Writes answered with 429 because their user had written too many bytes.",
        (),
        {(): budget.refused},
    )
