"""Accepts connections and sees each through its TLS handshake.

asyncio's own servers do this too, and let everybody in: any number of connections of one source, any number of
handshakes at once, each for as long as its time-out. Here sources are counted before the handshake, handshakes take
turns, and the oldest that is not done gives way when there is no room. Plain HTTP, which asyncio answers with silence,
gets the sentence that it gets from Go's server, and so from kube-apiserver.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from contextlib import nullcontext

from kubevouch.server.edge.timeouts import Timeouts
from kubevouch.server.flow_control.connections import ConnectionLimits
from kubevouch.server.flow_control.handshakes import HandshakeSlots
from kubevouch.util.addresses import source_prefix, wider_prefixes
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

log = get_logger("server")

# What asyncio waits after it ran out of descriptors.
_PAUSE_SECONDS = 1.0
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
# Go's net/http, tlsRecordHeaderLooksLikeHTTP, and its answer (1.24).
_HTTP_HEADS = (b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO")
_HTTP_ANSWER = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
_DRAIN_BYTES = 1 << 16
# For the client's goodbye after the server's, while everything that the connection holds stays.
_GOODBYE_SECONDS = 3.0
# What the kernel takes ahead (it doubles this), and so what one reading brings into memory, before anybody knows who
# it is from: clients that mean it send less.
_RECEIVE_BUFFER = 16 * 1024
# RFC 8446 section 5.1: type, version, length, and the most that a record holds.
_RECORD_HEAD = 5
_HANDSHAKE = b"\x16"
_MAX_RECORD = 1 << 14


class Listener:
    """Serves one bound, listening, non-blocking socket, which it closes at its end.

    Args:
        protocol: makes the protocol of a connection; it sees the connection once the handshake is done.
        context: None for plain TCP.
        limits: whoever is over them is hung up on before the handshake.
        handshakes: how many run at once.
        when_gone: has a callback called when the connection of a protocol is gone.
    """

    def __init__(
        self,
        bound: socket.socket,
        protocol: Callable[[], asyncio.Protocol],
        context: ssl.SSLContext | None,
        clock: Clock,
        limits: ConnectionLimits,
        when_gone: Callable[[asyncio.Protocol, Callable[[], None]], None],
        handshakes: HandshakeSlots | None = None,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - frozen
    ) -> None:
        # asyncio's own loop would wait in accept() itself.
        bound.setblocking(False)
        self._bound = bound
        self._protocol = protocol
        self._context = context
        self._clock = clock
        self._limits = limits
        self._when_gone = when_gone
        self._handshakes = handshakes or HandshakeSlots()
        self._seconds = timeouts.handshake
        # In the order in which they came, with their networks; and those of each network.
        self._greetings: dict[asyncio.Task[None], str] = {}
        self._by_network: dict[str, dict[asyncio.Task[None], None]] = {}
        self._accepting = asyncio.create_task(self._accept(), name="listener")

    async def close(self) -> None:
        """Stop accepting and cut off who has not finished a handshake. Connections that are made go on."""
        tasks = {self._accepting, *self._greetings}
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        self._bound.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, peer = await loop.sock_accept(self._bound)
            except OSError as err:
                # A client that gave up while it was queued is nobody's error.
                if err.errno in _EXHAUSTED:
                    log.error("no connection can be accepted", error=str(err))
                    await self._clock.sleep(_PAUSE_SECONDS)
                continue
            source = source_prefix(str(peer[0])) if isinstance(peer, tuple) else ""
            network = _network_of(source)
            oldest = None if self._limits.has_room(source) else self._which_gives_way(source, network)
            if not self._limits.admit(source, gives_way=oldest is not None):
                connection.close()
                continue
            if oldest is not None:
                # Whoever means it has finished a handshake by now: clients that say nothing lock nobody out.
                self._limits.refused += 1
                self._forget(oldest)
                oldest.cancel()
            task = loop.create_task(self._greet(connection, source))
            self._greetings[task] = network
            self._by_network.setdefault(network, {})[task] = None
            task.add_done_callback(self._forget)

    def _which_gives_way(self, source: str, network: str) -> asyncio.Task[None] | None:
        """The oldest of the same network, so that one that has most costs no other; else the oldest of all."""
        own = next(iter(self._by_network.get(network, ())), None)
        if own is not None or not self._limits.has_room(source, leaving=1):
            return own
        return next(iter(self._greetings), None)

    def _forget(self, greeting: asyncio.Task[None]) -> None:
        network = self._greetings.pop(greeting, None)
        if network is not None:
            of_network = self._by_network[network]
            del of_network[greeting]
            if not of_network:
                del self._by_network[network]

    async def _greet(self, connection: socket.socket, source: str) -> None:
        handed_over = counted = False
        try:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
            if self._context is not None:
                head = _whole_hello(connection)
                if not head:
                    async with asyncio.timeout(self._seconds):
                        head = await _first_message(connection)
                if not head or any(word.startswith(head) for word in _HTTP_HEADS):
                    _refuse_http(connection)
                    return
            async with self._handshakes.slot(source) if self._context is not None else nullcontext():
                handed_over = True
                served = self._protocol()
                await asyncio.get_running_loop().connect_accepted_socket(
                    lambda: served,  # uvloop gives back its TLS layer in place of the protocol
                    connection,
                    ssl=self._context,
                    ssl_handshake_timeout=None if self._context is None else self._seconds,
                    ssl_shutdown_timeout=None if self._context is None else _GOODBYE_SECONDS,
                )
            self._when_gone(served, lambda: self._limits.release(source))
            counted = True
        except (OSError, TimeoutError) as err:
            log.debug("no TLS handshake", error=str(err) or type(err).__name__)
        finally:
            if not handed_over:
                connection.close()
            if not counted:
                self._limits.release(source)


def _network_of(source: str) -> str:
    """The widest network around a source; the source itself where there is none."""
    return (source, *wider_prefixes(source))[-1]


def _whole_hello(connection: socket.socket) -> bytes:
    """The head of a handshake's first record, if all of it is there already; else nothing.

    It comes right behind the client's part of TCP's handshake: nobody has to wait for it then. Raises ``OSError``.
    """
    try:
        seen = connection.recv(_RECORD_HEAD + _MAX_RECORD, socket.MSG_PEEK)
    except BlockingIOError:
        return b""
    is_whole = seen.startswith(_HANDSHAKE) and len(seen) >= _RECORD_HEAD + _record_length(seen)
    return seen[:_RECORD_HEAD] if is_whole else b""


async def _first_message(connection: socket.socket) -> bytes:
    """The head of what the client says first, left in place for TLS to read; empty if it went away.

    A handshake's first record is waited for as a whole, so that who sends half of one takes nobody's slot.
    """
    head = await _peek(connection, _RECORD_HEAD)
    if head.startswith(_HANDSHAKE) and len(head) == _RECORD_HEAD:
        await _peek(connection, _RECORD_HEAD + _record_length(head))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
    return head


def _record_length(head: bytes) -> int:
    return min(int.from_bytes(head[3:_RECORD_HEAD], "big"), _MAX_RECORD)


async def _peek(connection: socket.socket, wanted: int) -> bytes:
    """The first bytes once ``wanted`` are there, or fewer if no more will come; at most a record's head."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wanted)
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(connection, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(connection)
    return connection.recv(_RECORD_HEAD, socket.MSG_PEEK)


def _refuse_http(connection: socket.socket) -> None:
    """Raises ``OSError``. What was sent is read first: closing over unread bytes would take the answer back."""
    connection.send(_HTTP_ANSWER)
    connection.shutdown(socket.SHUT_WR)
    connection.recv(_DRAIN_BYTES)
