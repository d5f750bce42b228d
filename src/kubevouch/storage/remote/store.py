"""The side that uses the store."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections import deque
from typing import TypeVar

import msgspec

from kubevouch.storage.interface import (
    Compacted,
    EventBatch,
    KeyValue,
    Page,
    Revision,
    StoreError,
    StoreUnavailable,
)
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
    Refused,
    Taken,
    Unwatch,
    Watch,
)
from kubevouch.storage.write import check_key, check_limit, check_text, check_ttl, check_value
from kubevouch.util.framed_messages import MessageConnection

_DECODER: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)
_T = TypeVar("_T", Found, Listed, Done)


class RemoteStore:
    """A ``Store`` that the process at the other end of a socket has open.

    ``lost`` is done when that process has gone: what was asked and not answered may have happened or not, and nothing
    can be asked any more.
    """

    def __init__(self) -> None:
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._connection: MessageConnection[Answer, Question] = MessageConnection(_DECODER, self._take, self._gone)
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._watches: dict[int, RemoteWatch] = {}
        self._closed = False

    @classmethod
    async def over(cls, sock: socket.socket) -> RemoteStore:
        """The store behind a connected socket, which it closes at its end. Raises OSError."""
        store = cls()
        await asyncio.get_running_loop().create_unix_connection(lambda: store._connection, sock=sock)
        return store

    async def get(self, key: str) -> KeyValue | None:
        check_key(key)
        return messages.key_value((await self._asked(Get(self._next(), key), Found)).held)

    async def list(self, prefix: str, *, start: str = "", limit: int = 0, revision: Revision | None = None) -> Page:
        check_text(prefix + start)
        check_limit(limit)
        while True:
            try:
                return await self._listed(prefix, start, limit, revision)
            except Compacted:
                # It was compacted between two pages, and nobody has asked for this state.
                if revision is not None:
                    raise

    async def _listed(self, prefix: str, start: str, limit: int, revision: Revision | None) -> Page:
        items: list[KeyValue] = []
        first: Listed | None = None
        while True:
            left = limit - len(items) if limit else 0
            found = await self._asked(List(self._next(), prefix, start, left, revision), Listed)
            first = first or found
            revision = Revision(first.revision)
            items += [KeyValue(key, value, Revision(at)) for key, value, at in found.items]
            if not found.more or len(items) == limit:
                return Page(items, revision, found.more, first.total)
            start = items[-1].key + "\x00"

    async def create(self, key: str, value: bytes, *, ttl: float | None = None) -> Revision:
        check_key(key)
        check_value(key, value)
        check_ttl(ttl)
        return await self._written(Put(self._next(), key, value, None, ttl))

    async def update(self, key: str, value: bytes, expected: Revision, *, ttl: float | None = None) -> Revision:
        check_key(key)
        check_value(key, value)
        check_ttl(ttl)
        return await self._written(Put(self._next(), key, value, expected, ttl))

    async def delete(self, key: str, expected: Revision) -> Revision:
        check_key(key)
        return await self._written(Delete(self._next(), key, expected))

    def watch(self, prefix: str, after: Revision) -> RemoteWatch:
        check_text(prefix)
        self._expect_open()
        id_ = self._next()
        watch = self._watches[id_] = RemoteWatch(self, id_)
        self._connection.send(Watch(id_, prefix, after))
        return watch

    async def compact(self, revision: Revision) -> None:
        await self._written(Compact(self._next(), revision))

    async def revision(self) -> Revision:
        return await self._written(Newest(self._next()))

    def expect_running(self) -> None:
        self._expect_open()

    async def expect_writable(self) -> None:
        await self._written(Probe(self._next()))

    async def close(self) -> None:
        """The other side goes on, with what was accepted first of all."""
        if not self._closed:
            self._closed = True
            if self._waiting:
                await asyncio.wait(self._waiting.values())
            for watch in tuple(self._watches.values()):
                watch.end(None)
            self._connection.close()
        await asyncio.shield(self.lost)

    def leave(self, id_: int) -> None:
        """Nobody reads the watch any more."""
        if self._watches.pop(id_, None) is not None:
            self._connection.send(Unwatch(id_))

    def taken(self, id_: int) -> None:
        """There is room for another batch of the watch."""
        self._connection.send(Taken(id_))

    def _next(self) -> int:
        return next(self._ids)

    async def _written(self, question: Put | Delete | Compact | Newest | Probe) -> Revision:
        return Revision((await self._asked(question, Done)).revision)

    async def _asked(self, question: Question, expected: type[_T]) -> _T:
        self._expect_open()
        waiting = self._waiting[question.id] = asyncio.get_running_loop().create_future()
        self._connection.send(question)
        answer = await waiting
        if isinstance(answer, Refused):
            raise messages.store_error(answer)
        assert isinstance(answer, expected)
        return answer

    def _expect_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store is closed")
        if self.lost.done():
            raise _gone()

    def _take(self, answer: Answer) -> None:
        waiting = self._waiting.pop(answer.id, None)
        if waiting is not None:
            if not waiting.done():  # else whoever asked was cancelled
                waiting.set_result(answer)
            return
        watch = self._watches.get(answer.id)
        match answer:
            case Batch(_, events) if watch is not None:
                watch.offer([messages.store_event(each) for each in events])
            case Refused() if watch is not None:
                watch.end(messages.store_error(answer))
            case Ended() if watch is not None:
                watch.end(None)

    def _gone(self) -> None:
        self.lost.set_result(None)
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(_gone())
        self._waiting.clear()
        for watch in tuple(self._watches.values()):
            watch.end(None if self._closed else _gone())


class RemoteWatch:
    """One watch; what ``Store.watch`` returns."""

    def __init__(self, store: RemoteStore, id_: int) -> None:
        self._store = store
        self._id = id_
        self._batches: deque[EventBatch] = deque()
        self._ended = False
        self._error: StoreError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._waiting = False

    def __aiter__(self) -> RemoteWatch:
        return self

    async def __anext__(self) -> EventBatch:
        if self._waiting:
            raise RuntimeError("this watch is being waited for already; one task at a time may do so")
        self._waiting = True
        try:
            while not self._batches and not self._ended:
                self._waiter = asyncio.get_running_loop().create_future()
                await self._waiter
        finally:
            self._waiting, self._waiter = False, None
        if self._batches:
            if not self._ended:
                self._store.taken(self._id)
            return self._batches.popleft()
        error, self._error = self._error, None
        if error is not None:
            raise error
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self._batches.clear()
        self._error = None
        self.end(None)

    def offer(self, batch: EventBatch) -> None:
        """A batch has come."""
        self._batches.append(batch)
        self._wake()

    def end(self, error: StoreError | None) -> None:
        """Nothing will come any more, for ``error`` if there is one. What has come is still delivered."""
        self._store.leave(self._id)
        if not self._ended:
            self._ended, self._error = True, error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _gone() -> StoreUnavailable:
    return StoreUnavailable("the process that has the store open is gone")
