"""Encryption at rest under kube-apiserver's names.

Source: k8s.io/apiserver/pkg/storage/value/metrics.go, encrypt/envelope/metrics/metrics.go and
pkg/server/options/encryptionconfig/metrics (Kubernetes 1.36).
"""

from __future__ import annotations

import datetime as dt
import socket
from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from kubevouch.server.metrics.access import digest
from kubevouch.server.metrics.series import Counter, Gauge, Histogram

_ID = "apiserver_id_hash"
_TRANSFORM_SECONDS = tuple(5e-6 * 2**each for each in range(25))


class EncryptionMetrics:
    """A ``storage.encryption.interface.TransformRecorder``, and what is counted of the file.

    Args:
        registry: not the server's: values are read before there is one.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        labels = ("transformation_type", "transformer_prefix")
        self._seconds = Histogram(
            "apiserver_storage_transformation_duration_seconds", "Time to encrypt or decrypt a value.", labels,
            buckets=_TRANSFORM_SECONDS, registry=self.registry,
        )  # fmt: skip
        self._count = Counter(
            "apiserver_storage_transformation_operations", "Values encrypted or decrypted.", (*labels, "status"),
            registry=self.registry,
        )  # fmt: skip
        self._id = digest(f"apiserver-{socket.gethostname()}".encode())
        prefix = "apiserver_encryption_config_controller"
        self._reloads = Counter(
            f"{prefix}_automatic_reloads", "Reloads of the encryption configuration.", ("status", _ID),
            registry=self.registry,
        )  # fmt: skip
        self._last_reload = Gauge(
            f"{prefix}_automatic_reload_last_timestamp_seconds",
            "Time of the last reload of the encryption configuration.",
            ("status", _ID),
            registry=self.registry,
        )
        self._info = Gauge(
            f"{prefix}_last_config_info", "Hash of the encryption configuration in use.", (_ID, "hash"),
            registry=self.registry,
        )  # fmt: skip

    def collect(self) -> Iterator[Metric]:
        """For another registry."""
        return iter(self.registry.collect())

    def transformed(self, direction: str, prefix: str, seconds: float, code: str) -> None:
        self._count.labels(direction, prefix, code).inc()
        if code == "OK":
            self._seconds.observe((direction, prefix), seconds)

    def reloaded(self, now: dt.datetime, *, failed: bool) -> None:
        """The file was read again."""
        status = "failure" if failed else "success"
        self._reloads.labels(status, self._id).inc()
        self._last_reload.labels(status, self._id).set(now.timestamp())

    def in_use(self, content: bytes) -> None:
        """From now on."""
        self._info.clear()
        self._info.labels(self._id, digest(content)).set(1)
