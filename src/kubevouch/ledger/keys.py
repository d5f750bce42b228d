"""The key that signs a ledger's checkpoints: made where it is used, and readable by its user alone."""

from __future__ import annotations

from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from kubevouch.ledger.interface import LedgerDamaged, LedgerUnavailable
from kubevouch.util import files

MOST_BYTES = 16 << 10


def key_of(path: Path) -> Path:
    """Where the key of the ledger at ``path`` is."""
    return path.with_name(f"{path.stem}.key")


def make_key(path: Path) -> Ed25519PrivateKey:
    """A key for a ledger that is made at ``path``; one that lies there is used. Raises OSError, LedgerError."""
    try:
        return read_key(path)
    except FileNotFoundError:
        key = Ed25519PrivateKey.generate()
        text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        files.write_atomically(key_of(path), text)
        return key


def read_key(path: Path) -> Ed25519PrivateKey:
    """The key of the ledger at ``path``.

    Raises:
        FileNotFoundError: there is none.
        LedgerDamaged, LedgerUnavailable: what is there is no such key, or others may have read it.
        OSError
    """
    where = key_of(path)
    try:
        key = load_pem_private_key(files.read_private(where, MOST_BYTES), None)
    except files.UnsafeFileError as err:
        raise LedgerUnavailable(f"{where}: {err}; {err.hint}") from err
    except (ValueError, TypeError, UnsupportedAlgorithm) as err:
        raise LedgerDamaged(f"{where}: got no private key in PEM, expected that of the ledger; restore it") from err
    if not isinstance(key, Ed25519PrivateKey):
        raise LedgerDamaged(f"{where}: got a key of another kind, expected Ed25519; restore it")
    return key
