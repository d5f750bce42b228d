from __future__ import annotations

from prometheus_client import CollectorRegistry
from prometheus_client import Histogram as Reference
from prometheus_client.exposition import generate_latest

from kubevouch.server.metrics.series import Histogram

BUCKETS = (0.005, 0.1, 1, 2.5)


def test_it_says_what_prometheus_client_would() -> None:
    own, other = CollectorRegistry(), CollectorRegistry()
    mine = Histogram("x_seconds", "Time.", ("a", "b"), buckets=BUCKETS, registry=own)
    theirs = Reference("x_seconds", "Time.", ("a", "b"), buckets=BUCKETS, registry=other)
    for number, value in enumerate((0.0, 0.005, 0.05, 0.1, 0.7, 1.0, 2.4, 2.5, 3.0, 100.0)):
        labels = (f"a{number % 2}", 'b"')
        mine.observe(labels, value)
        theirs.labels(*labels).observe(value)
    expected = [line for line in generate_latest(other).splitlines() if b"_created" not in line]
    assert generate_latest(own).splitlines() == expected


def test_nothing_yet() -> None:
    registry = CollectorRegistry()
    Histogram("x_seconds", "Time.", ("a",), buckets=BUCKETS, registry=registry)
    assert generate_latest(registry) == b"# HELP x_seconds Time.\n# TYPE x_seconds histogram\n"
