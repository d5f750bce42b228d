"""The server's connection, without a socket, held to what the grammar says of the same bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import http_oracle
from http_oracle import Message
from kubevouch.machinery.errors import APIStatusError
from kubevouch.server.edge.https import HTTPSServer
from kubevouch.server.request import BytesResult, Request, Result
from kubevouch.util.clock import SystemClock

MAX_BODY = 1 << 20
# Larger ones may be refused for their size, in the middle of what the grammar waits for.
MAX_COMPARED = 4096
# Turns of the loop in which nothing happens, until nothing will: no handler here waits for more than itself.
IDLE_TURNS = 12


_GET = b"GET /b HTTP/1.1\r\nHost: h\r\n\r\n"
_CHUNKED = b"PUT /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
SEEDS = (
    b"GET /api?limit=5 HTTP/1.1\r\nHost: h:6443\r\nAccept: */*\r\n\r\n" + _GET,
    b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello" + _GET,
    _CHUNKED + b"3;x=y\r\nabc\r\n0\r\nT: u\r\n\r\n" + _GET,
    b"GET http://h/a HTTP/1.1\r\nHost: h\r\n\r\n",
    b"DELETE / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
)
WORDS = (
    b"\r\n", b"\n", b"\r", b" ", b"\t", b"\0", b":", b" :", b"\r\n ", b"#", b"\xff", b"+", b"-", b"_", b"gzip, ",
    b"CONNECT ",
    b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"Host: h\r\n", b"Content-Length: 5\r\n", b"Content-Length: 0\r\n",
    b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n", b"Upgrade: websocket\r\nConnection: upgrade\r\n",
    b"Expect: 100-continue\r\n", b"0\r\n\r\n", b"1\r\na\r\n", b';x="y\\""', _GET, _CHUNKED,
)  # fmt: skip


class DifferenceError(AssertionError):
    """Server and grammar read different requests."""


class _Wire(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_over = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def is_closing(self) -> bool:
        return self.is_over

    def close(self) -> None:
        self.is_over = True

    abort = close

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading

    def get_write_buffer_size(self) -> int:
        return 0


@dataclass(frozen=True)
class Served:
    """What the server has read, and whether it has refused what came behind, for its size or otherwise."""

    messages: list[Message]
    refused: bool
    too_large: bool


def served(pieces: Sequence[bytes]) -> Served:
    """Has a connection of a server receive ``pieces``, one after the other."""
    with asyncio.Runner() as runner:
        return runner.run(_served(pieces))


async def _served(pieces: Sequence[bytes]) -> Served:
    messages: list[Message] = []

    async def answer(request: Request) -> Result:
        target = f"{request.path}?{request.query.raw}" if request.query.raw else request.path
        try:
            body = await request.read_body(MAX_BODY)
        except APIStatusError as err:
            if err.code == 400:
                raise
            body = b""  # of another type or too long: the request is one
        fields = tuple((name.lower().encode(), value.encode()) for name, value in request.headers.items())
        messages.append(Message(request.method.encode(), target.encode(), fields, body))
        return BytesResult(b"", "text/plain")

    server = HTTPSServer(answer, SystemClock())
    await server.start([], None)
    assert server._aiohttp is not None  # started
    connection, wire = server._aiohttp(), _Wire()
    connection.connection_made(wire)
    idle, seen = 0, (0, 0)
    waiting = list(pieces)
    while idle < IDLE_TURNS:
        await asyncio.sleep(0)
        if idle > 2 and waiting and not wire.is_over:
            connection.data_received(waiting.pop(0))
            idle = 0
        state = (len(wire.written), len(messages))
        idle, seen = (idle + 1 if state == seen else 0), state
    lines = wire.written.splitlines()
    codes = {line[9:12] for line in lines if line.startswith(b"HTTP/1.")} & {b"400", b"431", b"501", b"505"}
    connection.connection_lost(None)
    await server.close(0)
    return Served(messages, bool(codes), b"431" in codes)


def compare(data: bytes) -> None:
    """Raises :class:`DifferenceError`."""
    expected = http_oracle.read(data)
    middle = len(data) // 2
    for pieces in ([data], [data[:middle], data[middle:]]):
        # A head that can be none is refused once its lines are there.
        found = served([*pieces, b"\r\n\r\n"] if expected.refused else pieces)
        wanted = [_as_served(each) for each in expected.messages]
        got = found.messages[: len(wanted)] if expected.open_ended else found.messages
        if found.too_large or len(data) > MAX_COMPARED:
            wanted = wanted[: len(got)]
        if got != wanted:
            raise DifferenceError(f"of {pieces!r} the server read {got!r}, expected {wanted!r}")
        if found.refused != expected.refused and not (expected.open_ended or len(data) > MAX_COMPARED):
            raise DifferenceError(f"{pieces!r}: refused {found.refused}, expected {expected.refused}")


def _as_served(message: Message) -> Message:
    path, _, query = message.target.partition(b"?")
    target = path + b"?" + query if query else path
    fields = tuple((name.lower(), value.decode("utf-8", "replace").encode()) for name, value in message.fields)
    encodings = [value.lower() for name, value in fields if name == b"content-encoding"]
    kinds = [value.lower() for name, value in fields if name == b"content-type"]
    is_read = all(each in (b"", b"identity") for each in encodings) and not (kinds[:1] or [b""])[0].startswith(b"multi")
    return Message(message.method, target, fields, message.body if is_read else b"")
