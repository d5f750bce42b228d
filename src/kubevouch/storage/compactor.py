"""Forgets old states at intervals, as kube-apiserver does (k8s.io/apiserver/pkg/storage/etcd3/compact.go), and earlier
when they take too much room.

By time alone, a store keeps whatever anybody writes within two intervals: one node that wrote its status again and
again filled a disk with 55 MB a second.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol, runtime_checkable

from kubevouch.storage.interface import Revision, Store, StoreError
from kubevouch.util.clock import Clock, wait_at_most
from kubevouch.util.logger import get_logger

log = get_logger("storage.compactor")

# Values written since the oldest state that is kept. Above it half are forgotten: the newer ones are what a list in
# pages or a watch that was cut off goes on from.
REVISION_BYTES = 64 << 20
# What a write takes besides its value.
ROW_BYTES = 300
# As exact as it has to be: one mark for so many bytes.
_STEP_BYTES = 1 << 20
RETRY_SECONDS = 5.0


class RevisionBytes:
    """What has been written, by revision, since the last compaction."""

    def __init__(self, budget: int = REVISION_BYTES) -> None:
        self._budget = budget
        self._marks: deque[tuple[Revision, int]] = deque()
        self._since_mark = 0
        self.bytes = 0
        self.too_many = asyncio.Event()

    def wrote(self, revision: Revision, size: int) -> None:
        """A write has been acknowledged; ``size`` is that of its value."""
        self.bytes += size + ROW_BYTES
        self._since_mark += size + ROW_BYTES
        if self._since_mark >= _STEP_BYTES:
            self._marks.append((revision, self._since_mark))
            self._since_mark = 0
            if self.bytes > self._budget:
                self.too_many.set()

    def surplus(self) -> Revision:
        """Up to which revision to compact, so that half of the budget is left; 0 is none."""
        left, upto = self.bytes, Revision(0)
        for revision, size in self._marks:
            if left <= self._budget // 2:
                break
            left -= size
            upto = max(upto, revision)
        return upto

    def compacted(self, revision: Revision) -> None:
        while self._marks and self._marks[0][0] <= revision:
            self.bytes -= self._marks.popleft()[1]
        if self.bytes <= self._budget:
            self.too_many.clear()


@runtime_checkable
class SharedHistory(Protocol):
    """A store that other servers write to as well, and that agrees with them on what to forget."""

    revision_bytes: int
    """What :class:`RevisionBytes` allows for it."""

    async def keep_compacting(self, interval: float, revisions: RevisionBytes) -> None:
        """As :func:`keep_compacting`, together with the others."""
        ...


async def keep_compacting(store: Store, clock: Clock, interval: float, revisions: RevisionBytes) -> None:
    """Every ``interval`` seconds, forget what was old an interval ago: a state is kept for one to two of them, unless
    what was written in that time is above the budget."""
    before = await store.revision()
    end = clock.monotonic() + interval
    while True:
        try:
            await wait_at_most(clock, revisions.too_many.wait(), end - clock.monotonic())
        except TimeoutError:
            end, early = clock.monotonic() + interval, False
        else:
            early = True
        upto = revisions.surplus() if early else before
        try:
            await store.compact(upto)
            before = max(before, upto) if early else await store.revision()
        except StoreError as err:
            log.warning("the store was not compacted, trying again", err=str(err))
            await clock.sleep(RETRY_SECONDS)
        else:
            revisions.compacted(upto)
