"""What an owner and its worker say to each other besides what the store is asked for."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from kubevouch.util.framed_messages import MessageConnection
from kubevouch.util.logger import get_logger

log = get_logger("standalone.workers")

METRICS, CONTROLLERS, PUBLISHED = "metrics", "controllers", "published"
"""What can be asked for."""

Answer = Callable[[bytes], Awaitable[bytes]]


class Begin(msgspec.Struct, array_like=True, tag=1):
    """The owner's first word.

    Args:
        host: with ``port``, where clients reach the server.
    """

    number: int
    host: str
    port: int


class Ready(msgspec.Struct, array_like=True, tag=2):
    """The worker serves."""


class Ask(msgspec.Struct, array_like=True, tag=3):
    id: int
    what: str
    body: bytes


class Told(msgspec.Struct, array_like=True, tag=4):
    id: int
    body: bytes


class Wanted(msgspec.Struct, array_like=True):
    """What is asked for with :data:`PUBLISHED`."""

    method: str
    path: str
    octets: bytes


class Published(msgspec.Struct, array_like=True):
    """``problem``: why there is no answer now."""

    body: bytes = b""
    content_type: str = ""
    status: int = 0
    headers: dict[str, str] = {}
    problem: str = ""


Message = Begin | Ready | Ask | Told
_DECODER: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


class OtherSideGone(Exception):
    """What was asked for will not come."""


class Control:
    """One side. The socket ends with either of the two processes.

    Args:
        answers: by what can be asked for here.
    """

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        loop = asyncio.get_running_loop()
        self.begun: asyncio.Future[Begin] = loop.create_future()
        self.ready = asyncio.Event()
        self.lost = asyncio.Event()
        self._answers = answers
        self._connection: MessageConnection[Message, Message] = MessageConnection(_DECODER, self._take, self._gone)
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._answering: set[asyncio.Task[None]] = set()

    async def open(self, sock: socket.socket) -> None:
        """Raises OSError."""
        await asyncio.get_running_loop().create_unix_connection(lambda: self._connection, sock=sock)

    def say(self, message: Begin | Ready) -> None:
        self._connection.send(message)

    async def ask(self, what: str, body: bytes = b"") -> bytes:
        """Raises :class:`OtherSideGone`."""
        if self.lost.is_set():
            raise OtherSideGone(what)
        id_ = next(self._ids)
        waiting: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[id_] = waiting
        self._connection.send(Ask(id_, what, body))
        try:
            return await waiting
        finally:
            self._waiting.pop(id_, None)

    async def close(self) -> None:
        self._connection.close()
        await self.lost.wait()

    def _take(self, message: Message) -> None:
        match message:
            case Begin():
                self.begun.set_result(message)
            case Ready():
                self.ready.set()
            case Ask():
                task = asyncio.ensure_future(self._answer(message))
                self._answering.add(task)
                task.add_done_callback(self._answered)
            case Told(id_, body):
                waiting = self._waiting.get(id_)
                if waiting is not None and not waiting.done():
                    waiting.set_result(body)

    async def _answer(self, asked: Ask) -> None:
        self._connection.send(Told(asked.id, await self._answers[asked.what](asked.body)))

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._answering.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("what another process has asked for cannot be told", exc_info=error)
            self._connection.abort()

    def _gone(self) -> None:
        self.lost.set()
        self.ready.set()
        self.begun.cancel()
        for task in self._answering:
            task.cancel()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(OtherSideGone())
