"""Draws docs/request-life.svg and docs/request-decision.svg: what becomes of a request for a certificate.

scripts/reference.py writes them, so that they change with this file alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

_LANE, _STEP, _TOP, _LEFT = 180, 46, 84, 110
_INK, _SOFT, _PAPER, _MARK = "#1f2933", "#8795a1", "#ffffff", "#0b6e4f"


class Message(NamedTuple):
    """Between two lanes, or within one. ``strong`` is what has to be done before anything else is."""

    sender: int
    receiver: int
    text: str
    strong: bool = False


LANES = ("requester", "API server", "approvers", "signer", "ledger", "CA key")
LIFE: Sequence[Message] = (
    Message(0, 1, "POST request: key made here, never sent"),
    Message(1, 1, "stamps user, groups, source; checks signature"),
    Message(1, 2, "watch: undecided"),
    Message(2, 2, "all judge the same facts; first denial wins"),
    Message(2, 4, "approved, with the trace", strong=True),
    Message(2, 1, "PUT /approval"),
    Message(1, 3, "watch: approved"),
    Message(3, 3, "rules, then a look with a throw-away key"),
    Message(3, 4, "intended", strong=True),
    Message(3, 5, "sign"),
    Message(5, 3, "certificate"),
    Message(3, 3, "is it what was allowed? else this signer stops"),
    Message(3, 4, "issued, with the certificate", strong=True),
    Message(3, 1, "PUT /status"),
    Message(1, 0, "watch: certificate"),
    Message(0, 1, "uses it; each request asks: revoked?"),
)

APPROVERS = (
    ("kubelet-client", "recognised, and allowed by RBAC"),
    ("kubelet-serving", "every name justified by a source"),
    ("policies", "constraints, expressions, people"),
    ("webhooks", "what another system says"),
)


def _text(x: float, y: float, text: str, *, anchor: str = "middle", size: int = 12, fill: str = _INK,
          weight: str = "normal") -> str:  # fmt: skip
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}" fill="{fill}" font-weight="{weight}" '
        f'paint-order="stroke" stroke="{_PAPER}" stroke-width="4">{escape(text)}</text>'
    )


def _document(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" role="img" font-family="DejaVu Sans, Verdana, sans-serif">'
    )
    arrow = (
        '<defs><marker id="a" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="9" markerHeight="9" '
        'markerUnits="userSpaceOnUse" orient="auto">'
        f'<path d="M0 0L8 4L0 8z" fill="{_INK}"/></marker></defs>'
    )
    paper = f'<rect width="100%" height="100%" fill="{_PAPER}"/>'
    return "\n".join((head, f"<title>{escape(title)}</title>", arrow, paper, *parts, "</svg>")) + "\n"


def life() -> str:
    """The sequence: who says what to whom, from the request to the first use of the certificate."""
    width = 2 * _LEFT + (len(LANES) - 1) * _LANE
    height = _TOP + len(LIFE) * _STEP + 20
    parts = []
    for number, name in enumerate(LANES):
        x = _LEFT + number * _LANE
        parts.append(f'<line x1="{x}" y1="56" x2="{x}" y2="{height - 10}" stroke="{_SOFT}" stroke-dasharray="3 4"/>')
        parts.append(f'<rect x="{x - 58}" y="20" width="116" height="34" rx="6" fill="{_PAPER}" stroke="{_INK}"/>')
        parts.append(_text(x, 42, name, weight="bold", size=13))
    for number, each in enumerate(LIFE):
        y = _TOP + number * _STEP + 14
        start, end = _LEFT + each.sender * _LANE, _LEFT + each.receiver * _LANE
        ink = _MARK if each.strong else _INK
        if start == end:
            parts.append(f'<circle cx="{start}" cy="{y - 4}" r="4" fill="{ink}"/>')
            right = start < width / 2
            parts.append(_text(start + (10 if right else -10), y, each.text, anchor="start" if right else "end"))
            continue
        stroke = 2.2 if each.strong else 1.2
        parts.append(
            f'<line x1="{start}" y1="{y}" x2="{end}" y2="{y}" stroke="{ink}" stroke-width="{stroke}" '
            'marker-end="url(#a)"/>'
        )
        parts.append(_text((start + end) / 2, y - 6, each.text, fill=ink))
    return _document(width, height, "The life of a request for a certificate", parts)


def decision() -> str:
    """How the approvers' verdicts become one decision."""
    width, row = 760, 52
    parts = [_text(20, 30, "one request, decoded once", anchor="start", weight="bold", size=13)]
    for number, (name, what) in enumerate(APPROVERS):
        y = 50 + number * row
        parts.append(f'<rect x="20" y="{y}" width="330" height="40" rx="6" fill="{_PAPER}" stroke="{_INK}"/>')
        parts.append(_text(32, y + 17, name, anchor="start", weight="bold"))
        parts.append(_text(32, y + 33, what, anchor="start", size=11, fill=_SOFT))
        parts.append(f'<line x1="350" y1="{y + 20}" x2="438" y2="{y + 20}" stroke="{_INK}" marker-end="url(#a)"/>')
    height = 50 + len(APPROVERS) * row
    outcomes = (
        ("any denies", "Denied, with every reason", "#b42318"),
        ("else any approves, and the bounds hold", "Approved", _MARK),
        ("else", "it waits, and says what is missing", _SOFT),
    )
    parts.append(f'<rect x="440" y="50" width="300" height="{height - 62}" rx="6" fill="{_PAPER}" stroke="{_INK}"/>')
    step = (height - 62) / len(outcomes)
    for number, (when, then, ink) in enumerate(outcomes):
        middle = 50 + number * step + step / 2
        parts.append(_text(456, middle - 4, when, anchor="start"))
        parts.append(_text(456, middle + 14, then, anchor="start", weight="bold", fill=ink))
    return _document(width, height + 6, "How approvers decide together", parts)
