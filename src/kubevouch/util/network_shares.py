"""What each network holds of something that is bounded, so that one network does not hold all of it.

Limits count by address, and an IPv6 address by its /64: a /48 has 65,536 of those. A limit for wider networks would
bind whole fleets, which often lie in one. So all but the last tenth is for everybody, and the last tenth for those
whose networks hold half or less.
"""

from __future__ import annotations

from kubevouch.util.addresses import wider_prefixes

_LAST_PART = 10


class NetworkShares:
    """Counts by owner and network. An owner is whatever has a bound of its own."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], int] = {}

    def __len__(self) -> int:
        return len(self._held)

    def clear(self) -> None:
        self._held.clear()

    def take(self, source: str, owner: str = "") -> None:
        """``source`` is a prefix (``util.addresses``); :meth:`give_back` has to follow."""
        for network in wider_prefixes(source):
            key = owner, network
            self._held[key] = self._held.get(key, 0) + 1

    def give_back(self, source: str, owner: str = "") -> None:
        for network in wider_prefixes(source):
            key = owner, network
            left = self._held[key] - 1
            if left:
                self._held[key] = left
            else:
                del self._held[key]

    def has_room(self, source: str, held: int, bound: int, owner: str = "") -> bool:
        """Whether ``source`` may take one more of ``bound``, of which ``held`` are taken."""
        if held < bound - bound // _LAST_PART:
            return True
        return held < bound and all(
            2 * self._held.get((owner, network), 0) <= bound for network in wider_prefixes(source)
        )
