"""A ledger's file, open to be appended to: used by one thread at a time, of one process.

``PATH`` is the SQLite file, ``PATH-wal`` and ``PATH-shm`` are SQLite's own, ``PATH.mark`` says how far the ledger
reached, ``PATH.lock`` is held while it is open, and the key lies beside it (``keys``). Every commit signs the new head,
so that who has not the key can leave no state of his own behind, not even of the newest entries.
"""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from kubevouch.ledger import chain, checkpoints, proofs, reading, schema, terms
from kubevouch.ledger.checkpoints import CHECKPOINT, HEAD, CheckpointError, checkpoint_of
from kubevouch.ledger.entries import Entry, encode, terms_of
from kubevouch.ledger.errors import damaged, translated
from kubevouch.ledger.interface import LedgerUnavailable
from kubevouch.ledger.proofs import Frontier
from kubevouch.ledger.schema import NODE_LEVEL, SEGMENT
from kubevouch.storage.interface import Revision
from kubevouch.storage.sqlite.files import Lock
from kubevouch.storage.sqlite.mark import Mark
from kubevouch.util.held_files import HeldFiles, NotInPlaceError
from kubevouch.util.logger import get_logger

LOG_BYTES = 8 << 20
"""Of SQLite's log, before it is copied into the file."""

_log = get_logger("kubevouch.ledger")


class Encoded(msgspec.Struct, frozen=True):
    """An entry as it is written. ``terms``: what it is found under, as ``terms.packed`` makes them."""

    entry: Entry
    body: bytes
    terms: bytes

    @classmethod
    def of(cls, entry: Entry) -> Encoded:
        """Raises EntryTooLarge."""
        return cls(entry, encode(entry), terms.packed(terms_of(entry)))


class LedgerFile:
    """See the module. Times that it signs are passed in."""

    def __init__(
        self,
        path: Path,
        connection: sqlite3.Connection,
        lock: Lock,
        mark: Mark,
        origin: str,
        key: Ed25519PrivateKey,
        copied: str,
        held: HeldFiles,
    ) -> None:
        """``copied``: when this was copied from another ledger, that may have gone on; empty if it was not."""
        self.path = path
        self.copied = copied
        self.origin = origin
        self.verifier_key = checkpoints.verifier_key(origin, key)
        self._connection = connection
        self._lock = lock
        self._mark = mark
        self._key = key
        self._held = held
        self._frontier = Frontier()
        self._link = b""
        self._summary = ""
        self._uncopied = 0
        self._is_certain = False
        """Whether what is above is what the file holds: not after a commit that failed, which may have happened."""

    @property
    def size(self) -> int:
        return self._frontier.size

    @property
    def connection(self) -> sqlite3.Connection:
        """For reads of the thread that appends."""
        return self._connection

    def append(self, batch: Sequence[Encoded], now: dt.datetime) -> int:
        """Put ``batch`` at the end in one commit; returns the first one's sequence once all are on the disk.

        Raises:
            LedgerError: nothing was appended, as far as anybody may rely on it.
        """
        try:
            self._load()
            frontier, link = self._frontier.copy(), self._link
            first = frontier.size
            rows, nodes = [], []
            for each in batch:
                leaf = proofs.leaf_hash(each.body)
                link = chain.link(link, leaf)
                rows.append((frontier.size, *reading.columns_of(each.entry), link, each.terms, each.body))
                nodes += [(*node, made) for node, made in frontier.append(leaf) if node[0] >= NODE_LEVEL]
            head = self._head(frontier, now)
            self._is_certain = False
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            self._connection.executemany("INSERT INTO node VALUES (?, ?, ?)", nodes)
            for number in range(first // SEGMENT, frontier.size // SEGMENT):
                self._fill_segment(number)
            self._connection.execute("UPDATE meta SET value = ? WHERE name = 'head'", (head,))
            self.expect_in_place()
            self._connection.execute("COMMIT")
        except LedgerUnavailable:
            self._roll_back()
            raise
        except sqlite3.Error as error:
            self._roll_back()
            raise translated(error, self.path) from error
        self._mark.advance(Revision(frontier.size))
        self._frontier, self._link, self._is_certain = frontier, link, True
        self._copy_log(sum(len(row[-1]) for row in rows))
        return first

    def expect_in_place(self) -> None:
        """Raises LedgerUnavailable: a file of it was deleted, moved or replaced, and what is written is lost."""
        try:
            self._held.expect_in_place()
        except NotInPlaceError as error:
            raise LedgerUnavailable(str(error)) from error

    def checkpoint(self, now: dt.datetime) -> tuple[int, str]:
        """How many entries there are by now, and the signed note of it, which is kept; the same again for as many.

        Raises:
            LedgerError
        """
        try:
            self._load()
            kept = reading.one(self._connection, "SELECT note FROM checkpoint WHERE size = ?", self.size)
            if kept is not None:
                return self.size, str(kept)
            checkpoint = checkpoint_of(self.origin, self.size, self._frontier.root(), CHECKPOINT, now)
            note = checkpoints.sign(checkpoint.text(), self.origin, self._key)
            self._is_certain = False
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.execute("INSERT INTO checkpoint VALUES (?, ?)", (self.size, note))
            self._summary = self._summed()
            head = self._head(self._frontier, now)
            self._connection.execute("UPDATE meta SET value = ? WHERE name = 'head'", (head,))
            self._connection.execute("COMMIT")
            self._is_certain = True
            return self.size, note
        except sqlite3.Error as error:
            self._roll_back()
            raise translated(error, self.path) from error

    def close(self) -> None:
        """Brings everything into the one file."""
        with ExitStack() as stack:
            stack.callback(self._lock.release)
            stack.callback(self._close_mark)
            stack.callback(self._connection.close)
            try:
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            except sqlite3.Error as error:
                _log.warning("ledger could not be closed cleanly", path=str(self.path), error=str(error))

    def expect_whole(self) -> None:
        """Raises LedgerDamaged unless the file is as its last commit left it, at its end; ``verify`` looks at all."""
        connection, path = self._connection, self.path
        try:
            head = checkpoints.verified(reading.meta(connection, schema.HEAD, path), self.verifier_key)
        except CheckpointError as error:
            raise damaged(path, f"a head that its key has not signed ({error})") from error
        self._load()
        if head.purpose != HEAD or (head.origin, head.size, head.root) != (
            self.origin,
            self.size,
            self._frontier.root(),
        ):
            raise damaged(path, f"{self.size} entries where {head.size} others were committed")
        last = connection.execute("SELECT sequence, link, body FROM entry ORDER BY sequence DESC LIMIT 2").fetchall()
        if last:
            previous = last[1][1] if len(last) > 1 else chain.beginning(self.origin)
            if last[0][1] != chain.link(previous, proofs.leaf_hash(last[0][2])):
                raise damaged(path, f"an entry {last[0][0]} that is not tied to the one before it")

    def _load(self) -> None:
        """What the file holds, unless it is known."""
        if self._is_certain:
            return
        size = reading.size_of(self._connection)
        hashes = [reading.hash_of(self._connection, node) for node in proofs.complete(0, size)]
        self._frontier = Frontier(size, hashes)
        last = reading.one(self._connection, "SELECT link FROM entry WHERE sequence = ?", size - 1)
        self._link = chain.beginning(self.origin) if last is None else bytes(last)
        self._summary = self._summed()
        self._is_certain = True

    def _head(self, frontier: Frontier, now: dt.datetime) -> str:
        head = checkpoint_of(self.origin, frontier.size, frontier.root(), HEAD, now, self._summary)
        return checkpoints.sign(head.text(), self.origin, self._key)

    def _summed(self) -> str:
        rows = self._connection.execute("SELECT note FROM checkpoint ORDER BY size")
        return checkpoints.summary([note for (note,) in rows])

    def _fill_segment(self, number: int) -> None:
        rows = self._connection.execute(
            "SELECT kind, at, not_after, body, terms FROM entry WHERE sequence BETWEEN ? AND ? ORDER BY sequence",
            (number * SEGMENT, (number + 1) * SEGMENT - 1),
        ).fetchall()
        row = reading.segment_row(number, ((*each[:3], reading.signer_in.decode(each[3]).signer) for each in rows))
        self._connection.execute("INSERT INTO segment VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        places = enumerate(terms.buckets([each[4] for each in rows]))
        self._connection.executemany(
            "INSERT INTO posting VALUES (?, ?, ?)", ((bucket, number, each) for bucket, each in places if each)
        )

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            try:
                self._connection.execute("ROLLBACK")
            except sqlite3.Error as error:
                _log.error("ledger rollback failed", path=str(self.path), error=str(error))

    def _copy_log(self, added: int) -> None:
        """Between two commits, by the connection that writes: see ``storage.sqlite.wal``."""
        self._uncopied += added
        if self._uncopied < LOG_BYTES:
            return
        self._uncopied = 0
        try:
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            self._mark.sync()
        except (sqlite3.Error, OSError) as error:
            _log.warning("ledger checkpoint of the log failed", path=str(self.path), error=str(error))

    def _close_mark(self) -> None:
        try:
            self._mark.close()
        except OSError as error:
            _log.warning("ledger mark could not be written", path=str(self.path), error=str(error))
