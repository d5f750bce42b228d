"""A histogram for what happens several times in every request: prometheus_client's takes ten times as long to fill."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString


class Histogram(Collector):
    """For one thread, as all of the server's loop is.

    Args:
        buckets: upper bounds, ascending, without infinity.
    """

    def __init__(
        self, name: str, help_text: str, labels: Sequence[str], *, buckets: Sequence[float], registry: CollectorRegistry
    ) -> None:
        self.labels = tuple(labels)
        self._name, self._help = name, help_text
        self._bounds = tuple(buckets)
        self._sums: dict[tuple[str, ...], float] = {}
        self._counts: dict[tuple[str, ...], list[int]] = {}
        registry.register(self)

    def observe(self, labels: tuple[str, ...], value: float) -> None:
        """``labels`` are the values, in order."""
        counts = self._counts.get(labels)
        if counts is None:
            counts = self._counts[labels] = [0] * (len(self._bounds) + 1)
            self._sums[labels] = 0.0
        counts[bisect_left(self._bounds, value)] += 1
        self._sums[labels] += value

    def describe(self) -> Iterable[Metric]:
        return [HistogramMetricFamily(self._name, self._help, labels=self.labels)]

    def collect(self) -> Iterator[Metric]:
        family = HistogramMetricFamily(self._name, self._help, labels=self.labels)
        bounds = [*map(floatToGoString, self._bounds), "+Inf"]
        for labels, counts in self._counts.items():
            buckets = [(bound, float(count)) for bound, count in zip(bounds, accumulate(counts), strict=True)]
            family.add_metric(labels, buckets, self._sums[labels])
        yield family
