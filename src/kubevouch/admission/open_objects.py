"""Objects that are open, counted by who made them, from where and about what: what budgets and evictions go by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable
from typing import NamedTuple, TypeVar

from kubevouch.util.network_shares import NetworkShares

K = TypeVar("K", bound=Hashable)

EACH_BYTES = 6 << 10
"""What each weighs beside its size: of 32 MiB that 5,000 may have, the share of one."""


class OpenObject(NamedTuple):
    """What counts of one.

    Args:
        requester: who has made it.
        source: the network that it came from; empty where nobody says, or where it does not count.
        about: the digest of what it is for, a name or a key: who asks does not choose how much memory it takes.
        size: bytes that its maker has chosen.
        created: seconds, of any clock; the smaller the older.
    """

    requester: str
    source: str = ""
    about: bytes = b""
    size: int = 0
    created: int = 0


class OpenObjects:
    """By name. What is not open any more is not counted any more."""

    def __init__(self) -> None:
        self._open: dict[str, OpenObject] = {}
        # By requester and source, the names.
        self._of: dict[str, dict[str, dict[str, None]]] = {}
        self._counts: Counter[str] = Counter()
        self._sizes: Counter[str] = Counter()
        self._from: Counter[str] = Counter()
        self._sizes_from: Counter[str] = Counter()
        self._about: Counter[tuple[str, bytes]] = Counter()
        # Those of each requester.
        self.networks = NetworkShares()

    def __contains__(self, name: object) -> bool:
        return name in self._open

    def clear(self) -> None:
        for table in (
            self._open, self._of, self._counts, self._sizes, self._from, self._sizes_from, self._about, self.networks,
        ):  # fmt: skip
            table.clear()

    def add(self, name: str, found: OpenObject) -> None:
        """``name`` is open. Of one that is known, nothing changes."""
        if name not in self._open:
            self._open[name] = found
            self._of.setdefault(found.requester, {}).setdefault(found.source, {})[name] = None
            self._count(found, 1)
            if found.source:
                self.networks.take(found.source, found.requester)

    def discard(self, name: str) -> OpenObject | None:
        """``name`` is open no more; what it was, if it was."""
        gone = self._open.pop(name, None)
        if gone is not None:
            sources = self._of[gone.requester]
            del sources[gone.source][name]
            if not sources[gone.source]:
                del sources[gone.source]
            if not sources:
                del self._of[gone.requester]
            self._count(gone, -1)
            if gone.source:
                self.networks.give_back(gone.source, gone.requester)
        return gone

    def _count(self, found: OpenObject, by: int) -> None:
        _change(self._counts, found.requester, by)
        _change(self._sizes, found.requester, by * found.size)
        if found.source:
            _change(self._from, found.source, by)
            _change(self._sizes_from, found.source, by * found.size)
            _change(self._about, (found.source, found.about), by)

    def count(self, requester: str) -> int:
        return self._counts[requester]

    def size(self, requester: str) -> int:
        """Bytes of all of the requester's."""
        return self._sizes[requester]

    def count_from(self, source: str, about: bytes) -> tuple[int, int]:
        """How many came from ``source``, whoever has made them, and how many of these are ``about`` this."""
        return self._from[source], self._about[source, about]

    def size_from(self, source: str) -> int:
        """Bytes of all that came from ``source``."""
        return self._sizes_from[source]

    def weight(self, requester: str, source: str) -> int:
        """Of what the requester has from ``source``: many small ones weigh as much as few large ones."""
        return sum(EACH_BYTES + self._open[name].size for name in self._of.get(requester, {}).get(source, ()))

    def largest_source(self, requester: str) -> tuple[str, Collection[str]]:
        """From where most of the requester's came by weight, and their names, the oldest first; nothing if there are
        none."""
        sources = self._of.get(requester)
        if not sources:
            return "", ()
        source = max(sources, key=lambda each: self.weight(requester, each))
        return source, sorted(sources[source], key=lambda name: self._open[name].created)


def _change(counter: Counter[K], key: K, by: int) -> None:
    counter[key] += by
    if not counter[key]:
        del counter[key]
