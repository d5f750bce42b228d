"""How much memory the heads of requests may take over all connections, and how many of these may be nobody's yet.

A head is held before anybody knows who sends it. Each connection may have a head as large as clients usually send;
what is above that is counted, and when the sum is too large whoever has held its part for longest is hung up on: a
client that means it has its answer by then.
"""

from __future__ import annotations

from typing import Protocol

# Before authentication: what a connection may hold uncounted, and all of them above that.
FREE_BYTES = 8 * 1024
TOTAL_BYTES = 24 << 20
# And after it.
FREE_BYTES_AUTHENTICATED = 64 * 1024
TOTAL_BYTES_AUTHENTICATED = 64 << 20
# A whole head is there three times: as it came, cut into bytes, and as text.
COPIES = 3
# Some 50 KiB each, most of it OpenSSL's.
MAX_UNAUTHENTICATED = 1000


class Holder(Protocol):
    """A connection."""

    @property
    def is_busy(self) -> bool:
        """Whether a request of it is being served."""
        ...

    def cut_off(self) -> None:
        """Hang up at once. Comes back as :meth:`HeadMemory.forget`, later."""
        ...


class HeadBudget:
    """One sum over many holders."""

    def __init__(self, free: int, total: int) -> None:
        self._free = free
        self._total = total
        self._held: dict[Holder, int] = {}
        self.held = 0

    def charge(self, holder: Holder, size: int) -> None:
        """``holder`` has ``size`` bytes now; cuts off those that have to give way."""
        before, counted = self._held.get(holder, 0), max(size - self._free, 0)
        if counted == before:
            return
        self.held += counted - before
        if counted:
            self._held[holder] = counted
        else:
            self._held.pop(holder, None)
        while self.held > self._total:
            oldest = next(iter(self._held))
            self.held -= self._held.pop(oldest)
            oldest.cut_off()


class HeadMemory:
    """The connections of one server.

    Args:
        unauthenticated: how many connections may be open that have not authenticated; idle ones give way to new ones.
    """

    def __init__(
        self,
        first: HeadBudget | None = None,
        later: HeadBudget | None = None,
        unauthenticated: int = MAX_UNAUTHENTICATED,
    ) -> None:
        self._first = first or HeadBudget(FREE_BYTES, TOTAL_BYTES)
        self._later = later or HeadBudget(FREE_BYTES_AUTHENTICATED, TOTAL_BYTES_AUTHENTICATED)
        self._most = unauthenticated
        self._unauthenticated: dict[Holder, None] = {}

    def add(self, holder: Holder) -> None:
        """A connection was made."""
        self._unauthenticated[holder] = None
        if len(self._unauthenticated) > self._most:
            idle = next((each for each in self._unauthenticated if not each.is_busy), holder)
            self._unauthenticated.pop(idle)
            idle.cut_off()

    def charge(self, holder: Holder, size: int) -> None:
        """It holds ``size`` bytes of heads."""
        (self._first if holder in self._unauthenticated else self._later).charge(holder, size)

    def authenticated(self, holder: Holder) -> None:
        """It is somebody's."""
        if holder in self._unauthenticated:
            self._first.charge(holder, 0)
            del self._unauthenticated[holder]

    def forget(self, holder: Holder) -> None:
        """It is gone."""
        for budget in (self._first, self._later):
            budget.charge(holder, 0)
        self._unauthenticated.pop(holder, None)
