"""Encryption at rest under kube-apiserver's names.

Source: k8s.io/apiserver/pkg/storage/value/metrics.go, encrypt/envelope/metrics/metrics.go and
pkg/server/options/encryptionconfig/metrics (Kubernetes 1.36).
"""

from __future__ import annotations

import datetime as dt
import socket
from collections.abc import Iterator
from functools import lru_cache

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from kubevouch.server.metrics.access import digest
from kubevouch.server.metrics.series import Counter, Gauge, Histogram
from kubevouch.storage.encryption.kms import key_hash

_ID = "apiserver_id_hash"
_CALL_SECONDS = tuple(0.0001 * 2**each for each in range(20))
_TRANSFORM_SECONDS = tuple(5e-6 * 2**each for each in range(25))


@lru_cache(64)
def _key_hash(key_id: str) -> str:
    """Asked for with each value; an id has 1 KiB at most where it is counted."""
    return key_hash(key_id)


class EncryptionMetrics:
    """A ``storage.encryption.kms.EncryptionRecorder``, and what is counted of the file.

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
        self._misses = Counter(
            "apiserver_storage_envelope_transformation_cache_misses", "Seeds that a plug-in was asked to decrypt.",
            registry=self.registry,
        )  # fmt: skip
        prefix = "apiserver_envelope_encryption"
        self._calls = Histogram(
            f"{prefix}_kms_operations_latency_seconds",
            "Time of a call to a plug-in.",
            ("provider_name", "method_name", "grpc_status_code"),
            buckets=_CALL_SECONDS,
            registry=self.registry,
        )
        key = ("transformation_type", "provider_name", "key_id_hash", _ID)
        self._keys = Counter(f"{prefix}_key_id_hash", "Values by the plug-in's key.", key, registry=self.registry)
        self._last_key = Gauge(
            f"{prefix}_key_id_hash_last_timestamp_seconds", "When a plug-in's key was last used.", key,
            registry=self.registry,
        )  # fmt: skip
        self._named = Gauge(
            f"{prefix}_key_id_hash_status_last_timestamp_seconds",
            "When a plug-in last named a key as its own.",
            ("provider_name", "key_id_hash", _ID),
            registry=self.registry,
        )
        self._bad_names = Counter(
            f"{prefix}_invalid_key_id_from_status", "Names of keys that no key can have.", ("provider_name", "error"),
            registry=self.registry,
        )  # fmt: skip
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

    def kms_call(self, provider: str, method: str, seconds: float, code: str) -> None:
        self._calls.observe((provider, method, code), seconds)

    def seed_missed(self) -> None:
        self._misses.inc()

    def key_used(self, direction: str, provider: str, key_id: str, now: dt.datetime) -> None:
        labels = (direction, provider, _key_hash(key_id), self._id)
        self._keys.labels(*labels).inc()
        self._last_key.labels(*labels).set(now.timestamp())

    def key_named(self, provider: str, key_id: str, now: dt.datetime) -> None:
        self._named.labels(provider, _key_hash(key_id), self._id).set(now.timestamp())

    def bad_key_named(self, provider: str, code: str) -> None:
        self._bad_names.labels(provider, code).inc()

    def reloaded(self, now: dt.datetime, *, failed: bool) -> None:
        """The file was read again."""
        status = "failure" if failed else "success"
        self._reloads.labels(status, self._id).inc()
        self._last_reload.labels(status, self._id).set(now.timestamp())

    def in_use(self, content: bytes) -> None:
        """From now on."""
        self._info.clear()
        self._info.labels(self._id, digest(content)).set(1)
