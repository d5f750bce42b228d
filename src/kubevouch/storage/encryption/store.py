"""A store that encrypts what it hands to another, and decrypts what it gets from there.

Keys, revisions and times to live are that store's; only values change. A value that cannot be decrypted does not keep
the others from being read: in its place stands why (``machinery.codec.encrypted_values``).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from kubevouch.machinery.codec.encrypted_values import unreadable
from kubevouch.storage.encryption.encryption import Encryption
from kubevouch.storage.encryption.interface import TransformError
from kubevouch.storage.interface import (
    Compacted,
    EncryptionFailed,
    EventBatch,
    KeyValue,
    Page,
    Revision,
    RevisionConflict,
    Store,
    StoreEvent,
)
from kubevouch.util.logger import get_logger
from kubevouch.util.turns import pace

log = get_logger("storage.encryption")

# Values decrypted between two looks at the clock: a small one takes 5 µs.
_AT_ONCE = 32


class EncryptedStore:
    """A ``Store`` over another.

    A watch that has delivered values which could not be decrypted ends with ``Compacted`` as soon as they may have
    become readable, so that its reader begins anew from a list.
    """

    def __init__(self, store: Store, encryption: Encryption) -> None:
        self.beneath = store
        self.encryption = encryption
        self.unread: int | None = None
        """The epoch in which something was handed on that could not be decrypted; None if all could."""

    async def get(self, key: str) -> KeyValue | None:
        return await self._opened(await self.beneath.get(key))

    async def list(self, prefix: str, *, start: str = "", limit: int = 0, revision: Revision | None = None) -> Page:
        page = await self.beneath.list(prefix, start=start, limit=limit, revision=revision)
        items: list[KeyValue] = []
        for at, item in enumerate(page.items):
            if at % _AT_ONCE == 0:
                await pace().keep()
            opened = await self._opened(item)
            assert opened is not None  # it was there
            items.append(opened)
        return Page(items, page.revision, page.more, page.total)

    async def create(self, key: str, value: bytes, *, ttl: float | None = None) -> Revision:
        return await self.beneath.create(key, self._sealed(key, value), ttl=ttl)

    async def update(self, key: str, value: bytes, expected: Revision, *, ttl: float | None = None) -> Revision:
        try:
            return await self.beneath.update(key, self._sealed(key, value), expected, ttl=ttl)
        except RevisionConflict as err:
            raise RevisionConflict(key, await self._opened(err.current)) from err

    async def delete(self, key: str, expected: Revision) -> Revision:
        try:
            return await self.beneath.delete(key, expected)
        except RevisionConflict as err:
            raise RevisionConflict(key, await self._opened(err.current)) from err

    def watch(self, prefix: str, after: Revision) -> AsyncIterator[EventBatch]:
        return _Watch(self, prefix, after)

    async def compact(self, revision: Revision) -> None:
        await self.beneath.compact(revision)

    async def revision(self) -> Revision:
        return await self.beneath.revision()

    async def close(self) -> None:
        await self.beneath.close()

    async def is_stale(self, key: str) -> bool:
        """Whether the value of ``key`` would be encrypted in another way by now: by another provider or key."""
        if self.encryption.of(key) is None:
            return False
        held = await self.beneath.get(key)
        if held is None:
            return False
        try:
            return (await self.encryption.read(key, held.value)).stale
        except TransformError:
            return False  # nobody could write it as it is

    # -------------------------------------------------------------- values

    def _sealed(self, key: str, value: bytes) -> bytes:
        try:
            return self.encryption.write(key, value)
        except TransformError as err:
            log.error("a value cannot be encrypted, and was not stored", key=key, err=str(err))
            raise EncryptionFailed(str(err)) from err

    async def _opened(self, held: KeyValue | None) -> KeyValue | None:
        if held is None or self.encryption.of(held.key) is None:
            return held
        try:
            value = (await self.encryption.read(held.key, held.value)).plain
        except TransformError as err:
            if self.unread is None:
                self.unread = self.encryption.epoch
            value = unreadable(str(err))
        return KeyValue(held.key, value, held.revision)

    async def event(self, event: StoreEvent) -> StoreEvent:
        """As a watcher of this store sees it."""
        if self.encryption.of(event.key) is None:
            return event
        previous = await self._opened(event.previous)
        if event.value is None:
            return StoreEvent(event.key, event.revision, None, previous)
        now = await self._opened(KeyValue(event.key, event.value, event.revision))
        assert now is not None  # it was there
        return StoreEvent(event.key, event.revision, now.value, previous)


class _Watch:
    """A watch of the store beneath, decrypted."""

    def __init__(self, store: EncryptedStore, prefix: str, after: Revision) -> None:
        self._store = store
        self._watch = store.beneath.watch(prefix, after)
        self._after = after
        # What a wait that was cancelled has left: the next event on its way, and events that are not decrypted yet.
        self._coming: asyncio.Future[EventBatch] | None = None
        self._taken: EventBatch | None = None

    def __aiter__(self) -> _Watch:
        return self

    async def __anext__(self) -> EventBatch:
        if self._taken is None:
            self._taken = await self._next()
        batch = [await self._store.event(event) for event in self._taken]
        if self._taken:
            self._after = self._taken[-1].revision
        self._taken = None
        return batch

    async def _next(self) -> EventBatch:
        unread = self._store.unread
        if self._coming is None:
            if unread is None:
                return await anext(self._watch)
            self._coming = asyncio.ensure_future(anext(self._watch))
            # It may end when nobody asks any more: who waited was cancelled, and the store beneath closed.
            self._coming.add_done_callback(lambda coming: coming.cancelled() or coming.exception())
        if unread is None:
            return await self._came()
        readable = asyncio.ensure_future(self._store.encryption.after(unread))
        either: set[asyncio.Future[Any]] = {self._coming, readable}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if readable.done():
                log.info("values that could not be decrypted may be readable by now, loading anew")
                self._store.unread = None
                await self.aclose()
                raise Compacted(self._after, await self._store.revision())
        finally:
            readable.cancel()
        return await self._came()

    async def _came(self) -> EventBatch:
        """The events on their way; they are not lost when the wait for them is cancelled."""
        coming = self._coming
        if coming is None:
            raise StopAsyncIteration  # closed meanwhile
        await asyncio.wait({coming})
        self._coming = None
        return coming.result()

    async def aclose(self) -> None:
        await self._watch.aclose()  # type: ignore[attr-defined]  # the watches of all stores have it
        coming, self._coming = self._coming, None
        if coming is not None:
            coming.cancel()
            await asyncio.wait({coming})
