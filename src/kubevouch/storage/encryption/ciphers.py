"""The providers whose keys stand in the configuration: aesgcm, aescbc, secretbox, and identity.

Formats and texts: k8s.io/apiserver/pkg/storage/value/encrypt/{aes,secretbox,identity} (Kubernetes 1.36).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher as BlockCipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC

from kubevouch.machinery.codec.encrypted_values import ENCRYPTED
from kubevouch.storage.encryption.interface import Read, TransformError, aggregate

GCM_NONCE_BYTES = 12
_BLOCK_BYTES = 16
_SECRETBOX_NONCE_BYTES = 24
_SECRETBOX_TAG_BYTES = 16
TOO_SHORT = "the stored data was shorter than the required size"


class KeyCipher(Protocol):
    """Encrypts with one key."""

    def decrypt(self, body: bytes, associated: bytes) -> bytes:
        """Raises ``TransformError``."""
        ...

    def encrypt(self, plain: bytes, associated: bytes) -> bytes: ...


class GCMCipher:
    """AES-GCM; a random nonce stands in front. The key under which a value lies is authenticated with it, so that
    nobody moves a value to another key. A key is good for 2³² values (NIST SP 800-38D, 8.3)."""

    def __init__(self, key: bytes) -> None:
        self._aead = AESGCM(key)

    def decrypt(self, body: bytes, associated: bytes) -> bytes:
        if len(body) < GCM_NONCE_BYTES:
            raise TransformError(TOO_SHORT)
        try:
            return self._aead.decrypt(body[:GCM_NONCE_BYTES], body[GCM_NONCE_BYTES:], associated)
        except InvalidTag:
            raise TransformError("cipher: message authentication failed") from None

    def encrypt(self, plain: bytes, associated: bytes) -> bytes:
        nonce = os.urandom(GCM_NONCE_BYTES)
        return nonce + self._aead.encrypt(nonce, plain, associated)


class CBCCipher:
    """AES-CBC with PKCS#7 padding, behind its IV. Nothing is authenticated: it is there for what was written so."""

    def __init__(self, key: bytes) -> None:
        self._algorithm = AES(key)

    def decrypt(self, body: bytes, associated: bytes) -> bytes:  # noqa: ARG002 - not authenticated
        if len(body) < _BLOCK_BYTES:
            raise TransformError(TOO_SHORT)
        if len(body) % _BLOCK_BYTES:
            raise TransformError("the stored data is not a multiple of the block size")
        decryptor = BlockCipher(self._algorithm, CBC(body[:_BLOCK_BYTES])).decryptor()
        padded = decryptor.update(body[_BLOCK_BYTES:]) + decryptor.finalize()
        size = padded[-1] if padded else 0
        # More than a block is padding too where Kubernetes reads.
        if not 0 < size <= len(padded):
            raise TransformError("invalid PKCS7 data (empty or not padded)")
        if padded[-size:] != bytes((size,)) * size:
            raise TransformError("invalid padding on input")
        return padded[:-size]

    def encrypt(self, plain: bytes, associated: bytes) -> bytes:  # noqa: ARG002 - not authenticated
        size = _BLOCK_BYTES - len(plain) % _BLOCK_BYTES
        iv = os.urandom(_BLOCK_BYTES)
        encryptor = BlockCipher(self._algorithm, CBC(iv)).encryptor()
        return iv + encryptor.update(plain + bytes((size,)) * size) + encryptor.finalize()


class SecretboxUnavailable(Exception):
    """The library is not installed."""

    def __init__(self) -> None:
        super().__init__("the provider secretbox needs the extra: pip install 'kubevouch[encryption]'")


class SecretboxCipher:
    """XSalsa20 and Poly1305, the tag in front, behind a random nonce. Under which key a value lies is not
    authenticated."""

    def __init__(self, key: bytes) -> None:
        """Raises ``SecretboxUnavailable``."""
        try:
            from nacl import bindings, exceptions  # 60 ms, for those who have it configured
        except ImportError as err:
            raise SecretboxUnavailable from err
        self._key = key
        self._open: Callable[[bytes, bytes, bytes], bytes] = bindings.crypto_secretbox_open
        self._seal: Callable[[bytes, bytes, bytes], bytes] = bindings.crypto_secretbox
        self._error: type[Exception] = exceptions.CryptoError

    def decrypt(self, body: bytes, associated: bytes) -> bytes:  # noqa: ARG002 - not authenticated
        if len(body) < _SECRETBOX_NONCE_BYTES + _SECRETBOX_TAG_BYTES:
            raise TransformError(TOO_SHORT)
        try:
            return self._open(body[_SECRETBOX_NONCE_BYTES:], body[:_SECRETBOX_NONCE_BYTES], self._key)
        except self._error:
            raise TransformError("output array was not large enough for encryption") from None

    def encrypt(self, plain: bytes, associated: bytes) -> bytes:  # noqa: ARG002 - not authenticated
        nonce = os.urandom(_SECRETBOX_NONCE_BYTES)
        return nonce + self._seal(plain, nonce, self._key)


class KeyedProvider:
    """Keys by name: the first one encrypts, those of the same name as a value's decrypt.

    Args:
        prefix: of all its values; the name of the key and a colon follow.
        keys: in the configuration's order.
        family: AES or Secretbox, for the error text.
    """

    def __init__(self, prefix: bytes, keys: Sequence[tuple[str, KeyCipher]], family: str) -> None:
        self.prefix = prefix
        self._keys = [(f"{name}:".encode(), cipher) for name, cipher in keys]
        self._family = family

    def read(self, body: bytes, key: bytes) -> Read:
        errors: list[TransformError] = []
        for at, (name, cipher) in enumerate(self._keys):
            if body.startswith(name):
                try:
                    return Read(cipher.decrypt(body[len(name) :], key), at > 0)
                except TransformError as err:
                    errors.append(err)
        if not errors:
            raise TransformError(f"no matching key was found for the provided {self._family} transformer")
        raise TransformError(aggregate(errors))

    def write(self, plain: bytes, key: bytes) -> bytes:
        name, cipher = self._keys[0]
        return name + cipher.encrypt(plain, key)


class IdentityProvider:
    """As it is. What is encrypted it does not take for a value."""

    prefix = b""

    def read(self, body: bytes, key: bytes) -> Read:  # noqa: ARG002 - a provider's
        if body.startswith(ENCRYPTED):
            raise TransformError("identity transformer tried to read encrypted data")
        return Read(body, stale=False)

    def write(self, plain: bytes, key: bytes) -> bytes:  # noqa: ARG002 - a provider's
        return plain


_CIPHERS: dict[str, tuple[Callable[[bytes], Any], str]] = {
    "aesgcm": (GCMCipher, "AES"),
    "aescbc": (CBCCipher, "AES"),
    "secretbox": (SecretboxCipher, "Secretbox"),
}


def keyed(kind: str, keys: Sequence[tuple[str, bytes]]) -> KeyedProvider:
    """The provider ``aesgcm``, ``aescbc`` or ``secretbox`` with keys by name.

    Raises:
        SecretboxUnavailable
    """
    cipher, family = _CIPHERS[kind]
    return KeyedProvider(f"k8s:enc:{kind}:v1:".encode(), [(name, cipher(key)) for name, key in keys], family)
