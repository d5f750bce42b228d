"""The contract of ledgers.

LedgerError              a ledger that cannot be opened, written or read now
├── LedgerInUse          another process writes it
├── LedgerDamaged        what is there is not what was written
└── LedgerUnavailable    no room, no rights, no file
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kubevouch.ledger.entries import APPROVED, DENIED, INTENDED, ISSUED, Entry, Query, Recorded


class LedgerError(Exception):
    """A ledger that cannot be opened, written or read now."""


class LedgerInUse(LedgerError):
    """Another process writes it."""


class LedgerDamaged(LedgerError):
    """What is there is not what was written."""


class LedgerUnavailable(LedgerError):
    """No room, no rights, no file."""


class ReadableLedger(Protocol):
    """What can be asked of a ledger, also while another process writes it."""

    async def find(self, query: Query) -> Sequence[Recorded]:
        """What ``query`` looks for, ordered by sequence; no more than its limit.

        Raises:
            LedgerError
        """
        ...


class Ledger(ReadableLedger, Protocol):
    """The one that writes."""

    async def append(self, *entries: Entry) -> int:
        """Put ``entries`` at the end, together or not at all; returns the last one's sequence once they are durable.

        Raises:
            LedgerError: nothing was appended. Who would sign does not.
            EntryTooLarge: likewise.
        """
        ...


async def issued_for(ledger: ReadableLedger, uid: str, digest: str) -> Recorded | None:
    """The newest certificate that was issued for exactly this request, whether or not anybody has seen it."""
    return await _newest(ledger, frozenset({ISSUED}), uid, digest)


async def allowed(ledger: ReadableLedger, uid: str, digest: str) -> Recorded | None:
    """What lets exactly this request be signed: the newest decision, if it is an approval.

    ``intended`` counts too: of what people approve over the API, the signing controller's is the first entry.
    """
    newest = await _newest(ledger, frozenset({APPROVED, DENIED, INTENDED}), uid, digest)
    return newest if newest is not None and newest.entry.kind != DENIED else None


async def _newest(ledger: ReadableLedger, kinds: frozenset[str], uid: str, digest: str) -> Recorded | None:
    if not uid:
        return None
    recorded = await ledger.find(Query(kinds=kinds, uid=uid, newest_first=True))
    return next((each for each in recorded if each.entry.digest == digest), None)
