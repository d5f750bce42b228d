"""The processes that are one server."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from kubevouch.server.metrics.catalog import counter, gauge


def collect(serving: int, restarts: int) -> Iterator[Metric]:
    """Read at a scrape. ``restarts``: workers that took the place of another one."""
    yield gauge("kubevouch_workers", "Workers that serve; of --workers.", (), {(): float(serving)})
    yield counter("kubevouch_worker_restarts", "Workers that have ended and were replaced.", (), {(): float(restarts)})
