"""Links between processes that can be cut, held up and left half open: the network's part in what goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

HOST = "127.0.0.1"
_PIECE = 1 << 16


class Link:
    """Forwards connections to 127.0.0.1:``port`` to the port that ``target`` gives; None refuses them.

    Runs in the loop of whoever opens it.
    """

    def __init__(self, name: str, target: Callable[[], int | None]) -> None:
        self.name = name
        self.port = 0
        self._target = target
        self._server: asyncio.Server | None = None
        self._pairs: set[_Pair] = set()
        self._requests = asyncio.Event()
        self._answers = asyncio.Event()
        self.release()

    async def open(self) -> Link:
        self._server = await asyncio.start_server(self._serve, HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self.release()
        self.cut()
        while self._pairs:  # noqa: ASYNC110 - each ends by itself in its next turns
            await asyncio.sleep(0)

    @property
    def url(self) -> str:
        return f"https://{HOST}:{self.port}"

    # -------------------------------------------------------------- faults

    def cut(self) -> None:
        """Reset every connection, both ends."""
        for pair in list(self._pairs):
            pair.abort()

    def hold(self) -> None:
        """Nothing gets through in either direction, and nobody is told: what is under way waits, as packets do that are
        sent again."""
        self._requests.clear()
        self._answers.clear()

    def hold_answers(self) -> None:
        """What is asked arrives; what is answered does not."""
        self._answers.clear()

    def release(self) -> None:
        self._requests.set()
        self._answers.set()

    def leave_half_open(self) -> None:
        """The server's ends are reset; those of the clients stay open and hear nothing until :meth:`heal`."""
        for pair in list(self._pairs):
            pair.forget()

    def heal(self) -> None:
        """All as it was. Who is left with half a connection is told, as the kernel's keepalive does after some time."""
        self.release()
        for pair in list(self._pairs):
            if pair.forgotten:
                pair.abort()

    # -------------------------------------------------------------- forwarding

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = self._target()
        try:
            if port is None:
                raise ConnectionRefusedError
            upstream, downstream = await asyncio.open_connection(HOST, port)
        except OSError:
            writer.transport.abort()
            return
        pair = _Pair(writer, downstream)
        self._pairs.add(pair)
        try:
            await asyncio.gather(
                self._forward(reader, downstream, self._requests), self._forward(upstream, writer, self._answers, pair)
            )
        except OSError:
            pass
        finally:
            self._pairs.discard(pair)
            pair.abort()

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: asyncio.Event, pair: _Pair | None = None
    ) -> None:
        while piece := await reader.read(_PIECE):
            await way.wait()
            writer.write(piece)
            await writer.drain()
        if pair is not None and pair.forgotten:
            return  # the client's end is left as it is
        writer.transport.abort()


class _Pair:
    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.forgotten = False
        self._client = client
        self._server = server

    def abort(self) -> None:
        self._client.transport.abort()
        self._server.transport.abort()

    def forget(self) -> None:
        self.forgotten = True
        self._server.transport.abort()
