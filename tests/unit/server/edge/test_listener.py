"""server/edge/listener.py: clients that say nothing, something else, or go away before TLS stands."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

import aio
from kubevouch.server.edge.listener import Listener
from kubevouch.server.edge.timeouts import Timeouts
from kubevouch.server.flow_control.connections import ConnectionLimits
from kubevouch.standalone import network
from kubevouch.util.clock import SystemClock
from throwaway_ca import ThrowawayCA, server_context

CA = ThrowawayCA()
on_each_loop = pytest.mark.parametrize("loop", aio.LOOPS)


class Echo(asyncio.Protocol):
    def __init__(self) -> None:
        self.gone: list[Callable[[], None]] = []

    def connection_lost(self, exc: Exception | None) -> None:
        for callback in self.gone:
            callback()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's only acts like one

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


def when_gone(protocol: asyncio.Protocol, callback: Callable[[], None]) -> None:
    assert isinstance(protocol, Echo)
    protocol.gone.append(callback)


USUAL = Timeouts()


@asynccontextmanager
async def listening(
    folder: Path, timeouts: Timeouts = USUAL, limits: ConnectionLimits | None = None
) -> AsyncIterator[tuple[str, int]]:
    (bound,) = network.bind(network.LOOPBACK, 0)
    address: tuple[str, int] = bound.getsockname()
    limits = limits or ConnectionLimits()
    context = server_context(CA.issue(), folder)
    served = Listener(bound, Echo, context, SystemClock(), limits, when_gone, timeouts=timeouts)
    try:
        yield address
    finally:
        await served.close()
    while limits.open:  # the last one is still being closed  # noqa: ASYNC110
        await asyncio.sleep(0)


async def echoed(address: tuple[str, int]) -> bytes:
    trust = ssl.create_default_context(cadata=CA.bundle.decode())
    reader, writer = await asyncio.open_connection(*address, ssl=trust)
    writer.write(b"hello")
    answer = await reader.readexactly(5)
    writer.transport.abort()
    return answer


@on_each_loop
def test_plain_http_is_told_so(tmp_path: Path, loop: str) -> None:
    async def scenario() -> None:
        async with listening(tmp_path) as address:
            reader, writer = await asyncio.open_connection(*address)
            writer.write(b"GET /version HTTP/1.1\r\nHost: here\r\n\r\n")
            assert await reader.read() == (
                b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
            )
            writer.close()
            assert await echoed(address) == b"hello"

    aio.run(scenario(), loop=loop)


@on_each_loop
@pytest.mark.parametrize("said", [b"\x00" * 64, b"SSH-2.0-OpenSSH_9.2\r\n", b"\x16\x03\x01\x00\x05hello"])
def test_what_is_neither_ends(tmp_path: Path, loop: str, said: bytes) -> None:
    async def scenario() -> None:
        async with listening(tmp_path) as address:
            reader, writer = await asyncio.open_connection(*address)
            writer.write(said)
            try:
                answer = await reader.read()
            except ConnectionResetError:
                answer = b""
            assert not answer.startswith(b"HTTP")
            writer.close()
            assert await echoed(address) == b"hello"

    aio.run(scenario(), loop=loop)


@on_each_loop
def test_who_says_nothing_does_not_outlive_the_listener(tmp_path: Path, loop: str) -> None:
    async def scenario() -> None:
        async with listening(tmp_path) as address:
            silent, half = [await asyncio.open_connection(*address) for _ in range(2)]
            half[1].write(b"\x16\x03\x01")
            assert await echoed(address) == b"hello"
        for reader, writer in (silent, half):
            try:
                assert await reader.read() == b""
            except ConnectionResetError:
                pass
            writer.close()

    aio.run(scenario(), loop=loop)


@on_each_loop
def test_who_says_nothing_is_cut_off(tmp_path: Path, loop: str) -> None:
    async def scenario() -> None:
        async with listening(tmp_path, Timeouts(handshake=0.05)) as address:
            reader, writer = await asyncio.open_connection(*address)
            assert await reader.read() == b""
            writer.close()

    aio.run(scenario(), loop=loop)


@on_each_loop
def test_when_there_is_no_room_the_longest_silent_one_goes(tmp_path: Path, loop: str) -> None:
    async def scenario() -> None:
        limits = ConnectionLimits(total=2, from_one_source=3)
        async with listening(tmp_path, limits=limits) as address:
            silent = [await asyncio.open_connection(*address) for _ in range(2)]
            while limits.open < 2:  # noqa: ASYNC110 - the listener tells nobody
                await asyncio.sleep(0)
            assert await echoed(address) == b"hello"
            assert await silent[0][0].read() == b""
            assert limits.refused == 1
            for _, writer in silent:
                writer.close()

    aio.run(scenario(), loop=loop)


@on_each_loop
def test_a_network_with_most_makes_room_of_its_own(tmp_path: Path, loop: str) -> None:
    """Nine of ten places may be one network's; the last one is for others, and a silent one of theirs stays."""

    async def scenario() -> None:
        limits = ConnectionLimits(total=10, from_one_source=10)
        async with listening(tmp_path, limits=limits) as address:
            connect = asyncio.open_connection
            crowd = [await connect(*address, local_addr=("127.1.0.1", 0)) for _ in range(9)]
            while limits.open < 9:  # noqa: ASYNC110 - the listener tells nobody
                await asyncio.sleep(0)
            other = await connect(*address, local_addr=("127.2.0.1", 0))
            while limits.open < 10:  # noqa: ASYNC110
                await asyncio.sleep(0)
            more = await connect(*address, local_addr=("127.1.0.2", 0))
            assert await crowd[0][0].read() == b""
            assert limits.refused == 1
            assert not other[0].at_eof()
            for _, writer in (*crowd, other, more):
                writer.close()

    aio.run(scenario(), loop=loop)
