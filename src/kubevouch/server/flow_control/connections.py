"""How many connections there may be, in all and from one source."""

from __future__ import annotations

# Above the nodes of the largest clusters (5,000), with a few connections each behind one address translation.
MAX_CONNECTIONS = 20_000
MAX_FROM_ONE_SOURCE = MAX_CONNECTIONS // 2


class ConnectionLimits:
    """Counts open connections, from the moment they are accepted: a handshake is what costs most."""

    def __init__(self, total: int = MAX_CONNECTIONS, from_one_source: int = MAX_FROM_ONE_SOURCE) -> None:
        self._total = total
        self._from_one_source = from_one_source
        self._by_source: dict[str, int] = {}
        self.open = 0
        self.refused = 0

    def admit(self, source: str) -> bool:
        """Whether one more connection from ``source`` may be; if so, :meth:`release` has to follow."""
        count = self._by_source.get(source, 0)
        if self.open >= self._total or count >= self._from_one_source:
            self.refused += 1
            return False
        self._by_source[source] = count + 1
        self.open += 1
        return True

    def release(self, source: str) -> None:
        """A connection that was admitted is closed."""
        self.open -= 1
        count = self._by_source[source] - 1
        if count:
            self._by_source[source] = count
        else:
            del self._by_source[source]
