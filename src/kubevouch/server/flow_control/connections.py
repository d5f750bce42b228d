"""How many connections there may be, in all and from one source."""

from __future__ import annotations

import resource

from kubevouch.util.network_shares import NetworkShares

# Above the nodes of the largest clusters (5,000), with a few connections each behind one address translation.
MAX_CONNECTIONS = 20_000
# Descriptors for everything else: the store, logs, webhooks, and connections that are about to be hung up on.
RESERVED_DESCRIPTORS = 256


def fitting(descriptors: int) -> int:
    """How many connections a process may have that may have so many descriptors."""
    return min(MAX_CONNECTIONS, max(descriptors - RESERVED_DESCRIPTORS, descriptors // 2))


class ConnectionLimits:
    """Counts open connections, from the moment they are accepted: a handshake is what costs most.

    Args:
        from_one_source: half of ``total`` unless given.
    """

    def __init__(self, total: int = MAX_CONNECTIONS, from_one_source: int | None = None) -> None:
        self._total = total
        self._from_one_source = total // 2 if from_one_source is None else from_one_source
        self._by_source: dict[str, int] = {}
        self._networks = NetworkShares()
        self.open = 0
        self.refused = 0

    @classmethod
    def of_process(cls) -> ConnectionLimits:
        """As many as the process may have, so that it never runs out of descriptors."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return cls(MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else fitting(soft))

    def has_room(self, source: str, leaving: int = 0) -> bool:
        """Whether ``source`` may have one more, once ``leaving`` connections of others are gone."""
        if self._by_source.get(source, 0) >= self._from_one_source:
            return False
        return self._networks.has_room(source, self.open - leaving, self._total)

    def admit(self, source: str, *, gives_way: bool = False) -> bool:
        """Whether one more connection from ``source`` may be; if so, :meth:`release` has to follow.

        Args:
            gives_way: another connection goes at once, so that there are no more than before.
        """
        count = self._by_source.get(source, 0)
        if count >= self._from_one_source or not (gives_way or self.has_room(source)):
            self.refused += 1
            return False
        self._by_source[source] = count + 1
        self._networks.take(source)
        self.open += 1
        return True

    def release(self, source: str) -> None:
        """A connection that was admitted is closed."""
        self.open -= 1
        self._networks.give_back(source)
        count = self._by_source[source] - 1
        if count:
            self._by_source[source] = count
        else:
            del self._by_source[source]
