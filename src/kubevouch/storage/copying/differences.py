"""What has to be written to one snapshot's store so that it holds what another one does. No I/O but reading both."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import NamedTuple

from kubevouch.storage.copying.mark import OWN_KEYS
from kubevouch.storage.snapshot import Batch, Record, Snapshot

LIFETIME_TOLERANCE = 120 * 1_000_000
"""Microseconds. etcd's leases are shared by neighbouring keys and granted up to a minute longer than asked for, in
whole seconds."""

MOST_LONGER = 3600 * 1_000_000
"""Microseconds. A new leader of etcd starts the time of each lease anew; no harm is done by an Event that stays."""

A_MOMENT = 1_000_000
"""Microseconds. Too little to write a key for, and to expect that it is still there."""


class Difference(NamedTuple):
    """``wanted`` None: the key should not be there. ``found`` None: it is not."""

    key: str
    wanted: Record | None
    found: Record | None


class _Records:
    """Records of a snapshot one by one, the next one to be looked at first. The mark of a copy is none of them."""

    def __init__(self, batches: AsyncIterator[Batch]) -> None:
        self._batches = batches
        self._read: deque[Record] = deque()

    async def first(self) -> Record | None:
        while not self._read:
            batch = await anext(self._batches, None)
            if batch is None:
                return None
            self._read.extend(record for record in batch if record.key not in OWN_KEYS)
        return self._read[0]

    def drop(self) -> None:
        self._read.popleft()


async def differences(wanted: Snapshot, found: Snapshot, now: int) -> AsyncGenerator[Difference, None]:
    """Key by key; also those that are equal, so that whoever looks on sees how far it is: with the same record twice.

    What is over by ``now`` (microseconds since 1970) is wanted no more.

    Raises:
        as ``Snapshot.batches``
    """
    async with aclosing(wanted.batches()) as ours, aclosing(found.batches()) as theirs:
        async for difference in _merged(_Records(ours), _Records(theirs), now):
            yield difference


async def _merged(left: _Records, right: _Records, now: int) -> AsyncIterator[Difference]:
    while True:
        ours, theirs = await left.first(), await right.first()
        if ours is not None and ours.expires is not None and ours.expires <= now:
            left.drop()
        elif ours is not None and (theirs is None or ours.key < theirs.key):
            left.drop()
            yield Difference(ours.key, ours, None)
        elif theirs is not None and (ours is None or theirs.key < ours.key):
            right.drop()
            yield Difference(theirs.key, None, theirs)
        elif ours is None:
            return
        else:
            left.drop()
            right.drop()
            yield Difference(ours.key, ours, theirs)


def is_equal(difference: Difference, now: int) -> bool:
    """Whether nothing has to be written at ``now``. What goes by itself in a moment may be missing, or left."""
    _, wanted, found = difference
    if wanted is not None and found is not None:
        if wanted.value != found.value or (wanted.expires is None) != (found.expires is None):
            return False
        return -LIFETIME_TOLERANCE <= (found.expires or 0) - (wanted.expires or 0) <= MOST_LONGER
    if wanted is not None:
        return wanted.expires is not None and wanted.expires <= now + A_MOMENT
    return found is not None and found.expires is not None and found.expires <= now + LIFETIME_TOLERANCE
