"""The certificate key, under which control planes share their CA keys (kubeadm ``upload-certs``, 1.36).

A value is a nonce of 12 octets, the AES-256-GCM ciphertext without additional data, and its tag of 16.
"""

from __future__ import annotations

import re
import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from kubevouch.pki.errors import KeyMaterialError

KEY_SIZE = 32
_NONCE_SIZE = 12
_HEX = re.compile(r"[0-9a-fA-F]*")


def generate() -> str:
    """A new key in 64 lower-case hexadecimal digits."""
    return secrets.token_hex(KEY_SIZE)


def parse(text: str) -> bytes:
    """Raises :class:`KeyMaterialError`; the text is not in it."""
    if not _HEX.fullmatch(text) or len(text) != 2 * KEY_SIZE:
        raise KeyMaterialError(f"the certificate key has {len(text)} characters, expected 64 hexadecimal digits")
    return bytes.fromhex(text)


def encrypt(key: bytes, plain: bytes, nonce: bytes | None = None) -> bytes:
    """``nonce`` is for tests; a real one is random."""
    nonce = secrets.token_bytes(_NONCE_SIZE) if nonce is None else nonce
    return nonce + AESGCM(key).encrypt(nonce, plain, None)


def decrypt(key: bytes, value: bytes) -> bytes:
    """Raises :class:`KeyMaterialError` for another key or a value that was changed."""
    try:
        return AESGCM(key).decrypt(value[:_NONCE_SIZE], value[_NONCE_SIZE:], None)
    except (InvalidTag, ValueError) as err:
        raise KeyMaterialError("the certificate key is not the one that this was encrypted with") from err
