"""What was measured, as a table for people and as JSON."""

from __future__ import annotations

import os
import platform
import statistics
from dataclasses import dataclass, field
from pathlib import Path

import msgspec


@dataclass(frozen=True)
class Measure:
    """One row. ``limit`` is what the project wants of it, in the same unit; ``at_least``: more is better."""

    key: str
    title: str
    unit: str
    limit: float | None = None
    at_least: bool = False


@dataclass
class Series:
    """The value of each run."""

    measure: Measure
    values: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def low(self) -> float:
        return min(self.values)

    @property
    def high(self) -> float:
        return max(self.values)

    @property
    def reached(self) -> bool | None:
        """Whether the median is within the limit; None without one."""
        limit = self.measure.limit
        if limit is None:
            return None
        return self.median >= limit if self.measure.at_least else self.median <= limit


class Results:
    """All series, in the order of their measures."""

    def __init__(self, measures: tuple[Measure, ...]) -> None:
        self._series = {measure.key: Series(measure) for measure in measures}

    def add(self, key: str, value: float) -> None:
        self._series[key].values.append(value)

    @property
    def series(self) -> list[Series]:
        return [each for each in self._series.values() if each.values]


def number(value: float) -> str:
    """Three digits that matter."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(results: Results) -> str:
    """Plain text, aligned."""
    rows = [("", "median", "from", "to", "unit", "wanted", "")]
    for each in results.series:
        measure, limit = each.measure, each.measure.limit
        wanted = "" if limit is None else f"{'≥' if measure.at_least else '≤'} {number(limit)}"
        verdict = {None: "", True: "reached", False: "missed"}[each.reached]
        rows.append(
            (measure.title, number(each.median), number(each.low), number(each.high), measure.unit, wanted, verdict)
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [row[column].rjust(widths[column]) for column in (1, 2, 3)]
        cells += [row[column].ljust(widths[column]) for column in (4, 5, 6)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"


def machine() -> str:
    """The processor, how many there are, the kernel and the Python."""
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    processor = models[0] if models else platform.machine()
    return f"{os.cpu_count()} × {processor}, Linux {platform.release()}, Python {platform.python_version()}"


def as_json(results: Results, about: dict[str, str]) -> bytes:
    measures = {
        each.measure.key: {
            "title": each.measure.title,
            "unit": each.measure.unit,
            "wanted": each.measure.limit,
            "median": each.median,
            "runs": each.values,
        }
        for each in results.series
    }
    return msgspec.json.format(msgspec.json.encode({"about": about, "measures": measures}), indent=2) + b"\n"
