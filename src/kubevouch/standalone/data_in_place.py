"""Whether the data directory that a process serves from is still in place, and can be written.

A directory that is deleted, moved or replaced under a running server goes on working for it: files that are open can be
written and synced, and are lost when the process ends. So the process looks for them at their paths. While something is
missing the server is not ready and refuses what would change or sign anything; the log says what to do.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from kubevouch.ledger.interface import LedgerError
from kubevouch.machinery import errors
from kubevouch.server.health import HealthError
from kubevouch.server.request import Handler, Request, Result
from kubevouch.standalone.claims import LOCK_FILE
from kubevouch.storage.interface import Placed, Store, StoreUnavailable, lowest
from kubevouch.util.clock import Clock
from kubevouch.util.held_files import HeldFiles, NotInPlaceError
from kubevouch.util.logger import get_logger

CHECK = "data-directory"
"""Of ``/readyz`` and ``/healthz``."""
LOOK_SECONDS = 0.25
_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_REVIEWS = frozenset({"authentication.k8s.io", "authorization.k8s.io"})
"""Groups of kinds that are answered and not stored."""
_TOKEN = "token"
_REFUSED = (
    "the server's data directory was deleted, moved or made read-only: nothing is written or signed; the server's log"
    " says what to do"
)

_READ_ONLY = (
    "got a read-only file system, expected one that can be written; look at the kernel's log (dmesg), then mount it"
    " read-write again"
)
"""As the kernel makes it after an error of the disk."""

log = get_logger("standalone.data_in_place")


class DataInPlace:
    """Of one process. Besides the directory it looks at what is added with :meth:`watching`.

    Attributes:
        problem: what is wrong and what to do about it; empty while all is in place.
    """

    def __init__(self, folder: Path, clock: Clock, *, room: Callable[[Path], os.statvfs_result] = os.statvfs) -> None:
        """
        Args:
            room: what the system says of the file system of ``folder``.

        Raises:
            OSError: the directory, or its lock file, is missing.
        """
        self.problem = ""
        self._folder = folder
        self._clock = clock
        self._room = room
        self._looks: list[Callable[[], None]] = [HeldFiles((folder, folder / LOCK_FILE)).expect_in_place]
        self._doubts: list[Callable[[], None]] = []
        self._looking: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def watching(self, look: Callable[[], None]) -> AsyncIterator[None]:
        """Inside the block: ``look`` raises StoreUnavailable or LedgerError once its files are gone.

        Whoever closes them does so after the block: SQLite takes some of them away.
        """
        self._looks.append(look)
        try:
            yield
        finally:
            self._looks.remove(look)
            if self._looking is not None:
                await asyncio.wait({self._looking})

    @asynccontextmanager
    async def watching_store(self, store: Store) -> AsyncIterator[None]:
        """The files of a store, if it has any."""
        medium = lowest(store)
        if not isinstance(medium, Placed):
            yield
            return
        self._doubts.append(medium.doubt)
        async with self.watching(medium.expect_in_place):
            yield
        self._doubts.remove(medium.doubt)

    async def keep(self) -> None:
        """For ever."""
        while True:
            await self.look()
            await self._clock.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """One at a time, for all who ask meanwhile."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(), name="look-at-data")
        await asyncio.shield(self._looking)

    async def _look(self) -> None:
        # A disk that hangs holds a thread, not the loop.
        found, is_full = await asyncio.to_thread(self._find, tuple(self._looks))
        if found and not self.problem:
            log.critical("the data directory is not usable, and nothing is written or signed", problem=found)
        elif self.problem and not found:
            log.warning("the data directory is usable again", folder=str(self._folder))
        self.problem = found
        if is_full:
            # Whether a write still fits, only a write tells.
            for doubt in self._doubts:
                doubt()

    async def check(self) -> None:
        """For ``/readyz``. Raises HealthError."""
        await self.look()
        if self.problem:
            raise HealthError(self.problem)

    async def refuse_changes(self, request: Request, following: Handler) -> Result:
        """A link of the chain: with no files to keep it in, nothing is acknowledged, and no token is signed."""
        if request.target.subresource == _TOKEN:
            # It is signed and not stored: no commit finds out that the files are gone.
            await self.look()
        if self.problem and request.method not in _READS and request.target.group not in _REVIEWS:
            raise errors.service_unavailable(_REFUSED)
        return await following(request)

    def _find(self, looks: Sequence[Callable[[], None]]) -> tuple[str, bool]:
        """What is wrong, and whether the disk is full."""
        try:
            for look in looks:
                look()
            room = self._room(self._folder)
        except (NotInPlaceError, StoreUnavailable, LedgerError, OSError) as err:
            return str(err), False
        if room.f_flag & os.ST_RDONLY:
            return f"{self._folder}: {_READ_ONLY}", False
        return "", not (room.f_bfree if os.geteuid() == 0 else room.f_bavail)
