"""What a source may spend."""

from __future__ import annotations

import math
from collections import OrderedDict

# Who sends from ever new addresses must not choose how much memory that takes.
MAX_SOURCES = 10_000


class SourceBudget:
    """A bucket a source: ``burst`` at once, then ``rate`` a second. The least recently seen sources are forgotten.

    Args:
        rate: per second.
        burst: how much a source has that was not seen before.
    """

    def __init__(self, rate: float, burst: int, *, max_sources: int = MAX_SOURCES) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._max_sources = max_sources
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._left)

    def clear(self) -> None:
        """Every source is as one that was not seen before."""
        self._left.clear()

    def left(self, source: str, now: float) -> float:
        """What ``source`` still has at the monotonic time ``now``."""
        left, at = self._left.get(source, (self._burst, now))
        return min(self._burst, left + max(now - at, 0.0) * self._rate)

    def give(self, source: str, amount: float, now: float) -> None:
        """Add to what ``source`` has left, which is never more than its burst."""
        if source in self._left:
            self._left[source] = (min(self.left(source, now) + amount, self._burst), now)

    def wait(self, source: str, now: float) -> int:
        """0 if ``source`` has one left, else the whole seconds after which it has."""
        left = self.left(source, now)
        return 0 if left >= 1.0 else max(math.ceil((1.0 - left) / self._rate), 1)

    def spend(self, source: str, now: float) -> int:
        """Take one. 0 if there was one, else the whole seconds after which there is one."""
        wait, left = self.wait(source, now), self.left(source, now)
        self._left[source] = (left if wait else left - 1.0, now)
        self._left.move_to_end(source)
        if len(self._left) > self._max_sources:
            self._left.popitem(last=False)
        return wait
