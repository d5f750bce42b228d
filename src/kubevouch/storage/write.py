"""What is the same for every store: which writes and reads are well formed, and which writes the state allows."""

from __future__ import annotations

import datetime as dt
from typing import NamedTuple

from kubevouch.storage.interface import (
    MAX_VALUE_BYTES,
    KeyExists,
    KeyValue,
    Revision,
    RevisionConflict,
    StoreError,
    ValueTooLarge,
)
from kubevouch.util.clock import Clock

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)

FIRST_REVISION = Revision(1)
"""The revision of a store in which nothing was written yet, as in etcd."""

MAX_REVISION = Revision(1 << 62)
"""What a copy goes on above is no more: they are 64 bits with a sign, and writes come behind it."""


class Write(NamedTuple):
    """One create, update or delete that a store is asked for.

    ``value`` None deletes. ``expected`` None wants the key absent. ``expires`` is in microseconds since 1970.
    """

    key: str
    value: bytes | None
    expected: Revision | None
    expires: int | None = None


def refusal(write: Write, current: KeyValue | None) -> StoreError | None:
    """Why ``write`` must not happen to a key that holds ``current``, or None if it may."""
    if write.expected is None:
        return None if current is None else KeyExists(write.key)
    if current is None or current.revision != write.expected:
        return RevisionConflict(write.key, current)
    return None


def check_key(key: str) -> None:
    """Raises ValueError unless every store can hold ``key``."""
    if not key or "\x00" in key:
        raise ValueError(f"got the key {key!r}, expected text without NUL that is not empty")
    check_text(key)


def check_text(text: str) -> None:
    """Raises ValueError (UnicodeEncodeError) for text that UTF-8 has no bytes for: lone surrogates."""
    if not text.isascii():
        text.encode()


def check_value(key: str, value: bytes) -> None:
    """Raises ValueTooLarge."""
    if len(value) > MAX_VALUE_BYTES:
        raise ValueTooLarge(f"{key}: got a value of {len(value)} bytes, expected at most {MAX_VALUE_BYTES}")


def check_ttl(ttl: float | None) -> None:
    if ttl is not None and not 0 < ttl < float("inf"):
        raise ValueError(f"got a time to live of {ttl} s, expected a finite one above 0")


def check_limit(limit: int) -> None:
    if limit < 0:
        raise ValueError(f"got the limit {limit}, expected 0 for no limit, or more")


def microseconds(clock: Clock) -> int:
    """The wall clock in microseconds since 1970: whole numbers, so that a key is due exactly when it is said to be."""
    return (clock.now() - _EPOCH) // _MICROSECOND


def expiry(clock: Clock, ttl: float | None) -> int | None:
    """When a key written now with ``ttl`` seconds to live is due, in microseconds since 1970."""
    check_ttl(ttl)
    if ttl is None:
        return None
    return microseconds(clock) + round(ttl * 1_000_000)


def prefix_end(prefix: str) -> str | None:
    """The least key above all keys that begin with ``prefix``; None if there is none.

    It is the last code point counted up by one. Surrogates are skipped, for no key has them.
    """
    stem = prefix.rstrip("\U0010ffff")
    if not stem:
        return None
    following = ord(stem[-1]) + 1
    return stem[:-1] + chr(0xE000 if following == 0xD800 else following)
