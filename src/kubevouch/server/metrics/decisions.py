"""Revocations, bans and Require policies that stand although the server has lost them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client.core import Metric

from kubevouch.server.metrics.catalog import gauge


def collect(lost: Mapping[str, int]) -> Iterator[Metric]:
    """Read at a scrape. ``lost``: how many, by the plural of their kind."""
    yield gauge(
        "kubevouch_decisions_lost",
        "Objects in force that the server has lost without an admitted request and that are not put back yet.",
        ("resource",),
        {(plural,): float(count) for plural, count in lost.items()},
    )
