"""What is wrong with an expression, as the language's compilers show it: the text, the line and a caret under it.

Source: cel-go common/{error,errors}.go (0.26).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

_GREATEST = 100


class Issue(msgspec.Struct, frozen=True):
    """One thing that is wrong; ``offset`` is None where there is no place to point at."""

    offset: int | None
    text: str


def display(issues: Sequence[Issue], source: str) -> str:
    """All of them, in the order of their places."""
    ordered = sorted(issues, key=lambda each: -1 if each.offset is None else each.offset)
    shown = [_display(each, source) for each in ordered[:_GREATEST]]
    if len(ordered) > _GREATEST:
        shown.append(f"{len(ordered) - _GREATEST} more errors were truncated")
    return "\n".join(shown)


def _display(issue: Issue, source: str) -> str:
    if issue.offset is None:
        return f"ERROR: <input>:-1:0: {issue.text}"
    before = source[: issue.offset]
    line, column = before.count("\n"), issue.offset - (before.rfind("\n") + 1)
    shown = source.split("\n")[line].replace("\t", " ")
    # What takes more than a byte is taken to be twice as wide.
    dots = "".join("." if char.isascii() else "．" for char in shown[:column])
    caret = "^" if shown[column : column + 1].isascii() else "＾"
    return f"ERROR: <input>:{line + 1}:{column + 1}: {issue.text}\n | {shown}\n | {dots}{caret}"
