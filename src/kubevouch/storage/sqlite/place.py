"""A file that a store is copied from, or to."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import msgspec

from kubevouch.storage.copying.copy import Told
from kubevouch.storage.interface import Revision
from kubevouch.storage.sqlite import acceptance, verification
from kubevouch.storage.sqlite.snapshot import SQLiteSnapshot, open_snapshot
from kubevouch.storage.sqlite.store import SQLiteStore
from kubevouch.util.clock import Clock


class SQLitePlace(msgspec.Struct, frozen=True):
    """A ``Source`` and a ``Destination``."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def snapshot(self, clock: Clock) -> AbstractAsyncContextManager[SQLiteSnapshot]:  # noqa: ARG002 - a file has no time limits
        return open_snapshot(self.path)

    def present(self, clock: Clock) -> AbstractAsyncContextManager[SQLiteSnapshot]:  # noqa: ARG002 - as above
        return open_snapshot(self.path, pinned=False)

    async def make(self, clock: Clock) -> None:
        # Also brings the log of a copy that was killed into the file.
        await (await self.open(clock)).close()

    async def open(self, clock: Clock) -> SQLiteStore:
        return await SQLiteStore.open(self.path, clock=clock)

    async def go_on_above(self, revision: Revision, clock: Clock, told: Told) -> Revision:  # noqa: ARG002 - one step
        with verification.alone(self.path) as real:
            return acceptance.go_on_above(real, revision)
