"""Metrics of configuration files and token issuers under kube-apiserver's names.

Source: k8s.io/apiserver/pkg/server/options/{authenticationconfig,authorizationconfig}/metrics,
plugin/pkg/authenticator/token/oidc/metrics.go (Kubernetes 1.36).
"""

from __future__ import annotations

import datetime as dt
import hashlib
import socket

from prometheus_client import CollectorRegistry

from kubevouch.server.metrics.series import Counter, Gauge, Histogram

_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_KINDS = ("authentication", "authorization")
_ID = "apiserver_id_hash"


class _File:
    """The three families of one kind of configuration."""

    def __init__(self, kind: str, registry: CollectorRegistry) -> None:
        prefix = f"apiserver_{kind}_config_controller"
        labels = ("status", _ID)
        self.reloads = Counter(
            f"{prefix}_automatic_reloads", f"Reloads of the {kind} configuration.", labels, registry=registry
        )
        self.last_reload = Gauge(
            f"{prefix}_automatic_reload_last_timestamp_seconds",
            f"Time of the last reload of the {kind} configuration.",
            labels,
            registry=registry,
        )
        self.info = Gauge(
            f"{prefix}_last_config_info", f"Hash of the {kind} configuration in use.", (_ID, "hash"), registry=registry
        )


class AccessMetrics:
    """An ``authentication.oidc_recorder.IssuerRecorder``, and what is counted of the files."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._id = digest(f"apiserver-{socket.gethostname()}".encode())
        self._files = {kind: _File(kind, registry) for kind in _KINDS}
        prefix = "apiserver_authentication_jwt_authenticator"
        self._latency = Histogram(
            f"{prefix}_latency_seconds",
            "Time to look at a token, by issuer and result.",
            ("result", "jwt_issuer_hash"),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._fetched = Gauge(
            f"{prefix}_jwks_fetch_last_timestamp_seconds",
            "Time of the last look at an issuer's keys, by result.",
            ("result", "jwt_issuer_hash", _ID),
            registry=registry,
        )
        self._key_sets = Gauge(
            f"{prefix}_jwks_fetch_last_key_set_info",
            "Hash of an issuer's keys.",
            ("jwt_issuer_hash", _ID, "hash"),
            registry=registry,
        )
        self._key_set_hashes: dict[str, str] = {}

    # -------------------------------------------------------------- files

    def config_in_use(self, kind: str, content: bytes) -> None:
        """``kind`` is authentication or authorization."""
        info = self._files[kind].info
        info.clear()
        info.labels(self._id, digest(content)).set(1)

    def config_reloaded(self, kind: str, now: dt.datetime, *, failed: bool) -> None:
        file, status = self._files[kind], "failure" if failed else "success"
        file.reloads.labels(status, self._id).inc()
        file.last_reload.labels(status, self._id).set(now.timestamp())

    # -------------------------------------------------------------- issuers

    def authenticated(self, issuer: str, seconds: float, *, failed: bool) -> None:
        self._latency.observe(("failure" if failed else "success", digest(issuer.encode())), seconds)

    def keys_fetched(self, issuer: str, keys: bytes | None, now: dt.datetime) -> None:
        hashed = digest(issuer.encode())
        self._fetched.labels("failure" if keys is None else "success", hashed, self._id).set(now.timestamp())
        if keys is not None:
            self._forget_keys(hashed)
            self._key_set_hashes[hashed] = digest(keys)
            self._key_sets.labels(hashed, self._id, digest(keys)).set(1)

    def forget(self, issuer: str) -> None:
        hashed = digest(issuer.encode())
        self._forget_keys(hashed)
        for result in ("success", "failure"):
            self._fetched.remove_by_labels({"result": result, "jwt_issuer_hash": hashed})

    def _forget_keys(self, hashed: str) -> None:
        former = self._key_set_hashes.pop(hashed, None)
        if former is not None:
            self._key_sets.remove(hashed, self._id, former)


def digest(content: bytes) -> str:
    """As the labels have it; nothing for nothing."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}" if content else ""
