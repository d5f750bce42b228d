"""Checkpoints: how many entries a ledger has, and the root over them, under a signature. No I/O.

The form is that of other transparency logs, so that their tools read it: C2SP tlog-checkpoint in a signed note with
Ed25519 (C2SP signed-note; golang.org/x/mod/sumdb/note). A line of ours behind the root says what it is for and when it
was made, for a state of the file (``head``) must not be passed off as one that was published (``checkpoint``).

    CheckpointError    text that is no checkpoint, or not one that this key signed
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import hashlib
from collections.abc import Sequence

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

HEAD, CHECKPOINT = "head", "checkpoint"
MAX_BYTES = 64 << 10
"""Of a note. Ours have 300; witnesses may put a signature each behind it."""

_ED25519 = b"\x01"
_SIGNATURE = "— "


class CheckpointError(ValueError):
    """Text that is no checkpoint, or not one that this key signed."""


class Checkpoint(msgspec.Struct, frozen=True):
    """What a ledger of this origin was. ``extensions`` are the lines behind the root."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    @property
    def purpose(self) -> str:
        """``head`` or ``checkpoint``; empty in what others made."""
        return self.extensions[0].partition(" ")[0] if self.extensions else ""

    @property
    def at(self) -> str:
        """When it was made, RFC 3339."""
        return self.extensions[0].partition(" ")[2] if self.extensions else ""

    def text(self) -> str:
        """What is signed."""
        root = base64.b64encode(self.root).decode()
        return "".join(f"{line}\n" for line in (self.origin, self.size, root, *self.extensions))


def checkpoint_of(origin: str, size: int, root: bytes, purpose: str, at: dt.datetime, *more: str) -> Checkpoint:
    """``more``: further lines."""
    moment = at.astimezone(dt.UTC).replace(microsecond=0, tzinfo=None).isoformat()
    return Checkpoint(origin, size, root, (f"{purpose} {moment}Z", *more))


def summary(notes: Sequence[str]) -> str:
    """A line of the head: which checkpoints were signed, so that none is taken away unseen."""
    digest = hashlib.sha256()
    for note in notes:
        digest.update(hashlib.sha256(note.encode()).digest())
    return f"checkpoints {len(notes)} {base64.b64encode(digest.digest()).decode()}"


class VerifierKey(msgspec.Struct, frozen=True):
    """Whose checkpoints are believed: a name and an Ed25519 key, written ``NAME+HASH+KEY``."""

    name: str
    public: bytes

    @property
    def hint(self) -> bytes:
        return hashlib.sha256(self.name.encode() + b"\n" + _ED25519 + self.public).digest()[:4]

    def __str__(self) -> str:
        return f"{self.name}+{self.hint.hex()}+{base64.b64encode(_ED25519 + self.public).decode()}"


def parse_key(text: str) -> VerifierKey:
    """Raises CheckpointError."""
    name, _, rest = text.strip().partition("+")
    hint, _, encoded = rest.partition("+")
    octets = _base64(encoded)
    if not name or len(octets) != 33 or octets[:1] != _ED25519:
        raise CheckpointError(f"got {text[:80]!r}, expected the key of a ledger, NAME+HASH+KEY, for Ed25519")
    key = VerifierKey(name, octets[1:])
    if key.hint.hex() != hint:
        raise CheckpointError(f"got {text[:80]!r}, expected the hash {key.hint.hex()} of name and key in its middle")
    return key


def verifier_key(name: str, key: Ed25519PrivateKey) -> VerifierKey:
    return VerifierKey(name, key.public_key().public_bytes_raw())


def sign(text: str, name: str, key: Ed25519PrivateKey) -> str:
    """The signed note of ``text``, which ends with a newline."""
    signature = verifier_key(name, key).hint + key.sign(text.encode())
    return f"{text}\n{_SIGNATURE}{name} {base64.b64encode(signature).decode()}\n"


def verified(note: str, key: VerifierKey) -> Checkpoint:
    """The checkpoint in ``note``, which ``key`` signed, whoever else did.

    Raises:
        CheckpointError
    """
    text, signatures = _taken_apart(note)
    for line in signatures:
        name, _, encoded = line.removeprefix(_SIGNATURE).partition(" ")
        octets = _base64(encoded)
        if name != key.name or octets[:4] != key.hint:
            continue
        try:
            Ed25519PublicKey.from_public_bytes(key.public).verify(octets[4:], text.encode())
        except InvalidSignature as err:
            raise CheckpointError(f"the signature of {key.name} is not of this checkpoint") from err
        return _parsed(text)
    raise CheckpointError(f"got a checkpoint that {key.name} with the key {key.hint.hex()} has not signed")


def _taken_apart(note: str) -> tuple[str, list[str]]:
    text, blank, rest = note[:MAX_BYTES].rpartition("\n\n")
    lines = rest.split("\n")
    if not blank or lines.pop() or not lines or not all(line.startswith(_SIGNATURE) for line in lines):
        raise CheckpointError("got text that is no signed note, expected lines, a blank one, and lines of signatures")
    return f"{text}\n", lines


def _parsed(text: str) -> Checkpoint:
    lines = text.split("\n")[:-1]
    if len(lines) < 3 or not all(lines) or len(lines[1]) > 20:
        raise CheckpointError("got a note that is no checkpoint, expected an origin, a size, and a root")
    origin, size, root = lines[0], lines[1], _base64(lines[2])
    if not (size.isascii() and size.isdecimal()) or str(int(size)) != size or len(root) != 32:
        raise CheckpointError(f"got the size {size!r} and a root of {len(root)} bytes, expected a number and 32 bytes")
    return Checkpoint(origin, int(size), root, tuple(lines[3:]))


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text.encode(), validate=True)
    except (binascii.Error, ValueError):
        return b""
