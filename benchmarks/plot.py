"""An SVG of the measures that have a limit: each bar is the median's share of it, the whisker the spread."""

from __future__ import annotations

from xml.sax.saxutils import escape

from report import Results, Series, number

_ROW, _TOP, _LEFT, _WIDTH, _RIGHT = 28, 56, 300, 420, 150
_FULL = 1.5  # the right end of the scale, in limits
_STYLE = (
    "text{font:13px sans-serif;fill:#24292f}.note{fill:#57606a;font-size:12px}.good{fill:#2da44e}.bad{fill:#cf222e}"
    "line{stroke:#57606a}.limit{stroke:#24292f;stroke-dasharray:4 3}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.note{fill:#9198a1}line{stroke:#9198a1}.limit{stroke:#e6edf3}}"
)


def svg(results: Results, caption: str) -> str:
    """The picture as text."""
    series = [each for each in results.series if each.measure.limit]
    height = _TOP + _ROW * len(series) + 16
    width = _LEFT + _WIDTH + _RIGHT
    limit = _LEFT + _WIDTH / _FULL
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        f"<style>{_STYLE}</style>",
        '<text x="8" y="20">Share of what is allowed: shorter is better</text>',
        f'<text class="note" x="8" y="40">{escape(caption)}</text>',
    ]
    for index, each in enumerate(series):
        parts += _row(each, _TOP + _ROW * index)
    parts.append(f'<line class="limit" x1="{limit}" x2="{limit}" y1="{_TOP - 6}" y2="{height - 10}"/>')
    return "\n".join([*parts, "</svg>", ""])


def _row(each: Series, y: float) -> list[str]:
    median, low, high = (_x(each, value) for value in (each.median, each.low, each.high))
    if low > high:
        low, high = high, low
    colour = "good" if each.reached else "bad"
    sign = "≥" if each.measure.at_least else "≤"
    limit = each.measure.limit or 0.0
    value = f"{number(each.median)} {each.measure.unit} ({sign} {number(limit)})"
    middle = y + 11
    return [
        f'<text x="8" y="{y + 15}">{escape(each.measure.title)}</text>',
        f'<rect class="{colour}" x="{_LEFT}" y="{y + 3}" width="{median - _LEFT:.1f}" height="16" rx="2"/>',
        f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{middle}" y2="{middle}"/>',
        f'<text class="note" x="{_LEFT + _WIDTH + 8}" y="{y + 15}">{escape(value)}</text>',
    ]


def _x(each: Series, value: float) -> float:
    """Where a value stands; where more is better, the share is turned round."""
    limit = each.measure.limit or 1.0
    share = limit / value if each.measure.at_least else value / limit
    return _LEFT + _WIDTH * min(share, _FULL) / _FULL
