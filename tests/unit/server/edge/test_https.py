"""The HTTPS edge itself, over a real socket, with a handler that answers what the test wants."""

import asyncio
import gzip
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager

import pytest

import aio
from kubevouch.api.catalog import CONFIG_MAPS
from kubevouch.machinery import errors
from kubevouch.registry.interface import Printer
from kubevouch.registry.reader import ListResult
from kubevouch.server.edge.https import HTTPSServer
from kubevouch.server.edge.timeouts import Timeouts
from kubevouch.server.encoding import ObjectEncoder
from kubevouch.server.request import ListingResult, Request, Result, WatchResult
from kubevouch.server.watch_item import WatchItem
from kubevouch.standalone import network
from kubevouch.storage.interface import Revision
from kubevouch.util.clock import SystemClock

PIECE = b"x" * 65_536
USUAL = Timeouts()


class Endless(ObjectEncoder):
    """A watch that always has more; stands in for the encoder too."""

    def __init__(self) -> None:
        super().__init__(CONFIG_MAPS, Printer((), lambda *_: ()))
        self.closed = asyncio.Event()
        self.made = 0

    def frames(self, *_: object, **__: object) -> bytes:
        self.made += 1
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


async def _opened(
    watch: Endless, timeouts: Timeouts = USUAL
) -> tuple[HTTPSServer, asyncio.StreamReader, asyncio.StreamWriter]:
    server = HTTPSServer(watch.handle, SystemClock(), timeouts=timeouts)
    (bound,) = network.bind(network.LOOPBACK, 0)
    await server.start([bound], None)
    reader, writer = await asyncio.open_connection(*bound.getsockname(), limit=1024)
    writer.write(b"GET /watch HTTP/1.1\r\nHost: here\r\n\r\n")
    return server, reader, writer


def test_a_watcher_that_reads_nothing_is_cut_off() -> None:
    async def scenario() -> None:
        watch = Endless()
        server, _, writer = await _opened(watch, Timeouts(frame=0.05))
        await asyncio.wait_for(watch.closed.wait(), 120)
        # What lies between is what the sockets' buffers take, not what the watch could give.
        assert watch.made < 1000
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
        await asyncio.wait_for(watch.closed.wait(), 120)
        await server.close(0)

    aio.run(scenario())


class Listing(ObjectEncoder):
    """A list whose pieces the test names; stands in for the encoder too."""

    def __init__(self, pieces: list[bytes], *, fails: bool = False) -> None:
        super().__init__(CONFIG_MAPS, Printer((), lambda *_: ()))
        self._pieces = pieces
        self._fails = fails
        self.made = 0
        self.ended = asyncio.Event()

    def pieces(self, *_: object) -> Iterator[bytes]:
        try:
            for piece in self._pieces:
                self.made += 1
                yield piece
            if self._fails:
                raise RuntimeError("the last item cannot be encoded")
        finally:
            self.ended.set()

    async def handle(self, _request: Request) -> Result:
        return ListingResult(ListResult([], Revision(1)), self)


@asynccontextmanager
async def _asked(
    listing: Listing, headers: str = "", version: str = "1.1", timeouts: Timeouts = USUAL
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter], None]:
    server = HTTPSServer(listing.handle, SystemClock(), timeouts=timeouts)
    (bound,) = network.bind(network.LOOPBACK, 0)
    await server.start([bound], None)
    reader, writer = await asyncio.open_connection(*bound.getsockname(), limit=1024)
    writer.write(f"GET /list HTTP/{version}\r\nHost: here\r\n{headers}\r\n".encode())
    try:
        yield reader, writer
    finally:
        writer.close()
        await server.close(0)


async def _chunks(reader: asyncio.StreamReader) -> list[bytes]:
    """Raises ``IncompleteReadError`` or ``ValueError`` for a body without its end."""
    found = []
    while size := int(await reader.readline(), 16):
        found.append((await reader.readexactly(size + 2))[:-2])
    assert await reader.readline() == b"\r\n"
    return found


# Empty ones are those of a protobuf list, while its items are encoded.
PIECES = [b"", b"", *(bytes([65 + number % 26]) * (40_000 + number) for number in range(40))]


@pytest.mark.parametrize("loop", aio.LOOPS)
def test_others_have_their_turn_while_a_long_list_is_written(loop: str) -> None:
    async def scenario() -> None:
        listing, seen = Listing(PIECES), []

        async def other() -> None:
            while True:
                seen.append(listing.made)
                await asyncio.sleep(0)

        async with _asked(listing) as (reader, _):
            others = asyncio.create_task(other())
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"transfer-encoding: chunked" in head.lower()
            assert b"".join(await _chunks(reader)) == b"".join(PIECES)
            others.cancel()
        assert len(set(seen)) >= len(PIECES) - 3

    aio.run(scenario(), loop=loop)


def test_a_list_of_one_piece_has_a_length() -> None:
    async def scenario() -> None:
        async with _asked(Listing([b"short"])) as (reader, _):
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"\r\ncontent-length: 5\r\n" in head.lower()
            assert await reader.readexactly(5) == b"short"

    aio.run(scenario())


def test_a_long_list_is_compressed_for_who_asks() -> None:
    async def scenario() -> None:
        async with _asked(Listing(PIECES), "Accept-Encoding: gzip\r\n") as (reader, _):
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"\r\ncontent-encoding: gzip\r\n" in head.lower()
            assert gzip.decompress(b"".join(await _chunks(reader))) == b"".join(PIECES)

    aio.run(scenario())


def test_a_client_of_http_1_0_reads_to_the_end_of_the_connection() -> None:
    async def scenario() -> None:
        async with _asked(Listing(PIECES), version="1.0") as (reader, _):
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"transfer-encoding" not in head.lower()
            assert await reader.read() == b"".join(PIECES)

    aio.run(scenario())


@pytest.mark.parametrize("loop", aio.LOOPS)
def test_a_list_waits_for_its_reader_but_not_for_ever(loop: str) -> None:
    async def scenario() -> None:
        listing = Listing([PIECE] * 2000)
        async with _asked(listing, timeouts=Timeouts(answer=0.2)):
            await asyncio.wait_for(listing.ended.wait(), 120)
        # What lies between is what the sockets' buffers take.
        assert listing.made < 1000

    aio.run(scenario(), loop=loop)


def test_a_list_that_breaks_off_has_no_end() -> None:
    async def scenario() -> None:
        async with _asked(Listing(PIECES, fails=True)) as (reader, _):
            await reader.readuntil(b"\r\n\r\n")
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError, ValueError)):
                await _chunks(reader)

    aio.run(scenario())


@pytest.mark.parametrize(("body", "told"), [(b"", True), (b"1234", False)])
def test_an_answer_before_the_whole_body_says_that_it_is_the_last_one(body: bytes, told: bool) -> None:
    """A client would send the next request over a connection that ends."""

    async def refused(_request: Request) -> Result:
        raise errors.bad_request("no")

    async def scenario() -> None:
        server = HTTPSServer(refused, SystemClock())
        (bound,) = network.bind(network.LOOPBACK, 0)
        await server.start([bound], None)
        reader, writer = await asyncio.open_connection(*bound.getsockname())
        writer.write(b"POST /x HTTP/1.1\r\nHost: here\r\nContent-Length: 4\r\n\r\n" + body)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 ")
        assert (b"\r\nConnection: close\r\n" in head) == told
        if told:
            await reader.read()  # to the end
        writer.close()
        await server.close(0)

    aio.run(scenario())
