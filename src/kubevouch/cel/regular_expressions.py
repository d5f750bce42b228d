"""Regular expressions over texts of outsiders: RE2, in linear time, paid for before they run."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import re2

from kubevouch.cel.values import EvaluationError, Run

_MEMORY = 1 << 20


def compiled(pattern: str, text: str, run: Run) -> Any:
    """The pattern, for one search in ``text``.

    Raises:
        EvaluationError: it is none, or needs too much memory.
    """
    run.spend(-(-(1 + len(text)) // 10) * -(-len(pattern) // 4))
    return compiled_pattern(pattern)


@lru_cache(maxsize=256)
def compiled_pattern(pattern: str) -> Any:
    """As :func:`compiled`, unpaid."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        return re2.compile(pattern, options)
    except re2.error as err:
        text = err.args[0]
        raise EvaluationError(f"error parsing regexp: {text.decode() if isinstance(text, bytes) else text}") from err
