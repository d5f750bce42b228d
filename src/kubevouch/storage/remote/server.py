"""The side that has the store."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import Any, cast

import msgspec

from kubevouch.storage.interface import EventBatch, Page, Probed, Revision, Store, StoreError, lowest
from kubevouch.storage.remote import messages
from kubevouch.storage.remote.messages import (
    Answer,
    Batch,
    Compact,
    Delete,
    Done,
    Ended,
    Found,
    Get,
    List,
    Listed,
    Newest,
    Probe,
    Put,
    Question,
    Taken,
    Unwatch,
    Watch,
)
from kubevouch.util.framed_messages import MessageConnection
from kubevouch.util.logger import get_logger

BATCHES_AHEAD = 2
"""Of a watch that were sent and not taken yet. What comes meanwhile the store's watch keeps, within its bounds."""
PAGE_KEYS = 500
PAGE_BYTES = 4 << 20
"""A page holds no more, so that encoding it holds nobody up for more than some milliseconds."""

log = get_logger("storage.remote")

_DECODER: msgspec.msgpack.Decoder[Question] = msgspec.msgpack.Decoder(Question)


class StoreServer:
    """Serves ``store`` to one process, over a connected socket, until :meth:`close` or the other side ends it.

    Whatever was accepted is carried out, though nobody waits for it any more.

    Args:
        wrote: is told the revision of a write, and the size of its value.
    """

    def __init__(self, store: Store, wrote: Callable[[Revision, int], None] = lambda _revision, _size: None) -> None:
        self._store = store
        self._wrote = wrote
        self._connection: MessageConnection[Question, Answer] = MessageConnection(_DECODER, self._take, self._lost)
        self._running: set[asyncio.Task[None]] = set()
        self._watches: dict[int, tuple[asyncio.Task[None], asyncio.Semaphore]] = {}
        self._gone = asyncio.Event()

    async def start(self, sock: socket.socket) -> None:
        """Raises OSError."""
        await asyncio.get_running_loop().create_unix_connection(lambda: self._connection, sock=sock)

    async def close(self) -> None:
        """Watches end; what was asked before is answered."""
        for watch, _ in self._watches.values():
            watch.cancel()
        if self._running:
            await asyncio.wait(self._running)
        self._connection.close()
        await self._gone.wait()

    def _lost(self) -> None:
        for watch, _ in self._watches.values():
            watch.cancel()
        self._gone.set()

    def _take(self, question: Question) -> None:
        match question:
            case Taken(id_):
                if id_ in self._watches:
                    self._watches[id_][1].release()
            case Unwatch(id_):
                if id_ in self._watches:
                    self._watches[id_][0].cancel()
            case Watch(id_) if id_ in self._watches:
                # The first would be nobody's: it could not be ended, and close would wait for it for ever.
                self._connection.abort()
            case Watch(id_, prefix, after):
                room = asyncio.Semaphore(BATCHES_AHEAD)
                watch = self._run(self._watch(id_, prefix, Revision(after), room))
                self._watches[id_] = watch, room
            case _:
                self._run(self._answer(question))

    def _run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # Somebody waits for an answer that will not come: better that both begin anew.
            log.error("a question about the store could not be answered", exc_info=error)
            self._connection.abort()

    async def _answer(self, question: Get | List | Put | Delete | Compact | Newest | Probe) -> None:
        try:
            self._connection.send(await self._answered(question))
        except StoreError as err:
            self._connection.send(messages.refused(question.id, err))

    async def _answered(self, question: Get | List | Put | Delete | Compact | Newest | Probe) -> Answer:
        store, id_ = self._store, question.id
        match question:
            case Get(_, key):
                return Found(id_, messages.held(await store.get(key)))
            case List(_, prefix, start, limit, at):
                revision = None if at is None else Revision(at)
                most = min(limit, PAGE_KEYS) if limit else PAGE_KEYS
                page = await store.list(prefix, start=start, limit=most, revision=revision)
                return _listed(id_, page)
            case Put(_, key, value, expected, ttl):
                if expected is None:
                    written = await store.create(key, value, ttl=ttl)
                else:
                    written = await store.update(key, value, Revision(expected), ttl=ttl)
                self._wrote(written, len(value))
                return Done(id_, written)
            case Delete(_, key, expected):
                written = await store.delete(key, Revision(expected))
                self._wrote(written, 0)
                return Done(id_, written)
            case Compact(_, upto):
                await store.compact(Revision(upto))
                return Done(id_, upto)
            case Probe():
                medium = lowest(store)
                if isinstance(medium, Probed):
                    await medium.expect_writable()
        return Done(id_, await store.revision())

    async def _watch(self, id_: int, prefix: str, after: Revision, room: asyncio.Semaphore) -> None:
        try:
            watch = cast("AsyncGenerator[EventBatch, None]", self._store.watch(prefix, after))
            async with aclosing(watch) as batches:
                while True:
                    await room.acquire()
                    batch = await anext(batches, None)
                    if batch is None:
                        break
                    self._connection.send(Batch(id_, [messages.event(each) for each in batch]))
            self._connection.send(Ended(id_))
        except StoreError as err:
            self._connection.send(messages.refused(id_, err))
        finally:
            del self._watches[id_]


def _listed(id_: int, page: Page) -> Listed:
    items: list[messages.Held] = []
    size = 0
    for each in page.items:
        size += len(each.value)
        if items and size > PAGE_BYTES:
            break
        items.append((each.key, each.value, each.revision))
    more = page.more or len(items) < len(page.items)
    return Listed(id_, items, page.revision, more, page.total)
