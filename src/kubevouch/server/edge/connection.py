"""A connection of the HTTPS edge: aiohttp's, behind the framing of RFC 9112 and with bounds on what it holds.

The one module that knows how aiohttp (3.14) works inside; ``pyproject.toml`` lets no other minor version in.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any, Protocol

from aiohttp import StreamReader, web
from aiohttp.http import HttpRequestParser, RawRequestMessage
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong, PayloadEncodingError
from aiohttp.http_writer import StreamWriter
from aiohttp.web_protocol import RequestHandler
from aiohttp.web_server import Server as AiohttpServer

from kubevouch.server.edge.http_framing import MAX_FIRST_HEAD_BYTES, MAX_HEAD_BYTES, Refusal, RequestFraming
from kubevouch.server.edge.timeouts import Timeouts
from kubevouch.server.edge.tls import peer_chain
from kubevouch.server.flow_control.head_memory import COPIES, HeadMemory
from kubevouch.util.logger import get_logger

log = get_logger("server")

# What reading a body raises that is cut short or framed wrongly, and what a prepared reply is written with.
BodyFramingError = PayloadEncodingError
ReplyWriter = StreamWriter

Message = tuple[RawRequestMessage, StreamReader]

# Requests that wait behind the one that is served.
MAX_PIPELINED = 2
# What is read ahead of a handler that may never ask for the body; afterwards what is usual.
READ_AHEAD_BYTES = 16 * 1024
READ_BYTES = 256 * 1024
# What one reading brings afterwards (the kernel doubles it): 20,000 chunks of one byte, which take 30 ms to merge.
RECEIVE_BUFFER_BYTES = 64 * 1024


class ParserMissingError(Exception):
    """aiohttp fell back to its parser in Python, which has let through what smuggles requests (GHSA-9548-qrrj-x5pj)."""


def require_parser() -> None:
    """Raises :class:`ParserMissingError` unless requests are parsed by aiohttp's compiled parser."""
    if HttpRequestParser.__module__ != "aiohttp._http_parser":
        raise ParserMissingError(f"HTTP would be parsed by {HttpRequestParser.__module__}, not by aiohttp._http_parser")


class RefusedHeadError(HttpProcessingError):
    """The bytes are no request by RFC 9112, or too many."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(code=refusal.status, message=refusal.reason)


class Reply(web.Response):
    """Without the name and versions of what made it: kube-apiserver says nothing of the kind."""

    async def _prepare_headers(self) -> None:
        await super()._prepare_headers()
        self.headers.popall("Server", None)


class StreamedReply(web.StreamResponse):
    """As :class:`Reply`; its head is written together with the first piece, which may be empty."""

    _send_headers_immediately = False

    async def _prepare_headers(self) -> None:
        await super()._prepare_headers()
        self.headers.popall("Server", None)


class _Parser(Protocol):
    def feed_data(self, data: bytes, /) -> tuple[Sequence[Message], bool, bytes]: ...

    def set_upgraded(self, value: bool, /) -> None: ...

    def message_consumed(self) -> None: ...

    def pause_reading(self) -> None: ...


class _FramedParser:
    """aiohttp's parser, which is shown only what :class:`RequestFraming` lets pass."""

    def __init__(self, parser: _Parser) -> None:
        self._parser = parser
        self._payload: StreamReader | None = None
        # Of the requests that nobody has begun to serve.
        self._waiting: deque[int] = deque()
        self._served = 0
        self._refused: HttpProcessingError | None = None
        self._is_told = False
        self.framing = RequestFraming(MAX_FIRST_HEAD_BYTES)

    def owes_refusal(self) -> bool:
        """Requests came before what is refused: :meth:`feed_data` raises when it is called again."""
        return self._refused is not None and not self._is_told

    @property
    def memory(self) -> int:
        """Bytes that heads take: parts of one, whole ones, and the last one, which the parser keeps."""
        return self.framing.held + COPIES * (self._served + sum(self._waiting))

    def feed_data(self, data: bytes) -> tuple[list[Message], bool, bytes]:
        """Raises ``HttpProcessingError`` once, for what is no request."""
        if self.owes_refusal():
            return self._tell()
        passed, heads = self.framing.receive(data, MAX_PIPELINED - len(self._waiting))
        self._waiting.extend(heads)
        messages: list[Message] = []
        try:
            for piece in passed or (b"",):
                messages.extend(self._parse(piece))
        except HttpProcessingError as err:
            # Its traceback would hold this parser, and whatever the connection holds.
            self._refused = err.with_traceback(None)
            self.framing.refusal = Refusal(err.code)
        if messages:
            self._payload = messages[-1][1]
        self._note_refusal(self.framing.refusal)
        if self.owes_refusal() and not messages:
            return self._tell()
        return messages, False, b""

    def _note_refusal(self, refusal: Refusal | None) -> None:
        if refusal is None or self._refused is not None:
            return
        self._refused = RefusedHeadError(refusal)
        if refusal.in_body and self._payload is not None:
            # Whoever reads the body answers; if nobody does, the connection ends behind the answer.
            self._is_told = True
            self._payload.set_exception(web.RequestPayloadError(refusal.reason))

    def _tell(self) -> tuple[list[Message], bool, bytes]:
        assert self._refused is not None  # whoever calls has looked
        self._is_told = True
        self._waiting.append(0)
        raise self._refused

    def _parse(self, data: bytes) -> list[Message]:
        """Nobody is upgraded here: what follows such a request is the next one."""
        messages: list[Message] = []
        while True:
            found, upgraded, tail = self._parser.feed_data(data)
            messages.extend(found)
            if not upgraded:
                return messages
            self._parser.set_upgraded(False)
            if not tail:
                return messages
            data = tail

    def message_consumed(self) -> None:
        self._parser.message_consumed()
        if self._waiting:
            self._served = self._waiting.popleft()

    def pause_reading(self) -> None:
        self._parser.pause_reading()

    def set_upgraded(self, _value: bool) -> None:
        """Never was."""

    def let_go(self) -> None:
        """The connection has ended. Parser and body know it, and all would stay until a collection of cycles."""
        self._parser = self._payload = None  # type: ignore[assignment]  # nobody parses any more


class Connection(RequestHandler):
    """One TCP connection: remembers the client's certificates and tells watches when it is gone."""

    __slots__ = (
        "_answer_timer", "_charged", "_framed", "_gone", "_header_timer", "_is_authenticated", "_memory",
        "_peer_chain", "_timeouts",
    )  # fmt: skip

    def __init__(self, manager: AiohttpServer, timeouts: Timeouts, memory: HeadMemory, **settings: Any) -> None:
        super().__init__(manager, **settings)
        self._framed = _FramedParser(self._parser)
        self._parser: Any = self._framed
        self._max_msg_queue_size, self._msg_queue_resume_size = MAX_PIPELINED, 0
        self._timeouts = timeouts
        self._memory = memory
        self._charged = 0
        self._is_authenticated = False
        self._gone: list[Callable[[], None]] = []
        self._peer_chain: tuple[bytes, ...] | None = None
        self._header_timer: asyncio.TimerHandle | None = None
        self._answer_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._header_timer = self._loop.call_later(self._timeouts.head, self.cut_off)
        if hasattr(transport, "set_read_buffer_limits"):  # TLS
            transport.set_read_buffer_limits(high=READ_AHEAD_BYTES)
        self._memory.add(self)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._framed.owes_refusal():
            super().data_received(b"")
        self._charge()

    def _charge(self) -> None:
        size = self._framed.memory
        if size != self._charged and self.transport is not None:
            self._charged = size
            self._memory.charge(self, size)

    @property
    def is_busy(self) -> bool:
        return self._request_in_progress

    def request_started(self) -> None:
        """The first request is complete: the connection has proven useful."""
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def authenticated(self) -> None:
        """Somebody's credential was good: from now on the connection may hold as much as is usual."""
        if self._is_authenticated:
            return
        self._is_authenticated = True
        self._framed.framing.max_head = MAX_HEAD_BYTES
        self._memory.authenticated(self)
        self._charged = 0
        self._charge()
        bound = None if self.transport is None else self.transport.get_extra_info("socket")
        if bound is not None:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)

    def pause_writing(self) -> None:
        """The buffers on the way are full: from here on the client has its time to take what is in them."""
        super().pause_writing()
        self._answer_timer = self._loop.call_later(self._timeouts.answer, self._cut_off_slow)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._answer_timer is not None:
            self._answer_timer.cancel()
            self._answer_timer = None

    def cut_off(self) -> None:
        """Without TLS' goodbye, for which a client could be waited for once more."""
        if self.transport is not None:
            self.transport.abort()

    def _cut_off_slow(self) -> None:
        if self.transport is not None:
            log.info("cut off a client that does not take its answer", source=str(self.peername))
            self.transport.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        for timer in (self._header_timer, self._answer_timer):
            if timer is not None:
                timer.cancel()
        self._memory.forget(self)
        gone, self._gone = self._gone, []
        super().connection_lost(exc)
        self._framed.let_go()
        for callback in gone:
            callback()

    def when_gone(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once the client is gone; at once if it is already."""
        if self.transport is None:
            callback()
        else:
            self._gone.append(callback)

    def no_longer(self, callback: Callable[[], None]) -> None:
        if callback in self._gone:
            self._gone.remove(callback)

    @property
    def peer_chain(self) -> tuple[bytes, ...]:
        """The client's certificates, leaf first, unverified; read once a connection."""
        if self._peer_chain is None:
            transport = self.transport
            self._peer_chain = peer_chain(transport.get_extra_info("ssl_object") if transport is not None else None)
        return self._peer_chain

    def handle_error(
        self,
        request: web.BaseRequest,  # noqa: ARG002 - aiohttp's signature
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The last resort, above all for broken HTTP: plain text, as Go's server answers, and the connection ends."""
        if status == 500:
            # Raised while an answer was made, after the chain and its recovery.
            log.error("request failed", exc_info=exc)
        reason = (message or "").partition("\n")[0].rstrip(":")
        if isinstance(exc, RefusedHeadError):
            status = exc.code
        elif isinstance(exc, LineTooLong) or reason == "Too many headers received":
            status, reason = 431, ""
        text = f"{status} {HTTPStatus(status).phrase}"
        reply = Reply(status=status, text=f"{text}: {reason}" if reason else text)
        reply.force_close()
        return reply


class ConnectionServer(AiohttpServer):
    """Makes the connections of one server."""

    timeouts: Timeouts
    memory: HeadMemory

    def __call__(self) -> RequestHandler:
        return Connection(self, self.timeouts, self.memory, loop=self._loop, **self._kwargs)


def when_gone(protocol: asyncio.Protocol, callback: Callable[[], None]) -> None:
    assert isinstance(protocol, Connection)  # made by ConnectionServer
    protocol.when_gone(callback)
