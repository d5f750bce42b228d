"""Metrics with labels that cannot grow without end.

Whoever sends requests has a hand in label values: names in a path, codes of a webhook, names of policies. So each
family takes ``max_series`` sets of them at most; all that come later share one series, whose values are all ``other``.
prometheus_client and kube-apiserver have no such bound.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice
from typing import Any, TypeVar

import prometheus_client
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

MAX_SERIES = 256
"""Of a family that does not say otherwise: more than the names of each closed set, and than sane administrators use."""

OTHER = "other"
# Of a histogram, collected before others have their turn.
_SLICE = 50

M = TypeVar("M", bound="Bounded")


class Bounded(MetricWrapperBase):
    """The bound, for prometheus_client's own metrics."""

    max_series = MAX_SERIES

    def __init__(self, *arguments: Any, max_series: int = MAX_SERIES, **settings: Any) -> None:
        self.max_series = max_series
        super().__init__(*arguments, **settings)

    def labels(self: M, *values: str) -> M:  # type: ignore[override]  # by keyword nobody asks
        known = self._metrics
        if values not in known and len(known) >= self.max_series:
            values = (OTHER,) * len(values)
        return super().labels(*values)


class Count:
    """One series of a counter or a level."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, amount: float = 1.0) -> None:
        self.value += amount

    def dec(self) -> None:
        """Of a :class:`Level` only."""
        self.value -= 1.0


class Counter(Collector):
    """A counter of at most ``max_series`` series, and the one of all others. For one thread: the server's loop.

    prometheus_client's takes a lock and four calls to count one; a join counts twenty times.
    """

    def __init__(
        self,
        name: str,
        help_text: str,
        labels: Sequence[str] = (),
        *,
        registry: CollectorRegistry,
        max_series: int = MAX_SERIES,
    ) -> None:
        self.max_series = max_series
        self.label_names = tuple(labels)
        self._name, self._help = name, help_text
        self._series: dict[tuple[str, ...], Count] = {}
        if not labels:
            self.labels()  # shows from the start
        registry.register(self)

    def labels(self, *values: str) -> Count:
        """The series with these values, in order; raises ``ValueError`` for more or fewer than there are labels."""
        known = self._series.get(values)
        if known is None:
            if len(values) != len(self.label_names):
                raise ValueError(f"got the values {values}, expected one for each of {self.label_names}")
            if len(self._series) >= self.max_series:
                values = (OTHER,) * len(values)
            known = self._series.setdefault(values, Count())
        return known

    def inc(self, amount: float = 1.0) -> None:
        """Of a counter without labels."""
        self.labels().inc(amount)

    def describe(self) -> Iterable[Metric]:
        return [self._family()]

    def collect(self) -> Iterator[Metric]:
        family = self._family()
        for labels, count in self._series.items():
            family.add_metric(labels, count.value)
        yield family

    def _family(self) -> CounterMetricFamily | GaugeMetricFamily:
        return CounterMetricFamily(self._name, self._help, labels=self.label_names)


class Level(Counter):
    """A gauge that only counts up and down: what is under way."""

    def _family(self) -> GaugeMetricFamily:
        return GaugeMetricFamily(self._name, self._help, labels=self.label_names)


class Gauge(Bounded, prometheus_client.Gauge):
    """A gauge of at most ``max_series`` series, and the one of all others."""


class Histogram(Collector):
    """A histogram of at most ``max_series`` series, and the one of all others. For one thread: the server's loop.

    prometheus_client's takes ten times as long to fill, and twenty times the memory.

    Args:
        buckets: upper bounds, ascending, without infinity.
    """

    def __init__(
        self,
        name: str,
        help_text: str,
        labels: Sequence[str] = (),
        *,
        buckets: Sequence[float],
        registry: CollectorRegistry,
        max_series: int = MAX_SERIES,
    ) -> None:
        self.max_series = max_series
        self.label_names = tuple(labels)
        self._name, self._help = name, help_text
        self._bounds = tuple(buckets)
        self._sums: dict[tuple[str, ...], float] = {}
        self._counts: dict[tuple[str, ...], list[int]] = {}
        registry.register(self)

    def observe(self, labels: tuple[str, ...], value: float) -> None:
        """``labels`` are the values, in order."""
        counts = self._counts.get(labels)
        if counts is None:
            if len(self._counts) >= self.max_series:
                labels = (OTHER,) * len(labels)
            counts = self._counts.setdefault(labels, [0] * (len(self._bounds) + 1))
            self._sums.setdefault(labels, 0.0)
        counts[bisect_left(self._bounds, value)] += 1
        self._sums[labels] += value

    def describe(self) -> Iterable[Metric]:
        return [HistogramMetricFamily(self._name, self._help, labels=self.label_names)]

    def collect(self) -> Iterator[Metric]:
        """The family in parts, each of so many series that making it takes a few milliseconds."""
        bounds = [*map(floatToGoString, self._bounds), "+Inf"]
        series = iter(list(self._counts))
        while True:
            family = HistogramMetricFamily(self._name, self._help, labels=self.label_names)
            part = list(islice(series, _SLICE))
            for labels in part:
                counts = accumulate(self._counts[labels])
                buckets = [(bound, float(count)) for bound, count in zip(bounds, counts, strict=True)]
                family.add_metric(labels, buckets, self._sums[labels])
            yield family
            if len(part) < _SLICE:
                return
