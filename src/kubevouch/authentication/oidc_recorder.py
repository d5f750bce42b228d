"""What is counted of issuers."""

from __future__ import annotations

import datetime as dt
from typing import Protocol


class IssuerRecorder(Protocol):
    """Told what issuers' tokens and keys came to; ``issuer`` is its URL."""

    def authenticated(self, issuer: str, seconds: float, *, failed: bool) -> None:
        """A token that names the issuer was looked at."""
        ...

    def keys_fetched(self, issuer: str, keys: bytes | None, now: dt.datetime) -> None:
        """The key set as it came, or None if it could not be fetched."""
        ...

    def forget(self, issuer: str) -> None:
        """It is no longer configured."""
        ...


class Unrecorded:
    """An :class:`IssuerRecorder` that counts nothing."""

    def authenticated(self, issuer: str, seconds: float, *, failed: bool) -> None:
        pass

    def keys_fetched(self, issuer: str, keys: bytes | None, now: dt.datetime) -> None:
        pass

    def forget(self, issuer: str) -> None:
        pass
