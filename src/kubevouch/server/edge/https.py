"""The HTTPS edge: aiohttp requests into the chain, results back into bytes."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import zlib
from collections.abc import Iterator, Mapping
from itertools import chain

from aiohttp import StreamReader, web
from multidict import CIMultiDict, CIMultiDictProxy

from kubevouch.authentication.anonymous import METHOD as ANONYMOUS_METHOD
from kubevouch.authentication.interface import Credentials
from kubevouch.machinery import errors
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.scheme import Scheme
from kubevouch.server import decoding, encoding, negotiation
from kubevouch.server.edge.connection import (
    READ_AHEAD_BYTES,
    READ_BYTES,
    BodyFramingError,
    Connection,
    ConnectionServer,
    Reply,
    ReplyWriter,
    StreamedReply,
    when_gone,
)
from kubevouch.server.edge.listener import Listener
from kubevouch.server.edge.timeouts import Timeouts
from kubevouch.server.endpoints import Served
from kubevouch.server.filters.instrumentation import Traffic
from kubevouch.server.flow_control.connections import ConnectionLimits
from kubevouch.server.flow_control.handshakes import HandshakeSlots
from kubevouch.server.flow_control.head_memory import HeadMemory
from kubevouch.server.metrics.catalog import Metrics
from kubevouch.server.negotiation import Negotiated
from kubevouch.server.query import Query
from kubevouch.server.request import (
    BytesResult,
    Handler,
    ListingResult,
    ObjectResult,
    PlainResult,
    Request,
    Result,
    WatchResult,
    no_body,
)
from kubevouch.server.watch_item import WatchItem
from kubevouch.storage.watchcache.resource_cache import Change
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger
from kubevouch.util.turns import give_way
from kubevouch.util.worker import LARGE_BYTES

log = get_logger("server")

IDLE_SECONDS = 90.0
GZIP_FROM_BYTES = 128 * 1024  # apiserver endpoints/handlers/responsewriters
GZIP_LEVEL = 1
# Of watch events: what a connection is handed before it has to take what it was handed before.
PIECE_BYTES = 64 * 1024
MAX_WARNINGS_RUNES = 4096
WARNING_CUT_RUNES = 256
# For the last bytes of an answer, once the server is told to stop.
FLUSH_SECONDS = 1.0

_NO_CACHE = "no-cache, private"


class _Ending:
    """The end of a connection. Closing one waits for the client's TLS goodbye, which an idle client never says."""

    def __init__(self, connection: Connection) -> None:
        self._transport = connection.transport
        self.gone = asyncio.get_running_loop().create_future()
        connection.when_gone(self._note)

    def _note(self) -> None:
        if not self.gone.done():
            self.gone.set_result(None)

    @property
    def is_flushed(self) -> bool:
        try:
            return self._transport is None or self._transport.get_write_buffer_size() == 0
        except AttributeError:
            return True  # asyncio's own TLS transport forgets what it writes to when it is closed twice

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


async def _end_all(endings: list[_Ending]) -> None:
    """Let closed connections write what they have, for a moment, and cut them off."""
    if not endings:
        return
    unfinished = [ending.gone for ending in endings if not ending.is_flushed]
    if unfinished:
        await asyncio.wait(unfinished, timeout=FLUSH_SECONDS)
    for ending in endings:
        ending.abort()
    await asyncio.wait([ending.gone for ending in endings], timeout=FLUSH_SECONDS)


class HTTPSServer:
    """Listens, and hands each request to ``handler``."""

    def __init__(
        self,
        handler: Handler,
        clock: Clock,
        traffic: Traffic | None = None,
        *,
        serving: bool = True,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - frozen
    ) -> None:
        self._handler = handler
        self._traffic = traffic or Traffic(Metrics(), Served(Scheme()))
        self._clock = clock
        self._aiohttp: ConnectionServer | None = None
        self._listeners: list[Listener] = []
        self._serving = serving
        self._timeouts = timeouts
        self.limits = ConnectionLimits.of_process()
        self.memory = HeadMemory()

    async def start(self, sockets: list[socket.socket], context: ssl.SSLContext | None) -> None:
        """Accept connections on bound sockets; ``context`` None means plain HTTP, for tests on loopback only."""
        self._aiohttp = ConnectionServer(
            self._serve,
            access_log=None,
            keepalive_timeout=IDLE_SECONDS,
            auto_decompress=False,
            # The framing bounds the whole head.
            max_line_size=64 * 1024,
            max_field_size=64 * 1024,
            read_bufsize=READ_AHEAD_BYTES,
            lingering_time=0,
        )
        self._aiohttp.timeouts = self._timeouts
        self._aiohttp.memory = self.memory
        handshakes = HandshakeSlots()
        self._listeners = [
            Listener(bound, self._aiohttp, context, self._clock, self.limits, when_gone, handshakes, self._timeouts)
            for bound in sockets
        ]

    async def close(self, grace_seconds: float) -> None:
        """Stop accepting, let requests under way finish for ``grace_seconds``, then cut them off."""
        for listener in self._listeners:
            await listener.close()
        if self._aiohttp is not None:
            connections = [each for each in self._aiohttp.connections if isinstance(each, Connection)]
            endings = [_Ending(each) for each in connections]
            self._aiohttp.pre_shutdown()
            await self._aiohttp.shutdown(grace_seconds)
            await _end_all(endings)

    # -------------------------------------------------------------- one request

    async def _serve(self, raw: web.BaseRequest) -> web.StreamResponse:
        connection = raw.protocol
        assert isinstance(connection, Connection)  # made by ConnectionServer
        connection.request_started()
        request = self._request(raw, connection)
        try:
            result = await self._handler(request)
        except APIStatusError as err:
            return _last_if_unread(raw, await self._failure(request, err))
        finally:
            _note_authentication(request, connection)
            # It knows the request: with it, the body would stay until a collection of cycles.
            request.read_body = no_body
        if isinstance(result, WatchResult):
            return await self._stream(raw, connection, request, result)
        if isinstance(result, ListingResult):
            pieces = self._pieces(request, result)
            first, second = await _next(request, pieces), await _next(request, pieces)
            assert first is not None  # there is always one
            if second is not None:
                return await self._send(raw, connection, request, result, chain((first, second), pieces))
            reply = await self._negotiated(request, result, first)
        else:
            reply = await self._reply(request, result)
        self._traffic.answered(request, reply.content_length or 0)
        return _last_if_unread(raw, reply)

    def _request(self, raw: web.BaseRequest, connection: Connection) -> Request:
        target = raw.raw_path
        if not target.startswith("/"):
            target = raw.rel_url.raw_path_qs  # absolute form, as to a proxy
        path, _, query = target.partition("?")
        peer = connection.peername
        headers = _readable(raw)

        async def read_body(limit: int) -> bytes:
            _note_authentication(request, connection)
            return await _read(raw.content, headers, limit, self._timeouts.body)

        request = Request(
            method=raw.method,
            path=path,
            query=Query(query),
            headers=headers,
            received=self._clock.now(),
            credentials=Credentials(
                peer_chain=connection.peer_chain,
                authorization=headers.get("Authorization"),
                headers=_LazyHeaders(headers),
                source=str(peer[0]) if isinstance(peer, tuple) else "",
            ),
            read_body=read_body,
        )
        return request

    @staticmethod
    def _headers(request: Request, content_type: str) -> dict[str, str]:
        return {
            "Audit-Id": request.audit_id,
            "Cache-Control": _NO_CACHE,
            "Content-Type": content_type,
            **request.reply_headers,
        }

    async def _failure(self, request: Request, err: APIStatusError) -> web.StreamResponse:
        how = negotiation.for_error(
            request.headers.get("Accept", "")[: negotiation.MAX_ACCEPT_BYTES],
            pretty=negotiation.wants_pretty(request.query.get("pretty"), request.user_agent),
        )
        headers = self._headers(request, how.content_type)
        details = err.status.details
        if details is not None and details.retry_after_seconds > 0:
            headers["Retry-After"] = str(details.retry_after_seconds)
        body = await request.share.compute(encoding.status, err.status, how)
        return await self._finish(request, body, err.code, headers)

    async def _reply(self, request: Request, result: Result) -> web.StreamResponse:
        if isinstance(result, BytesResult):
            headers = self._headers(request, result.content_type)
            if not result.content_type:
                del headers["Content-Type"]
            headers.update(result.headers)
            return await self._finish(request, result.body, result.status, headers)
        how = request.negotiated or Negotiated("json")
        if isinstance(result, ObjectResult):
            encoder = result.encoder
            request.share.weigh(encoding.effort(result.stored, how))
            body = await request.share.compute(encoder.one, result.stored, how, request.received, _include(request))
        else:
            assert isinstance(result, PlainResult)  # the only kind left
            body = await request.share.compute(encoding.plain, result.obj, result.api_version, result.kind, how)
        return await self._negotiated(request, result, body)

    async def _negotiated(self, request: Request, result: Result, body: bytes) -> web.StreamResponse:
        how = request.negotiated or Negotiated("json")
        return await self._finish(request, body, result.status, self._headers(request, how.content_type))

    async def _finish(self, request: Request, body: bytes, status: int, headers: dict[str, str]) -> web.StreamResponse:
        if len(body) >= GZIP_FROM_BYTES and _accepts_gzip(request.headers.get("Accept-Encoding", "")):
            body = await asyncio.to_thread(gzip.compress, body, GZIP_LEVEL, mtime=0)
            _note_gzip(headers)
        reply = Reply(body=body, status=status, headers=headers)
        return _warned(request, reply)

    # -------------------------------------------------------------- long lists

    @staticmethod
    def _pieces(request: Request, result: ListingResult) -> Iterator[bytes]:
        encoder = result.encoder
        how = request.negotiated or Negotiated("json")
        return encoder.pieces(result.page, how, request.received, _include(request))

    async def _send(
        self, raw: web.BaseRequest, connection: Connection, request: Request, result: Result, pieces: Iterator[bytes]
    ) -> web.StreamResponse:
        """A list that is not written in one go: chunked, and made only as fast as the client takes it."""
        how = request.negotiated or Negotiated("json")
        headers = self._headers(request, how.content_type)
        zipper = None
        if _accepts_gzip(request.headers.get("Accept-Encoding", "")):
            zipper = zlib.compressobj(GZIP_LEVEL, wbits=zlib.MAX_WBITS | 16)
            _note_gzip(headers)
        reply = _last_if_unread(raw, _warned(request, StreamedReply(status=result.status, headers=headers)))
        size, whole = 0, False
        try:
            writer = await reply.prepare(raw)
            assert isinstance(writer, ReplyWriter)  # None only for a reply that has ended
            while (piece := await _next(request, pieces)) is not None:
                sent = await asyncio.to_thread(zipper.compress, piece) if zipper else piece
                size += len(sent)
                await writer.write(sent, drain=False)
                await (writer.drain() if connection.writing_paused else give_way())
            await reply.write_eof(zipper.flush() if zipper else b"")
            whole = True
        except ConnectionError:
            pass  # the client went away, or was cut off
        finally:
            # The last chunk is missing, so the client can tell.
            if not whole and connection.transport is not None:
                connection.transport.abort()
        self._traffic.answered(request, size)
        return reply

    # -------------------------------------------------------------- watches

    async def _stream(
        self, raw: web.BaseRequest, connection: Connection, request: Request, result: WatchResult
    ) -> web.StreamResponse:
        how = request.negotiated or Negotiated("json", stream=True)
        reply = _warned(request, StreamedReply(status=200, headers=self._headers(request, how.content_type)))
        _last_if_unread(raw, reply).enable_chunked_encoding()
        include = _include(request)
        current = asyncio.current_task()
        assert current is not None  # a handler always runs in a task

        def cancel() -> None:
            current.cancel()

        connection.when_gone(cancel)
        first = True
        encoder = result.encoder
        sent = self._traffic.events(request)
        try:
            writer = await reply.prepare(raw)
            assert isinstance(writer, ReplyWriter)  # None only for a reply that has ended
            async for batch in result.batches:
                if _has_large(batch, how):
                    now, share = self._clock.now(), request.share
                    frames = await encoder.dear_frames(batch, how, now, include, share, first=first)
                else:
                    frames = encoder.frames(batch, how, self._clock.now(), include, first=first)
                first = first and not batch
                # A timer for each write would be a fifth of the work; only those that lag behind need one.
                if connection.writing_paused or len(frames) > PIECE_BYTES:
                    async with asyncio.timeout(self._timeouts.frame):
                        await _write_in_pieces(frames, writer, connection)
                else:
                    await writer.write(frames, drain=False)
                if batch:
                    sent(len(batch), len(frames))
            await reply.write_eof()
        except (ConnectionError, TimeoutError):
            # To close it would wait until the client takes what it does not take.
            if connection.transport is not None:
                connection.transport.abort()
        except asyncio.CancelledError:
            if connection.transport is not None:
                raise
        finally:
            connection.no_longer(cancel)
            await result.close()
        return reply


async def _write_in_pieces(frames: bytes, writer: ReplyWriter, connection: Connection) -> None:
    """So that a thousand watches that nobody reads do not each hold what one large object takes."""
    for at in range(0, len(frames), PIECE_BYTES):
        if connection.writing_paused:
            await writer.drain()
        await writer.write(frames[at : at + PIECE_BYTES], drain=False)


class _LazyHeaders(Mapping[str, list[str]]):
    """All headers by lower-case name; most requests never ask for them."""

    __slots__ = ("_headers",)

    def __init__(self, headers: CIMultiDictProxy[str]) -> None:
        self._headers = headers

    def __getitem__(self, name: str) -> list[str]:
        found: list[str] = self._headers.getall(name, [])
        if not found:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(key.lower() for key in self._headers))

    def __len__(self) -> int:
        return len(set(self))


def _note_authentication(request: Request, connection: Connection) -> None:
    found = request.authentication
    if found is not None and found.method != ANONYMOUS_METHOD:
        connection.authenticated()


def _readable(raw: web.BaseRequest) -> CIMultiDictProxy[str]:
    """The headers, with U+FFFD for what is not UTF-8, as Go prints it: nothing behind here could write it."""
    if b"".join([value for _, value in raw.raw_headers]).isascii():
        return raw.headers
    pairs = ((name, value.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
             for name, value in raw.headers.items())  # fmt: skip
    return CIMultiDictProxy(CIMultiDict(pairs))


async def _read(content: StreamReader, headers: CIMultiDictProxy[str], limit: int, seconds: float) -> bytes:
    """The whole body.

    Raises:
        APIStatusError: 413 over the limit; 415 for compressed or multipart bodies; 400 when it breaks off.
    """
    for coding in headers.getall("Content-Encoding", []):
        if coding.lower() not in ("identity", ""):
            raise errors.unsupported_media_type(
                f"the body of the request is compressed ({coding}); send it uncompressed"
            )
    kind = headers.get("Content-Type", "")
    if kind[:10].lower() == "multipart/":
        decoding.media_type(kind)
    length = headers.get("Content-Length")
    if length is not None and length.isdigit() and int(length) > limit:
        raise errors.request_entity_too_large(f"limit is {limit}")
    try:
        if content.is_eof():
            return await _gather(content, limit)
        content.set_read_chunk_size(READ_BYTES)
        async with asyncio.timeout(seconds):
            return await _gather(content, limit)
    except TimeoutError:
        raise errors.bad_request(f"the body of the request did not come within {seconds:g} s") from None
    except (BodyFramingError, web.RequestPayloadError, ConnectionError, ValueError) as err:
        raise errors.bad_request(f"the body of the request could not be read: {err}") from err


async def _gather(content: StreamReader, limit: int) -> bytes:
    chunks, size = [], 0
    while chunk := await content.readany():
        size += len(chunk)
        if size > limit:
            raise errors.request_entity_too_large(f"limit is {limit}")
        chunks.append(chunk)
    return b"".join(chunks) if len(chunks) != 1 else chunks[0]


def _has_large(batch: list[WatchItem], how: Negotiated) -> bool:
    return any(isinstance(item, Change) and encoding.effort(item.stored, how) > LARGE_BYTES for item in batch)


async def _next(request: Request, pieces: Iterator[bytes]) -> bytes | None:
    """The next piece of a list. YAML takes some hundred times as long as JSON."""
    if request.negotiated is not None and request.negotiated.encoding == "yaml":
        request.share.is_large = True
    return await request.share.compute(next, pieces, None)


def _include(request: Request) -> str:
    return request.query.get("includeObject") or "Metadata"


def _last_if_unread(raw: web.BaseRequest, reply: web.StreamResponse) -> web.StreamResponse:
    """Says that the connection ends behind an answer that comes before the whole body: who is not told asks again."""
    if not raw.content.is_eof():
        reply.force_close()
    return reply


def _warned(request: Request, reply: web.StreamResponse) -> web.StreamResponse:
    for warning in warning_headers(request.warnings):
        reply.headers.add("Warning", warning)
    return reply


def _note_gzip(headers: dict[str, str]) -> None:
    headers["Content-Encoding"] = "gzip"
    headers["Vary"] = f"{headers['Vary']}, Accept-Encoding" if "Vary" in headers else "Accept-Encoding"


def _accepts_gzip(header: str) -> bool:
    return any(part.partition(";")[0].strip().lower() == "gzip" for part in header.split(","))


def warning_headers(texts: list[str]) -> list[str]:
    """``299 - "text"`` for each, without repeats; in all at most 4096 runes, then each cut to 256."""
    distinct = list(dict.fromkeys(texts))
    if sum(len(text) for text in distinct) > MAX_WARNINGS_RUNES:
        kept, total = [], 0
        for text in distinct:
            cut = text[:WARNING_CUT_RUNES]
            total += len(cut)
            if total > MAX_WARNINGS_RUNES:
                break
            kept.append(cut)
        distinct = kept
    return [f"299 - {_quoted(text)}" for text in distinct]


def _quoted(text: str) -> str:
    clean = "".join(char if char.isprintable() else " " for char in text)
    escaped = clean.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
