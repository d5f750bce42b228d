"""The narrow store: keys, values, revisions.

Every implementation passes the one behaviour suite in ``kubevouch.testing.store_suite``. The model is etcd's: one
counter for the whole store, each write makes one revision, a key remembers the revision of its last write.

    StoreError
    ├── KeyExists          create of a key that is there
    ├── RevisionConflict   update or delete of a key that is absent or has moved on
    ├── Compacted          a revision that is no longer kept
    ├── FutureRevision     a revision that does not exist yet
    ├── ValueTooLarge      a value over the limit
    ├── EncryptionFailed   a value that cannot be encrypted as it has to be
    └── StoreUnavailable   the medium failed (disk full, connection lost) or the store is closed
        ├── StoreTimeout   nobody answered in time
        ├── StoreRefused   a store that many share said why not
        ├── StoreDamaged   what is stored is not what was written, or not a store of ours
        └── StoreInUse     another process has the store open

Keys are text without NUL that UTF-8 can encode; anything else is a ``ValueError``, as are a negative limit and a
time to live that is not positive. Byte order of keys is the order in which Python compares them: UTF-8 keeps the
order of code points.

There is no second, synchronous way to learn of writes. The watch cache lives in the same loop and reads ``watch``: with
the embedded stores a task that waits for the next event runs before the one that made the write (measured by
``benchmarks/store.py``), so a callback would gain nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NewType, Protocol, runtime_checkable

import msgspec

Revision = NewType("Revision", int)

MAX_VALUE_BYTES = 1_572_864  # etcd's default request limit, 1.5 MiB


class StoreError(Exception):
    """Base of what a store raises."""


class KeyExists(StoreError):
    """A create found the key; ``key`` says which."""

    def __init__(self, key: str) -> None:
        super().__init__(f"key exists: {key}")
        self.key = key


class KeyValue(msgspec.Struct, frozen=True):
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


class EncryptionFailed(StoreError):
    """The value cannot be encrypted as the configuration wants it, and was not written. The text is Kubernetes'."""


class StoreUnavailable(StoreError):
    """The medium failed, or the store is closed. The write was not acknowledged; it may or may not be there.

    Whoever gets this from a write and has to know reads the key again. The store goes on: it serves reads as far as
    the medium does, and writes again as soon as it can.

    The text is for those who run the server, and names its files. ``got`` is what was found, without them.
    """

    def __init__(self, message: str, got: str = "") -> None:
        super().__init__(message)
        self.got = got


class StoreTimeout(StoreUnavailable):
    """Nobody answered in time."""


class StoreRefused(StoreUnavailable):
    """A store that is elsewhere said why not; ``got`` is its text, in which nothing is secret."""


class StoreDamaged(StoreUnavailable):
    """What lies on the medium is not what was written there, or not a store of ours. Nothing was changed."""


class StoreInUse(StoreUnavailable):
    """Another process, or another store in this one, has the medium open; two would undo each other's work."""


class Page(msgspec.Struct, frozen=True):
    """What a list returns: key/values in byte order of their keys, as they were at ``revision``.

    ``more`` says that the limit cut it short; ``total`` counts all keys under the prefix from ``start`` on.
    """

    items: list[KeyValue]
    revision: Revision
    more: bool
    total: int


class StoreEvent(msgspec.Struct, frozen=True):
    """One write as a watcher sees it.

    ``value`` is None for a deletion; ``previous`` is what the key held before, None if it was absent. A key whose
    time to live is over is deleted by the store in just the same way.

    Where others write to the same medium, several events may have one revision (keys that shared a time to live end at
    once), and an event without a key (:meth:`progress`) tells that a revision brought nothing under the prefix.
    """

    key: str
    revision: Revision
    value: bytes | None
    previous: KeyValue | None

    @classmethod
    def progress(cls, revision: Revision) -> StoreEvent:
        """No write: every write up to ``revision`` has been delivered."""
        return cls("", revision, None, None)

    @property
    def is_progress(self) -> bool:
        return not self.key


EventBatch = list[StoreEvent]
"""Events in the order of their revisions, at least one; all of a revision together. Watches share it: it is not to be
changed."""


@runtime_checkable
class Sized(Protocol):
    """A store that knows how much of a disk it takes."""

    def size(self) -> int:
        """Bytes."""
        ...


@runtime_checkable
class Probed(Protocol):
    """A store that can say whether it still does its work."""

    def expect_running(self) -> None:
        """Raises StoreUnavailable if it is closed or has stopped: only opening it again helps."""
        ...

    async def expect_writable(self) -> None:
        """Raises StoreUnavailable unless a write works now, or has a moment ago."""
        ...


@runtime_checkable
class Placed(Protocol):
    """A store with files that somebody may delete, move or replace while it has them open."""

    def expect_in_place(self) -> None:
        """Raises StoreUnavailable unless all of them are where they were opened; may be called in any thread."""
        ...

    def doubt(self) -> None:
        """The disk may be full: what a write has shown lately counts no more."""
        ...


@runtime_checkable
class Layered(Protocol):
    """A store that passes on to another what it does not do itself."""

    @property
    def beneath(self) -> Store: ...


def lowest(store: Store) -> Store:
    """The store that has the medium: what it can do besides (``Sized``, ``Probed``) is not in those above it."""
    while isinstance(store, Layered):
        store = store.beneath
    return store


@runtime_checkable
class Encrypting(Protocol):
    """A store whose values may be stored in another way than they would be now."""

    async def is_stale(self, key: str) -> bool:
        """Whether the key is to be written again even though its value stays the same."""
        ...


class Store(Protocol):
    """Keys, values and revisions. Safe for concurrent use from one event loop.

    A write whose caller is cancelled while it waits is still carried out, or not at all, never by half. Every call
    after ``close`` raises StoreUnavailable.
    """

    async def get(self, key: str) -> KeyValue | None:
        """The key as it is now, or None."""
        ...

    async def list(self, prefix: str, *, start: str = "", limit: int = 0, revision: Revision | None = None) -> Page:
        """All keys that begin with ``prefix`` and are not below ``start``, at most ``limit`` (0 means all).

        ``revision`` None reads now; otherwise the state right after that revision. Reading now is never older than a
        write that has returned. ``start`` need not be a key: the last key of a page with a NUL after it goes on there.

        Raises:
            Compacted: that state is no longer kept.
            FutureRevision: there is no such revision yet.
        """
        ...

    async def create(self, key: str, value: bytes, *, ttl: float | None = None) -> Revision:
        """Write a key that must be absent; ``ttl`` seconds later the store deletes it by itself.

        Returns when the write is durable. The embedded stores have put its event into every running watch by then;
        etcd's may follow a moment later. A ``ttl`` goes on while the store is closed: what became due then is deleted
        when it opens.

        Raises:
            KeyExists, ValueTooLarge, StoreUnavailable
        """
        ...

    async def update(self, key: str, value: bytes, expected: Revision, *, ttl: float | None = None) -> Revision:
        """Write a key that must be at revision ``expected``. Without a ``ttl`` the key no longer has one.

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

        Every write is delivered exactly once. Closing the iterator (``aclose``) ends the watch. Cancelling a wait for
        the next batch does not: the next wait goes on where the last batch ended. ``after`` may lie in the future; the
        writes up to there are then left out. One task at a time may wait.

        A watch keeps a bounded number of events for a slow reader; beyond that it reads on from what is stored.

        Raises (from the iterator):
            Compacted: ``after`` is below what is kept, or the watcher fell behind a compaction.
            StoreUnavailable: the events could not be read back; the watch is over.
        """
        ...

    async def compact(self, revision: Revision) -> None:
        """Forget what only states before ``revision`` need. Works in small steps and holds nobody up.

        Afterwards ``revision`` is the oldest state that can be read, and the oldest a watch can start after. A revision
        that is compacted already changes nothing.

        Raises:
            FutureRevision, StoreUnavailable
        """
        ...

    async def revision(self) -> Revision:
        """The revision of the newest acknowledged write; 1 for a new store, as in etcd.

        Every running watch soon reaches it, by an event of that revision or by one that tells of progress.
        """
        ...

    async def close(self) -> None:
        """Finish what was accepted, then release files and threads. Watches end."""
        ...
