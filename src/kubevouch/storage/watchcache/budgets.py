"""How much memory the caches of one server take, counted in bytes of stored values and of encodings.

An object of 1.4 MB takes as much room as five hundred CertificateSigningRequests. Numbers of events and of objects are
therefore no bound: one node that wrote its own status again and again once took 2.4 GiB within 10,000 events.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

# Superseded values that watches can still start from, with what an event itself takes. Beyond it the cache with the
# largest history forgets its oldest events, so that one resource does not cost the others theirs.
HISTORY_BYTES = 32 << 20
# Of those, stored bytes of objects that are also kept decoded, for the watches that keep up: five times as much memory.
DECODED_BYTES = 2 << 20
# Encodings of current objects (JSON, protobuf, their metadata) that lists and watches share. Above 20,000 requests.
ENCODING_BYTES = 48 << 20
# An event, its key, what is known of it: besides the values.
EVENT_BYTES = 400


class Holder(Protocol):
    """A history: see :class:`kubevouch.storage.watchcache.history.History`."""

    bytes: int
    decoded_bytes: int

    def forget_oldest(self) -> None: ...

    def shrink_oldest(self) -> None: ...


class Budgets(msgspec.Struct):
    """What all caches of one server share."""

    history: int = HISTORY_BYTES
    decoded: int = DECODED_BYTES
    encodings: int = ENCODING_BYTES
    history_bytes: int = 0
    decoded_bytes: int = 0
    encoding_bytes: int = 0
    _histories: list[Holder] = msgspec.field(default_factory=list)
    # Large objects are encoded beside the event loop.
    _lock: threading.RLock = msgspec.field(default_factory=threading.RLock)
    # Objects by identity, the one that was encoded longest ago first; with the bytes of their encodings.
    _encoded: dict[Any, int] = msgspec.field(default_factory=dict)

    def join(self, history: Holder) -> None:
        self._histories.append(history)

    def leave(self, history: Holder) -> None:
        """``history`` is empty, and nobody fills it any more."""
        self._histories = [each for each in self._histories if each is not history]

    def settle(self) -> None:
        """After a history has grown."""
        while self.decoded_bytes > self.decoded:
            max(self._histories, key=_decoded_bytes).shrink_oldest()
        while self.history_bytes > self.history:
            max(self._histories, key=_bytes).forget_oldest()

    def encoded(self, stored: Any, size: int) -> None:
        """``stored`` has one more encoding. Those that were encoded longest ago give theirs back (``drop_encodings``).

        That may be ``stored`` itself, if it alone is above the budget.
        """
        with self._lock:
            self._encoded[stored] = self._encoded.pop(stored, 0) + size
            self.encoding_bytes += size
            while self.encoding_bytes > self.encodings:
                next(iter(self._encoded)).drop_encodings()

    def released(self, stored: Any) -> None:
        """``stored`` has no encodings any more."""
        with self._lock:
            self.encoding_bytes -= self._encoded.pop(stored, 0)


_bytes: Callable[[Holder], int] = lambda history: history.bytes  # noqa: E731
_decoded_bytes: Callable[[Holder], int] = lambda history: history.decoded_bytes  # noqa: E731
