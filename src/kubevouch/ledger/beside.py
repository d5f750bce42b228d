"""A ledger read beside the process that writes it, by one that does not take its word that nothing was rewritten.

The witness remembers the hash of the last entry it has seen (``chain``). Entries before that cannot be changed, taken
out or swapped and the chain made anew without that hash being another one, whoever has the ledger's key.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import msgspec

from kubevouch.ledger import chain, opening, proofs, reading
from kubevouch.ledger.entries import Query, Recorded
from kubevouch.ledger.errors import damaged, translated
from kubevouch.ledger.interface import LedgerUnavailable
from kubevouch.ledger.schema import ORIGIN
from kubevouch.util.clock import Clock
from kubevouch.util.files import Stamp, read_regular, stamp, write_atomically
from kubevouch.util.logger import get_logger

T = TypeVar("T")

KEPT_SECONDS = 1.0
"""How often at most what was seen is written down: a power cut forgets no more."""
_MAX_STATE = 4096

log = get_logger("ledger.beside")


class Seen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far a ledger was, and the hash of its last entry in hexadecimal digits; empty while it has none."""

    origin: str
    size: int
    link: str


class LedgerBeside:
    """See ``ledger.interface.ReadableLedger``."""

    def __init__(self, path: Path, state: Path | None, clock: Clock) -> None:
        """
        Args:
            state: file that keeps what was seen; None forgets it with the process.

        Raises:
            LedgerDamaged: the state is none.
            OSError: it cannot be read.
        """
        self._path = path.resolve()
        self._state = state
        self._clock = clock
        self._kept = float("-inf")
        self._seen = self._read_state()
        self._saved = self._seen
        self._connection: sqlite3.Connection | None = None
        self._stamp: Stamp | None = None
        self._thread = ThreadPoolExecutor(1, "ledger-beside")

    async def find(self, query: Query) -> Sequence[Recorded]:
        """See ``ledger.interface.ReadableLedger``."""
        return await self._run(lambda connection: reading.find(connection, query))

    async def look(self) -> None:
        """Have everything seen that there is by now.

        Raises:
            LedgerDamaged: what was seen before is not there any more as it was.
            LedgerUnavailable: it cannot be read now.
        """
        await self._run(self._look)

    async def close(self) -> None:
        """Write down what was seen."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown()

    # ------------------------------------------------------------ the thread

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._with_connection, work)

    def _with_connection(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return work(self._connected())
        except sqlite3.Error as err:
            self._disconnect()
            raise translated(err, self._path) from err

    def _connected(self) -> sqlite3.Connection:
        found = stamp(self._path)
        identity = found[:1] if found else None
        if self._connection is None or identity != self._stamp:
            # A file that was restored has the name of the former one.
            self._disconnect()
            self._connection = opening.connect_to_read(self._path, beside_writer=True)
            self._stamp = identity
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _look(self, connection: sqlite3.Connection) -> None:
        with reading.moment(connection):
            origin = reading.meta(connection, ORIGIN, self._path)
            if self._seen is None:
                size = reading.size_of(connection)
                link = reading.one(connection, "SELECT link FROM entry WHERE sequence = ?", size - 1)
                self._seen = Seen(origin, size, bytes(link or b"").hex())
                log.warning("the ledger is seen for the first time", path=str(self._path), origin=origin, size=size)
            else:
                self._seen = self._followed(connection, origin, self._seen)
        self._keep()

    def _followed(self, connection: sqlite3.Connection, origin: str, seen: Seen) -> Seen:
        if origin != seen.origin:
            raise damaged(self._path, f"a ledger with the origin {origin}, where {seen.origin} was seen before")
        size, link = seen.size, bytes.fromhex(seen.link)
        if size:
            before = reading.one(connection, "SELECT link FROM entry WHERE sequence = ?", size - 1)
            if before is None:
                raise damaged(self._path, f"fewer than the {size} entries that were seen before")
            if bytes(before) != link:
                raise damaged(self._path, f"other entries among the first {size} than were seen before")
        else:
            link = chain.beginning(origin)
        rows = connection.execute(
            "SELECT sequence, link, body FROM entry WHERE sequence >= ? ORDER BY sequence", (size,)
        )
        for sequence, said, body in rows:
            link = chain.link(link, proofs.leaf_hash(body))
            if sequence != size or bytes(said) != link:
                raise damaged(self._path, f"an entry {sequence} that does not follow the one before it")
            size += 1
        return Seen(origin, size, link.hex() if size else "")

    # ------------------------------------------------------------ what was seen

    def _read_state(self) -> Seen | None:
        if self._state is None:
            return None
        try:
            return msgspec.json.decode(read_regular(self._state, _MAX_STATE), type=Seen)
        except FileNotFoundError:
            return None
        except (msgspec.MsgspecError, UnicodeDecodeError) as err:
            raise damaged(self._state, f"no record of what was seen of a ledger ({err})") from err

    def _keep(self) -> None:
        now = self._clock.monotonic()
        if self._saved is None or now - self._kept >= KEPT_SECONDS:
            self._save()
            self._kept = now

    def _save(self) -> None:
        # A file that somebody has deleted is written again: without it the next process would believe anything.
        if self._state is not None and (self._seen != self._saved or not self._state.exists()):
            try:
                write_atomically(self._state, msgspec.json.encode(self._seen))
            except OSError as err:
                # Whoever signed on would forget with its end what it has seen.
                raise LedgerUnavailable(
                    f"{self._state}: got {(err.strerror or str(err)).lower()}, expected to write down what was seen of"
                    " the ledger; make its folder writable"
                ) from err
        self._saved = self._seen

    def _close(self) -> None:
        try:
            self._save()
        except LedgerUnavailable as err:
            log.error("what was seen of the ledger is not kept", err=str(err))
        self._disconnect()
