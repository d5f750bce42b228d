"""What can be shown of a ledger, with its file or without: that it is whole, and what is in it.

AuditError    nothing can be shown, or the text given is not what it should be; ``hint`` says what to do
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from kubevouch.ledger import checkpoints, keys, opening, proof_text, proofs, reading, schema, verification
from kubevouch.ledger.checkpoints import Checkpoint, CheckpointError, VerifierKey
from kubevouch.ledger.entries import ISSUED, Query
from kubevouch.ledger.errors import translated
from kubevouch.ledger.interface import LedgerError
from kubevouch.ledger.proof_text import Consistency, Inclusion
from kubevouch.ledger.proofs import ProofError
from kubevouch.ledger.verification import Report
from kubevouch.storage.interface import StoreDamaged
from kubevouch.storage.sqlite.mark import read_mark
from kubevouch.util import files

_OWN_KEY = "ledger"


class AuditError(Exception):
    """Nothing can be shown."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class KnownKey(msgspec.Struct, frozen=True):
    """Whose signatures are believed, and why: what ``--key`` said, the key beside the ledger, or the ledger itself."""

    key: VerifierKey
    source: str

    @property
    def is_the_ledgers_word(self) -> bool:
        return self.source == _OWN_KEY


def key_for(path: Path, given: str) -> KnownKey:
    """The key of the ledger at ``path``; ``given`` is one as text, or the name of a file with it.

    Raises:
        AuditError, LedgerError, OSError
    """
    if given:
        return KnownKey(parse_key(given), "given")
    with closing(opening.connect_to_read(path)) as connection:
        origin, own = (reading.meta(connection, name, path) for name in (schema.ORIGIN, schema.KEY))
    try:
        return KnownKey(checkpoints.verifier_key(origin, keys.read_key(path)), str(keys.key_of(path)))
    except (LedgerError, OSError):
        return KnownKey(parse_key(own), _OWN_KEY)


def parse_key(given: str) -> VerifierKey:
    """Raises AuditError, OSError."""
    text = given if "+" in given else _read(Path(given)).strip()
    try:
        return checkpoints.parse_key(text)
    except CheckpointError as err:
        raise AuditError(str(err), "it is in the ConfigMap kubevouch-ledger-checkpoint of kube-public") from err


def _read(path: Path) -> str:
    try:
        return files.read_regular(path, proof_text.MAX_BYTES).decode()
    except UnicodeDecodeError as err:
        raise AuditError(f"got {path}, which is no text, expected a checkpoint, a proof or a key") from err


def checkpoint_in(path: Path, key: VerifierKey) -> Checkpoint:
    """The checkpoint in a file. Raises AuditError, OSError."""
    note = _read(path)
    try:
        return checkpoints.verified(note if note.endswith("\n") else f"{note}\n", key)
    except CheckpointError as err:
        raise AuditError(f"{path}: {err}", f"expected a checkpoint of {key.name}, as it was published") from err


def verify(path: Path, key: VerifierKey, kept: Sequence[Path], progress: Callable[[int], None]) -> Report:
    """Look at every row of the ledger; ``kept`` are files with checkpoints.

    Raises:
        AuditError: a checkpoint is none of this ledger's.
        LedgerError: there is no ledger to look at.
        OSError
    """
    pinned = [checkpoint_in(each, key) for each in kept]
    # Before the entries: it is moved behind them while a process writes.
    damage, noted = "", None
    try:
        noted = read_mark(path.resolve())
    except StoreDamaged as err:
        damage = f"mark: {err.got or err}"
    except OSError:
        pass  # the ledger may be shown to a group, the mark is the server's
    with closing(opening.connect_to_read(path)) as connection:
        report = verification.verify(connection, key, pinned, progress)
        # What SQLite's log held is gone without a trace when the log is.
        try:
            report.is_marked = noted is not None and opening.is_marked_by(noted, connection, path)
        except (sqlite3.Error, LedgerError) as err:
            damage = f"mark: nobody can tell whose it is ({err})"
    if damage:
        report.findings.append(damage)
    elif noted is not None and report.is_marked and noted.revision > report.size:
        lost = noted.revision - report.size
        report.findings.append(f"mark: {noted.revision} entries were acknowledged, {lost} are lost at the end")
    return report


def newest_checkpoint(path: Path) -> str:
    """The one that was published last. Raises AuditError, LedgerError."""
    try:
        with closing(opening.connect_to_read(path)) as connection:
            note = reading.one(connection, "SELECT note FROM checkpoint ORDER BY size DESC LIMIT 1")
    except sqlite3.Error as err:
        raise translated(err, path) from err
    if note is None:
        raise AuditError(f"{path} has no checkpoint yet", "the controller ledgercheckpoint makes them")
    return str(note)


def prove(path: Path, serial: str) -> str:
    """That the certificate's entry is in the ledger, as text. Raises AuditError, LedgerError."""
    try:
        with closing(opening.connect_to_read(path)) as connection:
            found = reading.find(connection, Query(serial=serial, kinds=frozenset({ISSUED}), limit=1))
            if not found:
                raise AuditError(f"no certificate with the serial number {serial} is in {path}")
            sequence = found[0].sequence
            with reading.moment(connection):
                note, size = _covering(connection, path, sequence + 1)
                body = reading.one(connection, "SELECT body FROM entry WHERE sequence = ?", sequence)
                hashes = reading.hashes(connection, proofs.inclusion(sequence, size))
            return proof_text.inclusion_text(body, sequence, hashes, note)
    except sqlite3.Error as err:
        raise translated(err, path) from err


def prove_growth(path: Path, former: Path, key: VerifierKey) -> str:
    """That the ledger begins with all that a checkpoint was about, as text. Raises AuditError, LedgerError, OSError."""
    kept = checkpoint_in(former, key)
    try:
        with closing(opening.connect_to_read(path)) as connection, reading.moment(connection):
            note, size = _covering(connection, path, kept.size + 1)
            hashes = reading.hashes(connection, proofs.consistency(kept.size, size))
            return proof_text.consistency_text(kept.size, hashes, note)
    except ProofError as err:
        raise AuditError(f"{path} has fewer entries than the checkpoint {former}: {err}") from err
    except sqlite3.Error as err:
        raise translated(err, path) from err


def _covering(connection: sqlite3.Connection, path: Path, size: int) -> tuple[str, int]:
    """The newest checkpoint, if it is about so many entries; else the head."""
    row = connection.execute("SELECT note, size FROM checkpoint ORDER BY size DESC LIMIT 1").fetchone()
    if row is not None and row[1] >= size:
        return str(row[0]), int(row[1])
    return reading.meta(connection, schema.HEAD, path), reading.size_of(connection)


def verify_proof(proof: Path, key: VerifierKey, kept: Sequence[Path]) -> Inclusion | Consistency:
    """What a proof shows to somebody without the ledger.

    Raises:
        AuditError: nothing.
        OSError
    """
    text = _read(proof)
    try:
        if not proof_text.is_consistency(text):
            return proof_text.verified_inclusion(text, key)
        if len(kept) != 1:
            raise AuditError(
                f"{proof} is about a checkpoint that you have kept", "give this checkpoint with --checkpoint"
            )
        return proof_text.verified_consistency(text, key, checkpoint_in(kept[0], key))
    except (ProofError, CheckpointError) as err:
        raise AuditError(f"{proof} proves nothing: {err}") from err
