"""The HTTPS edge itself, over a real socket, with a handler that answers what the test wants."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

import aio
from kubevouch.server import https
from kubevouch.server.https import HTTPSServer
from kubevouch.server.request import Request, Result, WatchItem, WatchResult
from kubevouch.standalone import network
from kubevouch.util.clock import SystemClock

PIECE = b"x" * 65_536


class Endless:
    """A watch that always has more; stands in for the encoder too."""

    resource: Any = None

    def __init__(self) -> None:
        self.closed = asyncio.Event()
        self.pieces = 0

    def frames(self, *_: object, **__: object) -> bytes:
        self.pieces += 1
        return PIECE

    async def batches(self) -> AsyncGenerator[list[WatchItem], None]:
        try:
            while True:
                yield []
                await asyncio.sleep(0)
        finally:
            self.closed.set()

    async def handle(self, _request: Request) -> Result:
        return WatchResult(self.batches(), self)


async def _opened(watch: Endless) -> tuple[HTTPSServer, asyncio.StreamReader, asyncio.StreamWriter]:
    server = HTTPSServer(watch.handle, SystemClock())
    (bound,) = network.bind(network.LOOPBACK, 0)
    await server.start([bound], None)
    reader, writer = await asyncio.open_connection(*bound.getsockname(), limit=1024)
    writer.write(b"GET /watch HTTP/1.1\r\nHost: here\r\n\r\n")
    return server, reader, writer


def test_a_watcher_that_reads_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(https, "STREAM_WRITE_SECONDS", 0.05)

    async def scenario() -> None:
        watch = Endless()
        server, _, writer = await _opened(watch)
        await asyncio.wait_for(watch.closed.wait(), 10)
        # What lies between is what the sockets' buffers take, not what the watch could give.
        assert watch.pieces < 1000
        writer.close()
        await server.close(0)

    aio.run(scenario())


def test_a_slow_watcher_gets_everything_in_order() -> None:
    async def scenario() -> None:
        watch = Endless()
        server, reader, writer = await _opened(watch)
        await reader.readuntil(b"\r\n\r\n")
        for _ in range(50):
            assert int(await reader.readline(), 16) == len(PIECE)
            assert await reader.readexactly(len(PIECE) + 2) == PIECE + b"\r\n"
            await asyncio.sleep(0)
        assert not watch.closed.is_set()
        writer.close()
        await asyncio.wait_for(watch.closed.wait(), 10)
        await server.close(0)

    aio.run(scenario())
