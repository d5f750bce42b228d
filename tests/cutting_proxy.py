"""A TCP proxy whose connections a test can cut: what a client sees when a machine between it and the server dies."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from kubevouch.testing.loop_thread import LoopThread

HOST = "127.0.0.1"


class CuttingProxy:
    """Forwards 127.0.0.1:``port`` to ``target`` on the same host, which may be away for a while."""

    def __init__(self, target: int) -> None:
        self.port = 0
        self._target = target
        self._thread = LoopThread("cutting-proxy")
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self.accepted = 0
        self._is_refusing = False

    def __enter__(self) -> CuttingProxy:
        self._thread.start()
        self._thread.call(self._begin())
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.call(self._end())
        self._thread.close()

    def cut(self) -> None:
        """Break every open connection, both sides."""
        self._thread.call(self._cut())

    @contextlib.contextmanager
    def refusing(self) -> Iterator[None]:
        """Break every open connection, and each new one until the end of the block."""
        self._is_refusing = True
        self.cut()
        yield
        self._is_refusing = False

    async def _begin(self) -> None:
        self._server = await asyncio.start_server(self._serve, HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _end(self) -> None:
        assert self._server is not None  # entered
        self._server.close()
        await self._cut()

    async def _cut(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        if self._is_refusing:
            writer.transport.abort()
            return
        try:
            upstream, downstream = await asyncio.open_connection(HOST, self._target)
        except OSError:
            writer.transport.abort()
            return
        ours = {writer, downstream}
        self._open |= ours
        try:
            await asyncio.gather(_forward(reader, downstream), _forward(upstream, writer))
        except OSError:
            pass
        finally:
            self._open -= ours
            for end in ours:
                end.transport.abort()


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while part := await reader.read(1 << 16):
        writer.write(part)
        await writer.drain()
    writer.transport.abort()
