"""What a history must not have."""

from __future__ import annotations

from typing import NamedTuple


class Violation(NamedTuple):
    """Which rule, what happened, and the requests and objects that show it."""

    rule: str
    what: str
    ops: frozenset[int] = frozenset()
    keys: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.rule}: {self.what}"
