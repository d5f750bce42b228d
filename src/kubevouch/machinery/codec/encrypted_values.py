"""Stored values that are encrypted: no codec reads them.

A store that encrypts hands on what it can read. In the place of what it cannot stands a sentence that says why: a value
of its own form, so that it passes through whatever lies between, is never taken for an object, and does not keep the
values beside it from being read.

    EncryptedValueError     the value is encrypted; ``str()`` says in Kubernetes' words why that could not be undone
"""

from __future__ import annotations

ENCRYPTED = b"k8s:enc:"
"""What every encrypted value begins with, and no other (k8s.io/apiserver/pkg/storage/value/encrypt/identity)."""

_UNREADABLE = ENCRYPTED + b"unreadable:"
# What Kubernetes says where no provider is configured.
_NO_PROVIDER = "identity transformer tried to read encrypted data"


class EncryptedValueError(ValueError):
    """The value is encrypted."""


def unreadable(why: str) -> bytes:
    """What stands in the place of a value that could not be decrypted."""
    return _UNREADABLE + why.encode()


def expect_plain(value: bytes) -> None:
    """Raises ``EncryptedValueError`` for a value that is still encrypted."""
    if value.startswith(ENCRYPTED):
        why = value[len(_UNREADABLE) :].decode("utf-8", "replace") if value.startswith(_UNREADABLE) else _NO_PROVIDER
        raise EncryptedValueError(why)
