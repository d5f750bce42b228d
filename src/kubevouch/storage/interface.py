"""The narrow store: keys, values, revisions.

Every implementation passes the one behaviour suite in ``kubevouch.testing.store_suite``. The model is etcd's: one
counter for the whole store, each write makes one revision, a key remembers the revision of its last write.

    StoreError
    ├── KeyExists          create of a key that is there
    ├── RevisionConflict   update or delete of a key that is absent or has moved on
    ├── Compacted          a revision that is no longer kept
    ├── FutureRevision     a revision that does not exist yet
    ├── ValueTooLarge      a value over the limit
    └── StoreUnavailable   the medium failed (disk full, connection lost); nothing was acknowledged
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import NewType, Protocol

Revision = NewType("Revision", int)

MAX_VALUE_BYTES = 1_572_864  # etcd's default request limit, 1.5 MiB


class StoreError(Exception):
    """Base of what a store raises."""


class KeyExists(StoreError):
    """A create found the key; ``key`` says which."""

    def __init__(self, key: str) -> None:
        super().__init__(f"key exists: {key}")
        self.key = key


@dataclass(frozen=True, slots=True)
class KeyValue:
    """One key at one moment: ``revision`` is that of the write that gave it ``value``."""

    key: str
    value: bytes
    revision: Revision


class RevisionConflict(StoreError):
    """The key is not at the expected revision; ``current`` is what is there now, or None."""

    def __init__(self, key: str, current: KeyValue | None) -> None:
        super().__init__(f"revision conflict: {key}")
        self.key = key
        self.current = current


class Compacted(StoreError):
    """The revision is older than what the store keeps; ``oldest`` is the first one that can still be read."""

    def __init__(self, asked: Revision, oldest: Revision) -> None:
        super().__init__(f"revision {asked} is compacted, the oldest is {oldest}")
        self.asked = asked
        self.oldest = oldest


class FutureRevision(StoreError):
    """The revision has not been written yet."""

    def __init__(self, asked: Revision, current: Revision) -> None:
        super().__init__(f"revision {asked} is in the future, the current one is {current}")
        self.asked = asked
        self.current = current


class ValueTooLarge(StoreError):
    """The value is over ``MAX_VALUE_BYTES``."""


class StoreUnavailable(StoreError):
    """The medium failed. The write was not acknowledged; it may or may not be there."""


@dataclass(frozen=True, slots=True)
class Page:
    """What a list returns: key/values in byte order of their keys, as they were at ``revision``.

    ``more`` says that the limit cut it short; ``total`` counts all keys under the prefix from ``start`` on.
    """

    items: list[KeyValue]
    revision: Revision
    more: bool
    total: int


@dataclass(frozen=True, slots=True)
class StoreEvent:
    """One write as a watcher sees it.

    ``value`` is None for a deletion; ``previous`` is what the key held before, None if it was absent.
    """

    key: str
    revision: Revision
    value: bytes | None
    previous: KeyValue | None


EventBatch = list[StoreEvent]


class Store(Protocol):
    """Keys, values and revisions. Safe for concurrent use from one event loop."""

    async def get(self, key: str) -> KeyValue | None:
        """The key as it is now, or None."""
        ...

    async def list(self, prefix: str, *, start: str = "", limit: int = 0, revision: Revision | None = None) -> Page:
        """All keys that begin with ``prefix`` and are not below ``start``, at most ``limit`` (0 means all).

        ``revision`` None reads now; otherwise the state right after that revision.

        Raises:
            Compacted: that state is no longer kept.
            FutureRevision: there is no such revision yet.
        """
        ...

    async def create(self, key: str, value: bytes, *, ttl: float | None = None) -> Revision:
        """Write a key that must be absent; ``ttl`` seconds later the store deletes it by itself.

        Returns when the write is durable.

        Raises:
            KeyExists, ValueTooLarge, StoreUnavailable
        """
        ...

    async def update(self, key: str, value: bytes, expected: Revision, *, ttl: float | None = None) -> Revision:
        """Write a key that must be at revision ``expected``.

        Raises:
            RevisionConflict, ValueTooLarge, StoreUnavailable
        """
        ...

    async def delete(self, key: str, expected: Revision) -> Revision:
        """Delete a key that must be at revision ``expected``; the deletion has a revision of its own.

        Raises:
            RevisionConflict, StoreUnavailable
        """
        ...

    def watch(self, prefix: str, after: Revision) -> AsyncIterator[EventBatch]:
        """The writes under ``prefix`` with revisions above ``after``, in order, in batches as they come, for ever.

        Every write is delivered exactly once. Closing the iterator (``aclose``) ends the watch.

        Raises (from the iterator):
            Compacted: ``after`` is below what is kept, or the watcher fell behind a compaction.
        """
        ...

    async def compact(self, revision: Revision) -> None:
        """Forget what only states before ``revision`` need. Works in small steps and holds nobody up."""
        ...

    async def revision(self) -> Revision:
        """The revision of the newest acknowledged write; 1 for a new store, as in etcd."""
        ...

    async def close(self) -> None:
        """Finish what was accepted, then release files and threads. Watches end."""
        ...
