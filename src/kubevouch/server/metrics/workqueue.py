"""The work queues of controllers in this process (k8s.io/component-base metrics/prometheus/workqueue)."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry

from kubevouch.client.workqueue import WorkqueueGauges
from kubevouch.server.metrics.series import Counter, Gauge, Histogram

_BUCKETS = tuple(10.0**power for power in range(-8, 2))
_NAME = ("name",)


class WorkqueueFamilies:
    """client-go's seven metrics, labelled by queue."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.depth = Gauge("workqueue_depth", "Keys that wait.", _NAME, registry=registry)
        self.adds = Counter("workqueue_adds", "Keys added.", _NAME, registry=registry)
        self.retries = Counter("workqueue_retries", "Keys tried again.", _NAME, registry=registry)
        self.queue_duration = Histogram(
            "workqueue_queue_duration_seconds", "How long keys wait.", _NAME, buckets=_BUCKETS, registry=registry
        )
        self.work_duration = Histogram(
            "workqueue_work_duration_seconds", "How long work takes.", _NAME, buckets=_BUCKETS, registry=registry
        )
        self.unfinished = Gauge(
            "workqueue_unfinished_work_seconds", "Work under way, all together.", _NAME, registry=registry
        )
        self.longest = Gauge(
            "workqueue_longest_running_processor_seconds", "Work under way, the longest.", _NAME, registry=registry
        )

    def queue(self, name: str) -> QueueMetrics:
        return QueueMetrics(self, name)


class QueueMetrics:
    """A ``client.workqueue.WorkqueueMetrics``."""

    def __init__(self, families: WorkqueueFamilies, name: str) -> None:
        self._families = families
        self._name = name
        self._adds = families.adds.labels(name)
        self._retries = families.retries.labels(name)

    def gauges(self, read: Callable[[], WorkqueueGauges]) -> None:
        self._families.depth.labels(self._name).set_function(lambda: read().depth)
        self._families.unfinished.labels(self._name).set_function(lambda: read().unfinished_seconds)
        self._families.longest.labels(self._name).set_function(lambda: read().longest_running_seconds)

    def added(self) -> None:
        self._adds.inc()

    def retried(self) -> None:
        self._retries.inc()

    def waited(self, seconds: float) -> None:
        self._families.queue_duration.observe((self._name,), seconds)

    def worked(self, seconds: float) -> None:
        self._families.work_duration.observe((self._name,), seconds)
