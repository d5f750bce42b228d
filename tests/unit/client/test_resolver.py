"""client/resolver.py against name servers of the test: silent ones, liars, and many questions."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast

import pytest

from asynctest import async_test
from kubevouch.client.resolver import CACHE_SECONDS, DNSResolver, ResolverError, name_servers
from kubevouch.testing.clock import FakeClock
from kubevouch.util import dns_message

Answer = Callable[[bytes], list[bytes]]


class NameServer(asyncio.DatagramProtocol):
    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[bytes] = []
        self.ports: set[int] = set()
        self.transport: asyncio.DatagramTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.asked.append(data)
        self.ports.add(addr[1])
        for each in self.answer(data):
            self.transport.sendto(each, addr)


@asynccontextmanager
async def name_server(answer: Answer) -> AsyncIterator[tuple[NameServer, tuple[str, int]]]:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_datagram_endpoint(lambda: NameServer(answer), local_addr=("127.0.0.1", 0))
    try:
        yield protocol, transport.get_extra_info("sockname")
    finally:
        transport.close()


def says(**addresses: str) -> Answer:
    """IPv4 addresses of names, whose dots are written as underscores."""

    def answer(data: bytes) -> list[bytes]:
        end = data.index(b"\0", 12) + 1
        kind = struct.unpack_from("!H", data, end)[0]
        name = ".".join(part.decode() for part in _labels(data[12:end]))
        octets = bytes(map(int, addresses.get(name.replace(".", "_"), "").split("."))) if _has(name) else b""
        count = int(kind == dns_message.A and len(octets) == 4)
        head = data[:2] + struct.pack("!HHHHH", 0x8180, 1, count, 0, 0) + data[12 : end + 4]
        return [head + (b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 60, 4) + octets if count else b"")]

    def _has(name: str) -> bool:
        return name.replace(".", "_") in addresses

    return answer


def _labels(octets: bytes) -> list[bytes]:
    found, position = [], 0
    while octets[position]:
        found.append(octets[position + 1 : position + 1 + octets[position]])
        position += octets[position] + 1
    return found


@async_test
async def test_what_a_name_server_says_is_remembered_for_a_while() -> None:
    clock = FakeClock()
    before = threading.active_count()
    async with name_server(says(n1_example_com="10.0.0.9")) as (server, address):
        resolver = DNSResolver([address], clock)
        assert await resolver.addresses("n1.example.com") == {"10.0.0.9"}
        assert await resolver.addresses("n1.example.com") == {"10.0.0.9"}
        assert await resolver.names("10.0.0.9") == frozenset()
        # One for each kind of address, and one for the names; each from a port of its own.
        assert (len(server.asked), len(server.ports)) == (3, 3)
        assert len({each[:2] for each in server.asked}) > 1
        clock.advance(CACHE_SECONDS + 1)
        await resolver.addresses("n1.example.com")
        assert len(server.asked) == 5
    assert threading.active_count() == before


@async_test
async def test_a_silent_one_is_followed_by_the_next() -> None:
    async with (
        name_server(lambda _: []) as (_, silent),
        name_server(says(a_b="10.0.0.1")) as (_, other),
    ):
        resolver = DNSResolver([silent, other], FakeClock(), seconds=0.02)
        assert await resolver.addresses("a.b") == {"10.0.0.1"}
        with pytest.raises(ResolverError, match="no name server answers about x"):
            await DNSResolver([silent], FakeClock(), seconds=0.02).addresses("x.y")


@async_test
async def test_what_does_not_fit_is_passed_over() -> None:
    """Somebody who guesses the port is faster than the name server."""
    right = says(a_b="10.0.0.1")

    def forged(data: bytes) -> list[bytes]:
        wrong = bytes((data[0] ^ 1,)) + data[1:2]
        return [b"", wrong + right(data)[0][2:], *right(data)]

    async with name_server(forged) as (_, address):
        assert await DNSResolver([address], FakeClock()).addresses("a.b") == {"10.0.0.1"}


@async_test
async def test_a_flood_is_no_answer() -> None:
    async with name_server(lambda data: [data] * 50) as (_, address):
        with pytest.raises(ResolverError):
            await DNSResolver([address], FakeClock()).addresses("a.b")


@async_test
async def test_a_name_that_cannot_be_asked_for() -> None:
    async with name_server(says()) as (_, address):
        with pytest.raises(ResolverError):
            await DNSResolver([address], FakeClock()).addresses("a" * 64 + ".b")


def test_the_servers_of_a_machine() -> None:
    text = "# x\nsearch a\nnameserver 10.0.0.1\nnameserver\nnameserver name\n nameserver ::1\noptions x\n"
    assert name_servers(text) == ["10.0.0.1", "::1"]
    assert name_servers("nameserver 10.0.0.1\n" * 9) == ["10.0.0.1"] * 3
    assert name_servers("") == ["127.0.0.1"]
