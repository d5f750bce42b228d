"""What ``kubevouch bench join`` says of a run: percentiles, a CSV of its machines, a picture. Pure functions."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from html import escape
from typing import Any

from kubevouch.phases.join_bench import Plan, Result

_MS = 1000.0
PERCENTILES = (50.0, 90.0, 99.0, 100.0)
_STEPS = 120
_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP = 640, 150, 70, 64, 66
_STYLE = (
    "text{font:12px sans-serif;fill:#24292f}.title{font-size:15px}.note{fill:#57606a}.bar{fill:#2da44e}"
    ".line{fill:none;stroke:#0969da;stroke-width:1.5}.axis{stroke:#8c959f}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.note{fill:#9198a1}.line{stroke:#58a6ff}}"
)


def percentile(values: Sequence[float], per_cent: float) -> float:
    """The least of ``values`` that ``per_cent`` of them do not exceed (nearest rank); 0 of none."""
    if not values:
        return 0.0
    return sorted(values)[max(math.ceil(len(values) * per_cent / 100), 1) - 1]


def milliseconds(values: Sequence[float]) -> dict[str, float]:
    """The percentiles of some seconds as a document has them: ``p50`` to ``max``, and how many they are of."""
    names = [f"p{each:g}" for each in PERCENTILES[:-1]] + ["max"]
    shown: dict[str, float] = {"count": len(values)}
    for name, each in zip(names, PERCENTILES, strict=True):
        shown[name] = round(_MS * percentile(values, each), 3)
    return shown


def tree(plan: Plan, server: str, result: Result) -> dict[str, Any]:
    """The document: times in milliseconds but for ``seconds``."""
    joined = result.joined
    return {
        "server": server,
        "run": plan.run,
        "nodes": plan.nodes,
        "concurrency": plan.concurrency,
        "joined": len(joined),
        "seconds": round(result.seconds, 3),
        "joinsPerSecond": round(result.rate, 1),
        "request": milliseconds([each.asked for each in joined]),
        "certificate": milliseconds([each.waited for each in joined]),
        "join": milliseconds([each.total for each in joined]),
        "getNodesMeanwhile": {**milliseconds(result.looks), "unanswered": result.unanswered},
        "clientCPUPerMachine": round(_MS * result.client_cpu / max(len(result.machines), 1), 3),
        "refused": [{"reason": reason, "count": count} for reason, count in result.refusals()],
    }


def table(result: Result) -> str:
    """CSV, a line for each machine in the order of their starts."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["machine", "started_s", "request_ms", "certificate_ms", "join_ms", "refused"])
    for each in sorted(result.machines, key=lambda machine: machine.started):
        times = (each.asked, each.waited, each.total)
        writer.writerow([each.name, f"{each.started:.4f}", *(f"{_MS * value:.3f}" for value in times), each.refused])
    return out.getvalue()


def svg(plan: Plan, server: str, result: Result) -> str:
    """Certificates a second over the run, and what share of machines waited how long."""
    joined = result.joined
    height = _TOP + 2 * (_HEIGHT + _GAP)
    caption = (
        f"{len(joined)} of {plan.nodes} machines in {result.seconds:.1f} s, {plan.concurrency} at once, "
        f"each with a connection, a request and a watch of its own · {server}"
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + 20} {height}">',
        f"<style>{_STYLE}</style>",
        f'<text class="title" x="10" y="22">{result.rate:.0f} machines a second</text>',
        f'<text class="note" x="10" y="42">{escape(caption)}</text>',
    ]
    parts += _rates([each.started + each.total for each in joined], result.seconds, _TOP + 14)
    parts += _latencies([each.total for each in joined], _TOP + 14 + _HEIGHT + _GAP)
    return "\n".join([*parts, "</svg>", ""])


def _rates(ends: Sequence[float], seconds: float, y: float) -> list[str]:
    width = max(seconds, 0.001) / _STEPS
    counts = [0] * _STEPS
    for end in ends:
        counts[min(int(end / width), _STEPS - 1)] += 1
    most = max(counts)
    bar = _WIDTH / _STEPS
    parts = _frame(y, "certificates a second", f"{most / width:.0f}", "0 s", f"{seconds:.1f} s")
    for number, count in enumerate(counts):
        if count:
            tall = _HEIGHT * count / most
            parts.append(
                f'<rect class="bar" x="{_LEFT + number * bar:.1f}" y="{y + _HEIGHT - tall:.1f}" '
                f'width="{bar * 0.9:.1f}" height="{tall:.1f}"/>'
            )
    return parts


def _latencies(totals: Sequence[float], y: float) -> list[str]:
    longest = max(totals, default=0.0)
    parts = _frame(y, "a join, in ms, by share of machines", f"{_MS * longest:.0f}", "0 %", "100 %")
    if longest:
        at = [100 * number / _STEPS for number in range(1, _STEPS + 1)]
        points = [
            f"{_LEFT + _WIDTH * each / 100:.1f},{y + _HEIGHT * (1 - percentile(totals, each) / longest):.1f}"
            for each in at
        ]
        parts.append(f'<polyline class="line" points="{" ".join(points)}"/>')
    return parts


def _frame(y: float, title: str, top: str, start: str, end: str) -> list[str]:
    bottom = y + _HEIGHT
    return [
        f'<text x="{_LEFT}" y="{y - 8}">{escape(title)}</text>',
        f'<text class="note" text-anchor="end" x="{_LEFT - 6}" y="{y + 10}">{escape(top)}</text>',
        f'<text class="note" text-anchor="end" x="{_LEFT - 6}" y="{bottom}">0</text>',
        f'<text class="note" x="{_LEFT}" y="{bottom + 16}">{escape(start)}</text>',
        f'<text class="note" text-anchor="end" x="{_LEFT + _WIDTH}" y="{bottom + 16}">{escape(end)}</text>',
        f'<line class="axis" x1="{_LEFT}" y1="{bottom}" x2="{_LEFT + _WIDTH}" y2="{bottom}"/>',
        f'<line class="axis" x1="{_LEFT}" y1="{y}" x2="{_LEFT}" y2="{bottom}"/>',
    ]
