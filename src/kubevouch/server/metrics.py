"""The server's metrics under Kubernetes' names (server.md H.3)."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import choose_encoder

_LATENCY = (0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60)
_REQUEST_LABELS = ("verb", "group", "version", "resource", "subresource", "scope", "component", "dry_run", "code")


class Metrics:
    """One registry a server, so that several servers in one process (tests) do not share counters."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "apiserver_request_total", "Requests by verb, resource and code.", _REQUEST_LABELS, registry=self.registry
        )
        self._latency = Histogram(
            "apiserver_request_duration_seconds",
            "Time to answer, without watches.",
            ("verb", "group", "version", "resource", "subresource", "scope", "component", "dry_run"),
            buckets=_LATENCY,
            registry=self.registry,
        )
        self._inflight = Gauge(
            "apiserver_current_inflight_requests", "Requests under way.", ("request_kind",), registry=self.registry
        )
        self._longrunning = Gauge(
            "apiserver_longrunning_requests",
            "Watches under way.",
            ("verb", "group", "version", "resource", "subresource", "scope", "component"),
            registry=self.registry,
        )
        self._authentication = Counter(
            "authentication_attempts", "Attempts to authenticate.", ("result",), registry=self.registry
        )
        self._requested_duration = Counter(
            "apiserver_certificates_registry_csr_requested_duration_total",
            "Issued certificates whose request asked for a duration.",
            ("signerName",),
            registry=self.registry,
        )
        self._honored_duration = Counter(
            "apiserver_certificates_registry_csr_honored_duration_total",
            "Issued certificates that got the duration they asked for.",
            ("signerName",),
            registry=self.registry,
        )
        self.storage_objects = Gauge(
            "apiserver_storage_objects", "Objects stored.", ("resource",), registry=self.registry
        )
        self._request_children: dict[tuple[str, ...], Counter] = {}
        self._latency_children: dict[tuple[str, ...], Histogram] = {}

    def authentication(self, result: str) -> None:
        self._authentication.labels(result).inc()

    def request(self, labels: tuple[str, ...], code: int, seconds: float, *, watch: bool) -> None:
        """Count one finished request; ``labels`` are those of the latency histogram."""
        key = (*labels, str(code))
        child = self._request_children.get(key)
        if child is None:
            child = self._request_children[key] = self._requests.labels(*key)
        child.inc()
        if not watch:
            timer = self._latency_children.get(labels)
            if timer is None:
                timer = self._latency_children[labels] = self._latency.labels(*labels)
            timer.observe(seconds)

    def inflight(self, kind: str, change: int) -> None:
        self._inflight.labels(kind).inc(change)

    def csr_duration(self, signer_name: str, *, honored: bool) -> None:
        """Count a certificate whose request named a duration (registry/certificates, Kubernetes 1.36)."""
        label = signer_name if signer_name.startswith("kubernetes.io/") else "other"
        self._requested_duration.labels(label).inc()
        if honored:
            self._honored_duration.labels(label).inc()

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """Body and content type for a scrape."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type
