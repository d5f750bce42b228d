from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client import Counter as ReferenceCounter
from prometheus_client import Gauge as ReferenceGauge
from prometheus_client import Histogram as Reference
from prometheus_client.exposition import generate_latest

from kubevouch.server.metrics.series import Counter, Histogram, Level

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


@pytest.mark.parametrize("name", ["x", "x_total"])
def test_a_counter_says_what_prometheus_client_would(name: str) -> None:
    own, other = CollectorRegistry(), CollectorRegistry()
    mine = Counter(name, "Times.", ("a", "b"), registry=own)
    theirs = ReferenceCounter(name, "Times.", ("a", "b"), registry=other)
    for number in range(5):
        labels = (f"a{number % 2}", 'b"')
        mine.labels(*labels).inc()
        theirs.labels(*labels).inc()
        mine.labels("c", "").inc(0.5 * number)
        theirs.labels("c", "").inc(0.5 * number)
    assert _without_created(own) == _without_created(other)
    with pytest.raises(ValueError, match="expected one for each"):
        mine.labels("a")


def test_a_counter_without_labels_is_there_from_the_start() -> None:
    own, other = CollectorRegistry(), CollectorRegistry()
    mine, theirs = Counter("x", "Times.", registry=own), ReferenceCounter("x", "Times.", registry=other)
    for _ in range(2):
        assert _without_created(own) == _without_created(other)
        mine.inc()
        theirs.inc()


def test_a_level_says_what_prometheus_client_would() -> None:
    own, other = CollectorRegistry(), CollectorRegistry()
    mine = Level("x", "Now.", ("a",), registry=own).labels("b")
    theirs = ReferenceGauge("x", "Now.", ("a",), registry=other).labels("b")
    for each in (mine, theirs):
        each.inc()
        each.inc()
        each.dec()
    assert generate_latest(own) == generate_latest(other)


def _without_created(registry: CollectorRegistry) -> list[bytes]:
    return [line for line in generate_latest(registry).splitlines() if b"_created" not in line]
