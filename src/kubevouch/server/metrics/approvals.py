"""Decisions about requests for certificates: how many, by whom, how soon, and what waits for what."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kubevouch.server.metrics.series import MAX_SERIES, OTHER, Counter, Histogram

_SECONDS = (0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14400, 86400)

_ANSWER_SECONDS = (0.005, 0.025, 0.1, 0.5, 1, 2.5, 5, 10, 30)


class ApprovalFamilies(Collector):
    """A ``controllers.approval.interface.ApprovalMetrics``."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._decisions = Counter(
            "kubevouch_csr_decisions", "Decisions about CertificateSigningRequests.", ("approver", "outcome"),
            registry=registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "kubevouch_csr_decision_seconds",
            "From the request to the decision.",
            ("signer",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._failures = Counter(
            "kubevouch_policy_errors", "Rules of CertificateRequestPolicies that could not be looked at.", ("policy",),
            registry=registry,
        )  # fmt: skip
        self._answers = Counter(
            "kubevouch_approver_webhook_requests", "Questions to services, by what they said; none is no answer.",
            ("name", "outcome"), registry=registry,
        )  # fmt: skip
        self._answer_seconds = Histogram(
            "kubevouch_approver_webhook_seconds",
            "From the question to the answer, or to giving up.",
            ("name",),
            buckets=_ANSWER_SECONDS,
            registry=registry,
        )
        self._justified = Counter(
            "kubevouch_kubelet_serving_names", "Names and addresses that were approved, by what justified them.",
            ("source",), registry=registry,
        )  # fmt: skip
        self._attested = Counter(
            "kubevouch_attestations",
            "Proofs of machines, by method: verified, the step at which one was refused, or unavailable for those whose"
            " cloud or database did not answer, each time it was asked.",
            ("provider", "result"),
            registry=registry,
        )
        self._clouds = Counter(
            "kubevouch_attestation_requests",
            "Requests to clouds about machines, by the status of the answer; none without one.",
            ("host", "status"),
            registry=registry,
        )
        self._count: Callable[[], Mapping[tuple[str, str], int]] = dict
        registry.register(self)

    def decided(self, signer: str, approver: str, outcome: str, seconds: float) -> None:
        self._decisions.labels(approver, outcome).inc()
        self._seconds.observe((signer,), seconds)

    def policy_failed(self, policy: str) -> None:
        self._failures.labels(policy).inc()

    def asked(self, webhook: str, outcome: str, seconds: float) -> None:
        self._answers.labels(webhook, outcome).inc()
        self._answer_seconds.observe((webhook,), seconds)

    def justified(self, source: str) -> None:
        self._justified.labels(source).inc()

    def attested(self, provider: str, result: str) -> None:
        self._attested.labels(provider, result).inc()

    def cloud_asked(self, host: str, status: str) -> None:
        self._clouds.labels(host, status).inc()

    def pending(self, count: Callable[[], Mapping[tuple[str, str], int]]) -> None:
        self._count = count

    def collect(self) -> Iterator[Metric]:
        bounded: dict[tuple[str, str], int] = {}
        for labels, number in self._count().items():
            # Whoever may post requests chooses the names of their signers.
            known = labels in bounded or len(bounded) < MAX_SERIES
            key = labels if known else (OTHER, OTHER)
            bounded[key] = bounded.get(key, 0) + number
        family = GaugeMetricFamily(
            "kubevouch_csr_pending",
            "CertificateSigningRequests that nobody has decided, by what is missing.",
            labels=("signer", "reason"),
        )
        for labels, number in bounded.items():
            family.add_metric(labels, number)
        yield family
