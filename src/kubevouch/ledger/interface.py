"""The contract of ledgers.

LedgerError              a ledger that cannot be opened, written or read now
├── LedgerInUse          another process writes it
├── LedgerDamaged        what is there is not what was written
└── LedgerUnavailable    no room, no rights, no file
    └── LedgerOvertaken  another process has written about the same request meanwhile
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Protocol

from kubevouch.ledger.entries import APPROVED, DENIED, FAILED, INTENDED, ISSUED, Entry, Query, Recorded


class LedgerError(Exception):
    """A ledger that cannot be opened, written or read now."""


class LedgerInUse(LedgerError):
    """Another process writes it."""


class LedgerDamaged(LedgerError):
    """What is there is not what was written."""


class LedgerUnavailable(LedgerError):
    """No room, no rights, no file."""


class LedgerOvertaken(LedgerUnavailable):
    """Another process has written about the same request meanwhile. Who asks again finds what it has written."""


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


_SIGNING = frozenset({INTENDED, ISSUED, FAILED})
_DECIDING = frozenset({APPROVED, DENIED, INTENDED})
OF_REQUESTS = _SIGNING | _DECIDING
"""What is asked about each request before it is decided and before it is signed."""


def written_for(created: dt.datetime | None) -> dt.datetime | None:
    """Since when there can be entries about a request: told this, a ledger knows of most that it has none."""
    return None if created is None else created - CLOCKS_DIFFER


async def signed_before(
    ledger: ReadableLedger, uid: str, digest: str, created: dt.datetime | None = None
) -> Sequence[Entry]:
    """What was intended, issued, or failed for exactly this request, the newest first.

    Args:
        created: when the request was made: before then, nothing was done for it, unless a clock was set back meanwhile.
    """
    return await _of_request(ledger, _SIGNING, uid, digest, written_for(created))


async def allowed(ledger: ReadableLedger, uid: str, digest: str) -> Entry | None:
    """What lets exactly this request be signed: the newest decision, if it is an approval.

    ``intended`` counts too: of what people approve over the API, the signing controller's is the first entry.
    """
    decisions = await _of_request(ledger, _DECIDING, uid, digest)
    return decisions[0] if decisions and decisions[0].kind != DENIED else None


async def _of_request(
    ledger: ReadableLedger,
    kinds: frozenset[str],
    uid: str,
    digest: str,
    nothing_before: dt.datetime | None = None,
) -> Sequence[Entry]:
    if not uid:
        return ()
    recorded = await ledger.find(Query(kinds=kinds, uid=uid, nothing_before=nothing_before, newest_first=True))
    return [each.entry for each in recorded if each.entry.digest == digest]
