"""Metrics of attached controllers under Kubernetes' names, of several clusters side by side.

Source: k8s.io/component-base metrics/prometheus/{restclient,workqueue,clientgo/leaderelection} (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from kubevouch.ledger.cluster import ClusterLedger
from kubevouch.ledger.store import SQLiteLedger
from kubevouch.policy.standing_decisions import StandingDecisions
from kubevouch.server.metrics import decisions, issuance
from kubevouch.server.metrics.approvals import ApprovalFamilies
from kubevouch.server.metrics.series import Counter, Gauge, Histogram
from kubevouch.server.metrics.signing import SigningFamilies
from kubevouch.server.metrics.workqueue import WorkqueueFamilies

CLUSTER = "cluster"
_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_NO_ANSWER = "<error>"


class ClusterMetrics:
    """Of one cluster: a ``client.gate.RequestMetrics`` and a ``client.leader_election.ElectionMetrics``.

    Args:
        host: host:port of its API server.
        lease: what the processes stand for, as client-go names it.
    """

    def __init__(self, host: str, lease: str) -> None:
        self.registry = CollectorRegistry()
        self.workqueues = WorkqueueFamilies(self.registry)
        self.approvals = ApprovalFamilies(self.registry)
        self.signing = SigningFamilies(self.registry)
        self._host = host
        self._ledger: SQLiteLedger | ClusterLedger | None = None
        self._decisions = StandingDecisions()
        self._requests = Counter(
            "rest_client_requests", "Requests by status code, method and host.", ("code", "host", "method"),
            registry=self.registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "rest_client_request_duration_seconds", "Time to an answer, by verb and host.", ("host", "verb"),
            buckets=_SECONDS, registry=self.registry,
        )  # fmt: skip
        self._waits = Histogram(
            "rest_client_rate_limiter_duration_seconds", "Time that requests wait for the client's own allowance.",
            ("host", "verb"), buckets=_SECONDS, registry=self.registry,
        )  # fmt: skip
        self._leading = Gauge(
            "leader_election_master_status", "1 on the process that leads, 0 on those that stand by.", ("name",),
            registry=self.registry,
        ).labels(lease)  # fmt: skip
        self._slow_paths = Counter(
            "leader_election_slowpath", "Renewals that had to read the lease first.", ("name",), registry=self.registry
        ).labels(lease)

    def of_ledger(self, ledger: SQLiteLedger | ClusterLedger) -> None:
        """Have samples of this ledger, in place of one that was open before."""
        self._ledger = ledger

    def of_decisions(self, standing: StandingDecisions) -> None:
        """Have samples of these, in place of those of an earlier term."""
        self._decisions = standing

    def collect(self) -> Iterator[Metric]:
        yield from self.registry.collect()
        yield from decisions.collect(self._decisions.counts())
        if self._ledger is not None:
            yield from issuance.collect(self._ledger.statistics, self._ledger.lag)

    def waited(self, method: str, seconds: float) -> None:
        self._waits.observe((self._host, method), seconds)

    def answered(self, method: str, status: int, seconds: float) -> None:
        self._requests.labels(str(status) if status else _NO_ANSWER, self._host, method).inc()
        self._seconds.observe((self._host, method), seconds)

    def leading(self, *, now: bool) -> None:
        self._leading.set(int(now))

    def slow_path(self) -> None:
        self._slow_paths.inc()


def registry_of(clusters: Mapping[str, ClusterMetrics]) -> CollectorRegistry:
    """Everything of one process. Of several clusters each sample says which; the only one that has no name does not."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(_OfClusters(clusters))
    return registry


class _OfClusters(Collector):
    def __init__(self, clusters: Mapping[str, ClusterMetrics]) -> None:
        self._clusters = clusters

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        """A family stands in one place, whoever has samples of it: the text format wants it so."""
        families: dict[str, Metric] = {}
        for name, metrics in self._clusters.items():
            for found in metrics.collect():
                family = families.setdefault(
                    found.name, Metric(found.name, found.documentation, found.type, found.unit)
                )
                family.samples += [_labelled(each, name) for each in found.samples]
        yield from families.values()


def _labelled(sample: Sample, cluster: str) -> Sample:
    return sample._replace(labels={**sample.labels, CLUSTER: cluster}) if cluster else sample
