"""The contract of ledgers.

LedgerError              a ledger that cannot be opened, written or read now
├── LedgerInUse          another process writes it
├── LedgerDamaged        what is there is not what was written
└── LedgerUnavailable    no room, no rights, no file
"""

from __future__ import annotations

import datetime as dt
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


CLOCKS_DIFFER = dt.timedelta(minutes=5)
"""How much later than ours the clock may be that stamps requests: what was written before then is looked at too."""


async def issued_for(
    ledger: ReadableLedger, uid: str, digest: str, created: dt.datetime | None = None
) -> Recorded | None:
    """The newest certificate that was issued for exactly this request, whether or not anybody has seen it.

    Args:
        created: when the request was made: before then, nothing was issued for it.
    """
    since = None if created is None else created - CLOCKS_DIFFER
    return await _newest(ledger, frozenset({ISSUED}), uid, digest, since)


async def allowed(ledger: ReadableLedger, uid: str, digest: str) -> Recorded | None:
    """What lets exactly this request be signed: the newest decision, if it is an approval.

    ``intended`` counts too: of what people approve over the API, the signing controller's is the first entry.
    """
    newest = await _newest(ledger, frozenset({APPROVED, DENIED, INTENDED}), uid, digest)
    return newest if newest is not None and newest.entry.kind != DENIED else None


async def _newest(
    ledger: ReadableLedger, kinds: frozenset[str], uid: str, digest: str, since: dt.datetime | None = None
) -> Recorded | None:
    if not uid:
        return None
    recorded = await ledger.find(Query(kinds=kinds, uid=uid, since=since, newest_first=True))
    return next((each for each in recorded if each.entry.digest == digest), None)
