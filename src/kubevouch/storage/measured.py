"""A store that says how long each call took."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from typing import Protocol, TypeVar

from kubevouch.storage.compactor import RevisionBytes
from kubevouch.storage.interface import (
    Encrypting,
    EventBatch,
    KeyValue,
    Page,
    Revision,
    Store,
    StoreUnavailable,
    ValueTooLarge,
)
from kubevouch.util.clock import Clock

T = TypeVar("T")


class StoreRecorder(Protocol):
    """Where a :class:`MeasuredStore` reports."""

    def call(self, operation: str, key: str, seconds: float, *, failed: bool) -> None:
        """``operation`` is get, list, create, update or delete; ``failed``: the store could not do it.

        A key that is missing, there already or at another revision is an answer, no failure.
        """
        ...


class MeasuredStore:
    """A ``Store`` over another.

    Args:
        revisions: is told what is written.
    """

    def __init__(
        self, store: Store, clock: Clock, recorder: StoreRecorder, revisions: RevisionBytes | None = None
    ) -> None:
        self._store = store
        self._clock = clock
        self._recorder = recorder
        self._revisions = revisions or RevisionBytes()

    async def _timed(self, operation: str, key: str, call: Awaitable[T]) -> T:
        begun = self._clock.monotonic()
        failed = False
        try:
            return await call
        except (StoreUnavailable, ValueTooLarge):
            failed = True
            raise
        finally:
            self._recorder.call(operation, key, self._clock.monotonic() - begun, failed=failed)

    async def get(self, key: str) -> KeyValue | None:
        return await self._timed("get", key, self._store.get(key))

    async def list(self, prefix: str, *, start: str = "", limit: int = 0, revision: Revision | None = None) -> Page:
        return await self._timed("list", prefix, self._store.list(prefix, start=start, limit=limit, revision=revision))

    async def create(self, key: str, value: bytes, *, ttl: float | None = None) -> Revision:
        revision = await self._timed("create", key, self._store.create(key, value, ttl=ttl))
        self._revisions.wrote(revision, len(value))
        return revision

    async def update(self, key: str, value: bytes, expected: Revision, *, ttl: float | None = None) -> Revision:
        revision = await self._timed("update", key, self._store.update(key, value, expected, ttl=ttl))
        self._revisions.wrote(revision, len(value))
        return revision

    async def delete(self, key: str, expected: Revision) -> Revision:
        revision = await self._timed("delete", key, self._store.delete(key, expected))
        self._revisions.wrote(revision, 0)
        return revision

    def watch(self, prefix: str, after: Revision) -> AsyncIterator[EventBatch]:
        return self._store.watch(prefix, after)

    async def compact(self, revision: Revision) -> None:
        await self._store.compact(revision)

    async def revision(self) -> Revision:
        return await self._store.revision()

    async def is_stale(self, key: str) -> bool:
        return isinstance(self._store, Encrypting) and await self._store.is_stale(key)

    async def close(self) -> None:
        await self._store.close()
