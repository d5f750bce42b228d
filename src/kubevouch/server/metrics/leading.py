"""Whether the controllers beside a server are those that work.

Source: k8s.io/component-base metrics/prometheus/clientgo/leaderelection (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from kubevouch.server.metrics.catalog import gauge


def collect(lease: str, *, leads: bool) -> Iterator[Metric]:
    """Read at a scrape."""
    yield gauge(
        "leader_election_master_status",
        "1 on the process that leads, 0 on those that stand by.",
        ("name",),
        {(lease,): float(leads)},
    )
