"""Regular expressions over texts of outsiders: RE2, in linear time, paid for before they run."""

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
        return re2.compile(pattern, options)
    except re2.error as err:
        text = err.args[0]
        raise EvaluationError(f"error parsing regexp: {text.decode() if isinstance(text, bytes) else text}") from err


_cached = lru_cache(maxsize=256)(_compile)
