"""Signatures: how long they take, by who signs and what has the key, and how often none came."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from kubevouch.server.metrics.series import Counter, Histogram

# A key in memory takes a fraction of a millisecond, one in an HSM some, a CA of somebody else seconds and more.
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1, 2.5, 10, 30)


class SigningFamilies:
    """A ``controllers.interface.SigningMetrics``."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._asked = Counter(
            "kubevouch_signatures", "Requests that a signer was asked to sign, by what became of them.",
            ("signer", "kind", "outcome"), registry=registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "kubevouch_signature_seconds",
            "From asking a signer to its certificate, written down in the ledger.",
            ("signer", "kind"),
            buckets=_SECONDS,
            registry=registry,
        )

    def signed(self, signer: str, kind: str, outcome: str, seconds: float) -> None:
        """See ``controllers.interface.SigningMetrics``."""
        self._asked.labels(signer, kind, outcome).inc()
        if outcome == "issued":
            self._seconds.observe((signer, kind), seconds)
