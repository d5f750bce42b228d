"""Signatures: how long they take, by who signs and what has the key, how often none came, and who cannot sign."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kubevouch.server.metrics.series import MAX_SERIES, Counter, Histogram
from kubevouch.signers.registry import Signers

# A key in memory takes a fraction of a millisecond, one in an HSM some, a CA of somebody else seconds and more.
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1, 2.5, 10, 30)


class SigningFamilies(Collector):
    """A ``controllers.interface.SigningMetrics``."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._asked = Counter(
            "kubevouch_signatures", "Requests that a signer was asked to sign, by what became of them.",
            ("signer", "kind", "outcome"), registry=registry,
        )  # fmt: skip
        self._elsewhere = Counter(
            "kubevouch_certificates_signed_elsewhere",
            "Certificates of somebody else in requests of a signer that runs here, beside other programs.",
            ("signer",), registry=registry,
        )  # fmt: skip
        self._signers: Signers | None = None
        registry.register(self)
        self._seconds = Histogram(
            "kubevouch_signature_seconds",
            "From asking a signer to its certificate, written down in the ledger.",
            ("signer", "kind"),
            buckets=_SECONDS,
            registry=registry,
        )

    def of_signers(self, signers: Signers) -> None:
        """See ``controllers.interface.SigningMetrics``."""
        self._signers = signers

    def signed_elsewhere(self, signer: str) -> None:
        """See ``controllers.interface.SigningMetrics``."""
        self._elsewhere.labels(signer).inc()

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        """Read at a scrape."""
        if self._signers is None:
            return
        standing = GaugeMetricFamily("kubevouch_signer_ready", "1 for a signer that signs.", labels=("signer",))
        ends = GaugeMetricFamily(
            "kubevouch_signer_ca_end_seconds",
            "When a signer's CA ends, in seconds since 1970.",
            labels=("signer",),
        )
        for name, ready in sorted(self._signers.standings.items())[:MAX_SERIES]:
            standing.add_metric((name,), float(ready))
            signer = self._signers.get(name)
            if signer is not None and signer.ends is not None:
                ends.add_metric((name,), signer.ends.timestamp())
        yield standing
        yield ends

    def signed(self, signer: str, kind: str, outcome: str, seconds: float) -> None:
        """See ``controllers.interface.SigningMetrics``."""
        self._asked.labels(signer, kind, outcome).inc()
        if outcome == "issued":
            self._seconds.observe((signer, kind), seconds)
