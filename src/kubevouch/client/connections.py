"""The connections of a client, made with one TLS setting and ended together when it is replaced."""

from __future__ import annotations

import asyncio
import socket
import ssl

import aiohttp

from kubevouch.client.tls import ClientTLS

# Go's default transport keeps idle connections for 90 s, aiohttp's server drops them after 75: stay below both.
_IDLE_SECONDS = 60.0


class _Response(aiohttp.ClientResponse):
    """Its request may be given up before there is an answer: then the connection goes at once.

    To close it properly would be to wait for the server's word, which may never come, and nobody waits for a connection
    that has left the pool: a program that ends now would leave it open.
    """

    async def start(self, connection: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        try:
            return await super().start(connection)
        except BaseException:
            if connection.transport is not None:
                connection.transport.abort()
            raise


class Connections:
    """A pool. :meth:`acquire` and :meth:`release` count its users, so that a retired pool closes after the last.

    ``context`` is :func:`~kubevouch.client.tls.client_context` of ``tls``.
    """

    def __init__(self, tls: ClientTLS, context: ssl.SSLContext, connect_seconds: float) -> None:
        self.tls = tls
        self.session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                ssl=context,
                limit=0,  # a watch holds its connection: a limit would let watches starve requests
                keepalive_timeout=_IDLE_SECONDS,
                socket_factory=_socket,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            response_class=_Response,
            trust_env=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect_seconds),
        )
        self.retired = False
        self._users = 0
        self._streams: set[aiohttp.ClientResponse] = set()
        self._closing: asyncio.Task[None] | None = None

    def acquire(self) -> None:
        self._users += 1

    def release(self) -> None:
        self._users -= 1
        self._close_if_unused()

    def add_stream(self, response: aiohttp.ClientResponse) -> None:
        """A stream that :meth:`retire` may end; it counts as a user already."""
        self._streams.add(response)

    def drop_stream(self, response: aiohttp.ClientResponse) -> None:
        self._streams.discard(response)
        if response.connection is not None and response.connection.transport is not None:
            # More may come at any time; see _Response.
            response.connection.transport.abort()
        response.close()
        self.release()

    def retire(self) -> None:
        """End streams, let requests under way finish, then close."""
        self.retired = True
        for response in list(self._streams):
            response.close()
        self._close_if_unused()

    async def close(self) -> None:
        """Close now, whatever is under way, and wait until the sockets are gone."""
        self.retired = True
        await asyncio.shield(self._close())

    @property
    def closed(self) -> bool:
        return self._closing is not None and self._closing.done()

    def _close_if_unused(self) -> None:
        if self.retired and not self._users:
            self._close()

    def _close(self) -> asyncio.Task[None]:
        if self._closing is None:
            self._closing = asyncio.create_task(self.session.close())
        return self._closing


def _socket(address: tuple[int, int, int, str, tuple[object, ...]]) -> socket.socket:
    """A socket that notices a dead peer within 45 s, as client-go's HTTP/2 pings do (30 s idle, 15 s to answer)."""
    family, kind, protocol, _, _ = address
    sock = socket.socket(family, kind, protocol)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, seconds in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):  # macOS lacks the first
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), seconds)
    return sock
