"""The store's metrics under kube-apiserver's names (storage/etcd3/metrics, Kubernetes 1.36), whatever store it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry

from kubevouch.machinery.scheme import GroupResource
from kubevouch.server.metrics.series import Counter, Gauge, Histogram

_BUCKETS = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60,
)  # fmt: skip
_LABELS = ("operation", "group", "resource")
_ROOT = "/registry/"
_STORE_ID = "store-0"  # kube-apiserver numbers its etcd clusters like this
_NOWHERE = GroupResource("", "")


class StorageMetrics:
    """A ``storage.measured.StoreRecorder``."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._resources: dict[str, GroupResource] = {}
        self._seconds = Histogram(
            "etcd_request_duration_seconds", "Time of a call to the store.", _LABELS, buckets=_BUCKETS,
            registry=registry,
        )  # fmt: skip
        self._calls = Counter("etcd_requests", "Calls to the store.", _LABELS, registry=registry)
        self._errors = Counter("etcd_request_errors", "Calls that the store failed.", _LABELS, registry=registry)
        self._objects = Gauge("apiserver_storage_objects", "Objects stored.", ("resource",), registry=registry)
        self._counted = Gauge("apiserver_resource_objects", "Objects stored.", ("group", "resource"), registry=registry)
        self._size = Gauge(
            "apiserver_storage_size_bytes",
            "Bytes that the store takes on its disk.",
            ("storage_cluster_id",), registry=registry,
        )  # fmt: skip

    def know(self, prefixes: Iterable[tuple[str, GroupResource]]) -> None:
        """Which key prefix belongs to which resource."""
        self._resources |= {_known_part(prefix): resource for prefix, resource in prefixes}

    def forget(self, prefix: str) -> None:
        """Nothing is kept under ``prefix`` any more."""
        resource = self._resources.pop(_known_part(prefix), None)
        if resource is not None:
            self._objects.remove(str(resource))
            self._counted.remove(resource.group, resource.resource)

    def call(self, operation: str, key: str, seconds: float, *, failed: bool) -> None:
        resource = self._resources.get(_known_part(key), _NOWHERE)
        labels = (operation, resource.group, resource.resource)
        self._calls.labels(*labels).inc()
        self._seconds.observe(labels, seconds)
        if failed:
            self._errors.labels(*labels).inc()

    def size(self, read: Callable[[], int]) -> None:
        """``read`` tells the bytes at each scrape."""
        self._size.labels(_STORE_ID).set_function(read)

    def objects(self, resource: GroupResource, count: int) -> None:
        self._objects.labels(str(resource)).set(count)
        self._counted.labels(resource.group, resource.resource).set(count)


def _known_part(key: str) -> str:
    """``/registry/services/specs/…`` belongs to whatever begins with ``services``; a group's resources have two parts.

    Only groups have dots.
    """
    first, _, rest = key[len(_ROOT) :].partition("/")
    return f"{first}/{rest.partition('/')[0]}" if "." in first else first
