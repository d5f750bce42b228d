"""What a copy of a store ends with.

StoreError
└── CopyError            ``hint`` says what to do
    ├── NotFree          what is at the destination is not to be replaced
    └── Unfinished       a store that a copy was being made to, opened for something else
"""

from __future__ import annotations

from kubevouch.storage.interface import StoreError


class CopyError(StoreError):
    """Base of what ends a copy."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class NotFree(CopyError):
    """The destination holds something. Nothing was changed."""


class Unfinished(CopyError):
    """The store has some of the keys of another one, and nobody knows which."""
