"""Proofs as text, so that somebody else can check them who has no ledger. No I/O.

That an entry is in the ledger: C2SP tlog-proof, with the entry in its ``extra`` line. That a ledger goes on where a
checkpoint has left it: the form in which C2SP tlog-witness asks for a signature under a checkpoint.

    ProofError, CheckpointError    text that is no proof, or proves nothing
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

import msgspec

from kubevouch.ledger import checkpoints, proofs
from kubevouch.ledger.checkpoints import Checkpoint, VerifierKey
from kubevouch.ledger.entries import MAX_ENTRY_BYTES, Entry, decode
from kubevouch.ledger.proofs import ProofError

HEADER = "c2sp.org/tlog-proof@v1"
MAX_BYTES = 2 * MAX_ENTRY_BYTES + checkpoints.MAX_BYTES
_EXTRA, _INDEX, _OLD = "extra ", "index ", "old "
_MOST_HASHES = 64


class Inclusion(msgspec.Struct, frozen=True):
    """What a proof of inclusion shows."""

    sequence: int
    entry: Entry
    checkpoint: Checkpoint


class Consistency(msgspec.Struct, frozen=True):
    """What a proof of consistency shows: ``later`` begins with all of ``former``."""

    former: Checkpoint
    later: Checkpoint


def inclusion_text(body: bytes, sequence: int, path: Sequence[bytes], note: str) -> str:
    return "\n".join((HEADER, f"{_EXTRA}{_encoded(body)}", f"{_INDEX}{sequence}", *map(_encoded, path), "", note))


def consistency_text(former: int, path: Sequence[bytes], note: str) -> str:
    return "\n".join((f"{_OLD}{former}", *map(_encoded, path), "", note))


def is_consistency(text: str) -> bool:
    return text.startswith(_OLD)


def verified_inclusion(text: str, key: VerifierKey) -> Inclusion:
    """What ``text`` shows, if ``key`` has signed its checkpoint."""
    lines, note = _taken_apart(text)
    if len(lines) < 3 or lines[0] != HEADER or not lines[1].startswith(_EXTRA) or not lines[2].startswith(_INDEX):
        raise ProofError(f"got text that is no proof, expected {HEADER}, an extra line with the entry, and an index")
    body, sequence = _decoded(lines[1].removeprefix(_EXTRA)), _number(lines[2].removeprefix(_INDEX))
    checkpoint = checkpoints.verified(note, key)
    path = [_decoded(line) for line in lines[3:]]
    proofs.verify_inclusion(proofs.leaf_hash(body), sequence, checkpoint.size, path, checkpoint.root)
    try:
        return Inclusion(sequence, decode(body), checkpoint)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ProofError(f"the proof is about something that is no entry: {error}") from error


def verified_consistency(text: str, key: VerifierKey, former: Checkpoint) -> Consistency:
    """What ``text`` shows of ``former``, which was verified before."""
    lines, note = _taken_apart(text)
    size = _number(lines[0].removeprefix(_OLD)) if lines and is_consistency(lines[0]) else -1
    if size != former.size:
        raise ProofError(f"got a proof about a checkpoint of {size} entries, expected one about {former.size}")
    later = checkpoints.verified(note, key)
    path = [_decoded(line) for line in lines[1:]]
    proofs.verify_consistency(former.size, former.root, later.size, later.root, path)
    return Consistency(former, later)


def _taken_apart(text: str) -> tuple[list[str], str]:
    proof, blank, note = text[:MAX_BYTES].partition("\n\n")
    lines = proof.split("\n")
    if not blank or len(lines) > _MOST_HASHES + 3:
        raise ProofError("got text that is no proof, expected its lines, a blank one, and a checkpoint")
    return lines, note


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 18 or str(int(text)) != text:
        raise ProofError(f"got {text[:40]!r}, expected a number")
    return int(text)


def _encoded(octets: bytes) -> str:
    return base64.b64encode(octets).decode()


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text.encode(), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ProofError(f"got {text[:40]!r}, expected base64") from error
