"""An HTTP server that says what a test tells it to, for what a real API server never says."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import msgspec
from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as it arrived: ``peer_certificate`` is the DER that the client showed, ``connection`` counts from 0."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    peer_certificate: bytes | None
    connection: int
    raw_path: str


@dataclass(slots=True)
class ScriptedServer:
    """Answers each request with the next of its answers; the last one stays."""

    tls: ssl.SSLContext | None
    answers: list[Handler] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    _runner: web.AppRunner | None = None
    # Kept, so that no later connection has the identity of one that has ended.
    _connections: list[object] = field(default_factory=list)

    async def __aenter__(self) -> ScriptedServer:
        self._runner = web.AppRunner(
            _application(self._answer), access_log=None, shutdown_timeout=0.01, handler_cancellation=True
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self.tls).start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def port(self) -> int:
        assert self._runner is not None
        return int(self._runner.addresses[0][1])

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def open_connections(self) -> int:
        assert self._runner is not None and self._runner.server is not None
        return len(self._runner.server.connections)

    def script(self, *answers: Handler) -> None:
        """What to say from now on."""
        self.answers[:] = answers

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        tls = request.transport.get_extra_info("ssl_object") if request.transport else None
        self.seen.append(
            Seen(
                request.method,
                request.path,
                dict(request.query),
                dict(request.headers),
                await request.read(),
                tls.getpeercert(True) if tls else None,
                self._number(request.protocol),
                request.raw_path,
            )
        )
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return await answer(request)

    def _number(self, connection: object) -> int:
        """How many connections have sent a request before this one did."""
        if connection not in self._connections:
            self._connections.append(connection)
        return self._connections.index(connection)


def _application(answer: Handler) -> web.Application:
    application = web.Application(client_max_size=64 * 1024 * 1024)
    application.router.add_route("*", "/{path:.*}", answer)
    return application


def reply(
    body: bytes | str = b"",
    status: int = 200,
    content_type: str | None = "application/json",
    headers: Mapping[str, str] | None = None,
) -> Handler:
    """A plain answer; no Content-Type at all with None."""
    content = body.encode() if isinstance(body, str) else body

    async def answer(_request: web.Request) -> web.StreamResponse:
        response = web.Response(body=content, status=status, headers=headers)
        if content_type is None:
            del response.headers["Content-Type"]
        else:
            response.headers["Content-Type"] = content_type
        return response

    return answer


def reply_json(document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Handler:
    return reply(msgspec.json.encode(document), status, headers=headers)


def reply_status(
    code: int, reason: str, message: str, headers: Mapping[str, str] | None = None, **more: Any
) -> Handler:
    """A Kubernetes Status."""
    document = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return reply_json({**document, "message": message, "reason": reason, "code": code, **more}, code, headers)


def stream(
    chunks: Iterable[bytes],
    content_type: str = "application/json",
    *,
    then: Callable[[web.Request], Awaitable[None]] | None = None,
) -> Handler:
    """A body in chunks, each written by itself; ``then`` runs before the end, to hold the stream open or cut it off."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": content_type})
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if then is not None:
            await then(request)
        return response

    return answer


async def cut_off(request: web.Request) -> None:
    """Drops the connection without a word."""
    if request.transport is not None:
        request.transport.abort()
