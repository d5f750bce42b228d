"""The ledger in its file: how long it is, and how soon what is appended is on the disk."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from kubevouch.ledger.store import Statistics
from kubevouch.server.metrics.catalog import counter, gauge


def collect(counted: Statistics, lag: float) -> Iterator[Metric]:
    """Read at a scrape. ``lag``: see ``SQLiteLedger.lag``."""
    yield gauge("kubevouch_ledger_entries", "Entries of the ledger.", (), {(): counted.entries})
    yield gauge(
        "kubevouch_ledger_lag_seconds",
        "How long the oldest entry has waited that is not on the disk. Nothing is signed meanwhile.",
        (),
        {(): lag},
    )
    yield gauge(
        "kubevouch_ledger_unpublished_entries",
        "Entries behind the newest checkpoint that was published.",
        (),
        {(): max(counted.entries - counted.published, 0)},
    )
    yield counter("kubevouch_ledger_appended_entries", "Entries appended since the start.", (), {(): counted.appended})
    yield counter("kubevouch_ledger_commits", "Commits of the ledger, which appends share.", (), {(): counted.commits})
    yield counter(
        "kubevouch_ledger_commit_seconds", "Seconds spent in these commits.", (), {(): counted.commit_seconds}
    )
    yield counter(
        "kubevouch_ledger_failed_commits",
        "Commits that failed: who wanted to sign did not.",
        (),
        {(): counted.failed_commits},
    )
