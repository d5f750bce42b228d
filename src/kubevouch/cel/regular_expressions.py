"""Regular expressions over texts of outsiders: RE2, in linear time, paid for before they run.

What is wrong with a pattern is said as Go says it (regexp/syntax; Go 1.26), whose syntax is that of RE2.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import re2

from kubevouch.cel.values import EvaluationError, Run

_MEMORY = 1 << 20
# A pattern may come out of an object: longer ones are its writer's own. What is kept takes up to some 30 times as much.
_CACHED_PATTERN = 1024


def compiled(pattern: str, text: str, run: Run) -> Any:
    """The pattern, for one search in ``text``.

    Raises:
        EvaluationError: it is none, or needs too much memory.
    """
    run.spend(-(-(1 + len(text)) // 10) * -(-len(pattern) // 4))
    return compiled_pattern(pattern)


def compiled_pattern(pattern: str) -> Any:
    """As :func:`compiled`, unpaid."""
    return _cached(pattern) if len(pattern) <= _CACHED_PATTERN else _compile(pattern)


def _compile(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        found = re2.compile(pattern, options)
    except re2.error as err:
        text = err.args[0]
        raise EvaluationError(
            f"error parsing regexp: {_in_go_words(text.decode() if isinstance(text, bytes) else str(text), pattern)}"
        ) from err
    if _has_single_byte(pattern):
        # RE2 knows it, Go does not.
        raise EvaluationError("error parsing regexp: invalid escape sequence: `\\C`")
    return found


def _has_single_byte(pattern: str) -> bool:
    at = 0
    while (at := pattern.find("\\", at)) >= 0:
        after = pattern[at + 1 : at + 2]
        if after == "C":
            return True
        at += 2
        if after == "Q":
            end = pattern.find("\\E", at)
            if end < 0:
                return False
            at = end + 2
    return False


_GO_WORDS = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "bad repetition operator": "invalid nested repetition operator",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}


def _in_go_words(text: str, pattern: str) -> str:
    if text.startswith("trailing \\"):
        return "trailing backslash at end of expression: ``"
    what, colon, where = text.partition(": ")
    if not colon:
        return text
    if where.startswith("(?<"):
        # Go takes what RE2 takes for a look-behind for a name.
        rest = pattern[pattern.find(where) :]
        end = rest.find(">")
        what, where = "invalid named capture", rest if end < 0 else rest[: end + 1]
    return f"{_GO_WORDS.get(what, what)}: `{where}`"


_cached = lru_cache(maxsize=256)(_compile)
