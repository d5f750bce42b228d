"""What abuses cost, as a table and as curves: memory, a new client's wait, descriptors, disk, each over the time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from xml.sax.saxutils import escape

import msgspec

from samples import Sample


class Played(msgspec.Struct, frozen=True):
    """``seconds``: how long the abuse went on; ``given_up``: why it was broken off, if it was; ``stalls``: how often
    the server's own monitor saw its loop held meanwhile, None without a monitor."""

    title: str
    who: str
    seconds: float
    given_up: str
    answers: dict[str, int]
    samples: list[Sample]
    stalls: int | None = None

    @property
    def before(self) -> list[Sample]:
        return [sample for sample in self.samples if sample.at <= 0] or self.samples[:1]

    @property
    def during(self) -> list[Sample]:
        return [sample for sample in self.samples if sample.at > 0] or self.samples[-1:]

    @property
    def after(self) -> Sample:
        return self.samples[-1]


class Record(msgspec.Struct, frozen=True):
    """All abuses that were played against one installation."""

    label: str
    machine: str
    played: dict[str, Played]


_HEAD = (
    "| abuse | who | RSS before, worst, after (MiB) | longest /livez (ms) | stalls (longest, ms) "
    "| descriptors before, worst, after | disk before, after (MiB) |\n|---|---|---|---|---|---|---|\n"
)


def row(played: Played) -> str:
    """One line of the table."""
    before, during, after = played.before, played.during, played.after
    rss = f"{_worst(before, _rss):.0f}, {_worst(during, _rss):.0f}, {after.rss_mib:.0f}"
    refused = sum(sample.refused for sample in during)
    wait = f"{_worst(during, _latency):.0f}" + (f", {refused} without answer" if refused else "")
    longest = _worst(during, lambda sample: sample.stall_ms)
    stalls = "–" if played.stalls is None else f"{played.stalls} ({longest:.0f})" if played.stalls else "0"
    held = f"{before[-1].descriptors}, {_worst(during, _descriptors):.0f}, {after.descriptors}"
    disk = f"{before[-1].disk_mib:.0f}, {after.disk_mib:.0f}"
    title = played.title + (f" ({played.given_up})" if played.given_up else "")
    return f"| {title} | {played.who} | {rss} | {wait} | {stalls} | {held} | {disk} |"


def table(record: Record) -> str:
    """The page of numbers, in Markdown."""
    rows = "\n".join(row(played) for played in record.played.values())
    answers = "\n".join(
        f"- {played.title}: " + ", ".join(f"{what} × {count:,}" for what, count in sorted(played.answers.items()))
        for played in record.played.values()
    )
    return f"{record.label}: {record.machine}\n\n{_HEAD}{rows}\n\nWhat the attackers were answered:\n\n{answers}\n"


def _rss(sample: Sample) -> float:
    return sample.rss_mib


def _latency(sample: Sample) -> float:
    return sample.latency_ms


def _descriptors(sample: Sample) -> float:
    return float(sample.descriptors)


def _worst(samples: list[Sample], of: Callable[[Sample], float]) -> float:
    return max(map(of, samples))


@dataclass(frozen=True)
class _Panel:
    title: str
    of: Callable[[Sample], float]
    logarithmic: bool = False


_PANELS = (
    _Panel("memory, MiB", _rss),
    _Panel("a new client's /livez, ms", _latency, logarithmic=True),
    _Panel("the loop held, ms", lambda sample: sample.stall_ms, logarithmic=True),
    _Panel("descriptors", _descriptors),
    _Panel("disk, MiB", lambda sample: sample.disk_mib),
)
_COLOURS = ("#cf222e", "#1f6feb", "#2da44e", "#8250df")
_LEFT, _WIDTH, _HEIGHT, _GAP, _TOP = 64, 560, 88, 38, 62
_STYLE = (
    "text{font:13px sans-serif;fill:#24292f}.note{fill:#57606a;font-size:11px}.axis{stroke:#57606a;stroke-width:.5}"
    "polyline{fill:none;stroke-width:1.6}.span{fill:#57606a;opacity:.09}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.note{fill:#9198a1}.axis{stroke:#9198a1}}"
)


def svg(key: str, records: list[Record]) -> str:
    """One abuse, a panel for each measure, a line for each record that has it."""
    found = [(record.label, record.played[key]) for record in records if key in record.played]
    width, height = _LEFT + _WIDTH + 20, _TOP + (_HEIGHT + _GAP) * len(_PANELS)
    end = max(played.after.at for _, played in found)
    start = min(played.samples[0].at for _, played in found)

    def x(at: float) -> float:
        return _LEFT + _WIDTH * (at - start) / (end - start)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        f"<style>{_STYLE}</style>",
        f'<text x="8" y="20">{escape(found[0][1].title)}</text>',
    ]
    at = 8
    for (label, played), colour in zip(found, _COLOURS, strict=False):
        shown = label + (f": {played.given_up}" if played.given_up else "")
        parts.append(f'<text x="{at}" y="40" style="fill:{colour}">{escape(shown)}</text>')
        at += 8 * len(shown) + 24
    for number, panel in enumerate(_PANELS):
        parts += _panel(panel, _TOP + number * (_HEIGHT + _GAP), x, [played for _, played in found])
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: _Panel, top: float, x: Callable[[float], float], all_played: list[Played]) -> list[str]:
    highest = max(_worst(played.samples, panel.of) for played in all_played)
    most = _round_up(max(highest, 1.0))
    bottom = top + _HEIGHT

    def y(value: float) -> float:
        share = math.log10(max(value, 1.0)) / math.log10(most) if panel.logarithmic and most > 1 else value / most
        return bottom - _HEIGHT * min(share, 1.0)

    longest = max(played.seconds for played in all_played)
    parts = [
        f'<rect class="span" x="{x(0):.1f}" y="{top}" width="{x(longest) - x(0):.1f}" height="{_HEIGHT}"/>',
        f'<text class="note" x="{_LEFT}" y="{top - 5}">{panel.title}</text>',
        f'<text class="note" x="{_LEFT - 6}" y="{top + 10}" text-anchor="end">{most:,.0f}</text>',
        f'<text class="note" x="{_LEFT - 6}" y="{bottom}" text-anchor="end">{1 if panel.logarithmic else 0}</text>',
        f'<line class="axis" x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{bottom}" y2="{bottom}"/>',
    ]
    for played, colour in zip(all_played, _COLOURS, strict=False):
        points = " ".join(f"{x(sample.at):.1f},{y(panel.of(sample)):.1f}" for sample in played.samples)
        parts.append(f'<polyline style="stroke:{colour}" points="{points}"/>')
    return parts + [
        f'<text class="note" x="{x(at):.1f}" y="{bottom + 13}" text-anchor="middle">{at:.0f} s</text>'
        for at in (0.0, longest)
    ]


def _round_up(value: float) -> float:
    """To 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)
