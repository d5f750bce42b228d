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
    the server's own monitor saw its loop held meanwhile, None without a monitor; ``load``: the machine's, of the last
    minute."""

    title: str
    who: str
    seconds: float
    given_up: str
    answers: dict[str, int]
    samples: list[Sample]
    stalls: int | None = None
    load: float = 0.0

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
    "| descriptors before, worst, after | disk before, after (MiB) | load |\n|---|---|---|---|---|---|---|---|\n"
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
    return f"| {title} | {played.who} | {rss} | {wait} | {stalls} | {held} | {disk} | {played.load:.0f} |"


def table(record: Record) -> str:
    """The page of numbers, in Markdown."""
    rows = "\n".join(row(played) for played in record.played.values())
    answers = "\n".join(
        f"- {played.title}: " + ", ".join(f"{what} × {count:,}" for what, count in sorted(played.answers.items()))
        for played in record.played.values()
    )
    return f"{record.label}: {record.machine}\n\n{_HEAD}{rows}\n\nWhat the attackers were answered:\n\n{answers}\n"


def comparison(records: list[Record]) -> str:
    """All abuses of the last record beside those of the others: memory, and a new client's wait."""
    labels = [record.label for record in records]
    head = [f"{label}: MiB at worst, then | {label}: /livez, s" for label in labels]
    lines = [f"| abuse | who | {' | '.join(head)} |", "|---|---|" + "---|---|" * len(records)]
    for key, played in records[-1].played.items():
        cells = [_compared(record.played[key]) if key in record.played else " | " for record in records]
        lines.append(f"| {played.title} | {played.who} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _compared(played: Played) -> str:
    during = played.during
    broken_off = " (broken off)" if played.given_up else ""
    refused = sum(sample.refused for sample in during)
    wait = f"{_worst(during, _latency) / 1000:.1f}" + (f", {refused} without answer" if refused else "")
    return f"{_worst(played.samples, _rss):,.0f}, {played.after.rss_mib:,.0f}{broken_off} | {wait}"


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
    "text{font:13px sans-serif;fill:#24292f}.note,.head{fill:#57606a;font-size:11px}.head{font-weight:bold}"
    ".axis{stroke:#57606a;stroke-width:.5}"
    ".ten{stroke:#57606a;stroke-width:.5;opacity:.3}"
    "polyline{fill:none;stroke-width:1.6}.span{fill:#57606a;opacity:.09}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.note,.head{fill:#9198a1}.axis,.ten{stroke:#9198a1}}"
)


def svg(key: str, records: list[Record]) -> str:
    """One abuse, a panel for each measure, a line for each record that has it."""
    found = [(record.label, record.played[key]) for record in records if key in record.played]
    shown = [label + (f": {played.given_up}" if played.given_up else "") for label, played in found]
    height = _TOP + (_HEIGHT + _GAP) * len(_PANELS)
    parts = _begin(_LEFT + _WIDTH + 20, height, found[0][1].title, shown)
    for number, panel in enumerate(_PANELS):
        place = _Place(_LEFT, _TOP + number * (_HEIGHT + _GAP), _WIDTH)
        parts += _panel(panel, panel.title, place, [played for _, played in found])
    return "\n".join([*parts, "</svg>", ""])


def overview(records: list[Record]) -> str:
    """All abuses of the last record, one a row: memory on the left, a new client's wait on the right."""
    keys = list(records[-1].played)
    width, column = 2 * _LEFT + _WIDTH + 40, _WIDTH / 2
    title = "What each abuse costs the server: its memory, and how long a new client waits"
    first, right = _TOP + 28, 2 * _LEFT + column + 20
    parts = _begin(width, first + (_HEIGHT + _GAP) * len(keys), title, [record.label for record in records])
    parts += [
        f'<text class="head" x="{left}" y="{_TOP + 4}">{escape(said)}</text>'
        for left, said in ((_LEFT, "memory, MiB"), (right, "wait for /livez, ms; each line is ten times the one below"))
    ]
    for number, key in enumerate(keys):
        played = [record.played[key] for record in records if key in record.played]
        top = first + number * (_HEIGHT + _GAP)
        for panel, left, said in ((_PANELS[0], _LEFT, played[0].title), (_PANELS[1], right, "")):
            parts += _panel(panel, said, _Place(left, top, column), played)
    return "\n".join([*parts, "</svg>", ""])


def _begin(width: float, height: float, title: str, labels: list[str]) -> list[str]:
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}">',
        f"<style>{_STYLE}</style>",
        f'<text x="8" y="20">{escape(title)}</text>',
    ]
    at = 8
    for label, colour in zip(labels, _COLOURS, strict=False):
        parts.append(f'<text x="{at}" y="40" style="fill:{colour}">{escape(label)}</text>')
        at += 8 * len(label) + 24
    return [
        *parts,
        f'<rect class="span" x="{at}" y="30" width="14" height="12"/>',
        f'<text class="note" x="{at + 20}" y="40">while the abuse went on, until the later of the ends</text>',
    ]


@dataclass(frozen=True)
class _Place:
    left: float
    top: float
    width: float


def _panel(panel: _Panel, title: str, place: _Place, all_played: list[Played]) -> list[str]:
    most = _round_up(max(*(_worst(played.samples, panel.of) for played in all_played), 1.0))
    end = max(played.after.at for played in all_played)
    start = min(played.samples[0].at for played in all_played)
    bottom = place.top + _HEIGHT

    def x(at: float) -> float:
        return place.left + place.width * (at - start) / (end - start)

    def y(value: float) -> float:
        share = math.log10(max(value, 1.0)) / math.log10(most) if panel.logarithmic and most > 1 else value / most
        return bottom - _HEIGHT * min(share, 1.0)

    longest = max(played.seconds for played in all_played)
    beside = place.left - 6
    parts = [
        f'<rect class="span" x="{x(0):.1f}" y="{place.top}" width="{x(longest) - x(0):.1f}" height="{_HEIGHT}"/>',
        f'<text class="note" x="{place.left}" y="{place.top - 5}">{escape(title)}</text>',
        f'<text class="note" x="{beside}" y="{place.top + 10}" text-anchor="end">{most:,.0f}</text>',
        f'<text class="note" x="{beside}" y="{bottom}" text-anchor="end">{1 if panel.logarithmic else 0}</text>',
        f'<line class="axis" x1="{place.left}" x2="{place.left + place.width}" y1="{bottom}" y2="{bottom}"/>',
    ]
    if panel.logarithmic:
        tens = (10**power for power in range(1, math.ceil(math.log10(most))))
        parts += [_ten(place, y(float(ten))) for ten in tens]
    for played, colour in zip(all_played, _COLOURS, strict=False):
        points = " ".join(f"{x(sample.at):.0f},{y(panel.of(sample)):.0f}" for sample in played.samples)
        parts.append(f'<polyline style="stroke:{colour}" points="{points}"/>')
    return parts + [
        f'<text class="note" x="{x(at):.1f}" y="{bottom + 13}" text-anchor="middle">{at:.0f} s</text>'
        for at in (0.0, longest)
    ]


def _ten(place: _Place, at: float) -> str:
    return f'<line class="ten" x1="{place.left}" x2="{place.left + place.width}" y1="{at:.1f}" y2="{at:.1f}"/>'


def _round_up(value: float) -> float:
    """To 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)
