"""Asking the name servers of this machine, without threads and within bounds.

ResolverError    no answer in time; what is asked is not known

The resolver of the C library would hold a thread for as long as a name server is silent.
"""

from __future__ import annotations

import asyncio
import ipaddress
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from kubevouch.util import dns_message
from kubevouch.util.clock import Clock
from kubevouch.util.dns_message import DNSMessageError
from kubevouch.util.expiring_cache import ExpiringCache

RESOLV_CONF = Path("/etc/resolv.conf")
SECONDS = 2.0
"""For one question to one name server."""
MAX_SERVERS = 3  # resolv.conf(5)
AT_ONCE = 16
CACHE_SIZE, CACHE_SECONDS = 4096, 60.0
_PORT = 53
_MAX_CONFIGURATION = 64 << 10


class ResolverError(Exception):
    """No answer in time."""


class Resolver(Protocol):
    """Names and addresses, in full and in lower case; nothing for what there is not."""

    async def addresses(self, name: str) -> frozenset[str]:
        """Raises :class:`ResolverError`."""
        ...

    async def names(self, address: str) -> frozenset[str]:
        """Raises :class:`ResolverError`."""
        ...


def name_servers(configuration: str) -> list[str]:
    """The addresses in a ``resolv.conf``."""
    found = []
    for line in configuration.splitlines():
        words = line.split()
        if len(words) >= 2 and words[0] == "nameserver":
            try:
                ipaddress.ip_address(words[1])
            except ValueError:
                continue
            found.append(words[1])
    return found[:MAX_SERVERS] or ["127.0.0.1"]


class DNSResolver:
    """Over UDP, a socket with a port of its own for each question, so that nobody guesses where to send another answer.

    Args:
        servers: address and port of each, in their order.
    """

    def __init__(self, servers: Sequence[tuple[str, int]], clock: Clock, *, seconds: float = SECONDS) -> None:
        self._servers = tuple(servers)
        self._seconds = seconds
        self._cache: ExpiringCache[tuple[str, int], frozenset[str]] = ExpiringCache(CACHE_SIZE, clock)
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def addresses(self, name: str) -> frozenset[str]:
        return await self._asked(name, dns_message.A) | await self._asked(name, dns_message.AAAA)

    async def names(self, address: str) -> frozenset[str]:
        return await self._asked(dns_message.reverse_name(address), dns_message.PTR)

    async def _asked(self, name: str, kind: int) -> frozenset[str]:
        known = self._cache.get((name, kind))
        if known is not None:
            return known
        async with self._turns:
            found = await self._first(name, kind)
        self._cache.put((name, kind), found, CACHE_SECONDS)
        return found

    async def _first(self, name: str, kind: int) -> frozenset[str]:
        failure: Exception | None = None
        for server in self._servers:
            try:
                async with asyncio.timeout(self._seconds):
                    return await _ask(server, name, kind)
            except (DNSMessageError, TimeoutError, OSError) as err:
                failure = err
        raise ResolverError(f"no name server answers about {name}: {failure}") from failure


def of_this_machine(clock: Clock) -> DNSResolver:
    """By ``/etc/resolv.conf`` as it is now."""
    try:
        with RESOLV_CONF.open("rb") as file:
            text = file.read(_MAX_CONFIGURATION).decode(errors="replace")
    except OSError:
        text = ""
    return DNSResolver([(server, _PORT) for server in name_servers(text)], clock)


async def _ask(server: tuple[str, int], name: str, kind: int) -> frozenset[str]:
    number = secrets.randbelow(1 << 16)
    asked = dns_message.question(number, name, kind)
    answered = _Answered()
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(lambda: answered, remote_addr=server)
    try:
        transport.sendto(asked)
        while True:
            message = await answered.messages.get()
            try:
                return dns_message.answers(message, number, name, kind)
            except DNSMessageError:
                # Whoever guesses the port may send anything; the server's own answer may still come.
                if answered.count >= _MOST_PACKETS:
                    raise
    finally:
        transport.close()


_MOST_PACKETS = 4


class _Answered(asyncio.DatagramProtocol):
    """The socket is connected: what another address sends does not come here."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[bytes] = asyncio.Queue()
        self.count = 0

    def datagram_received(self, data: bytes, addr: object) -> None:  # noqa: ARG002
        self.count += 1
        if self.count <= _MOST_PACKETS:
            self.messages.put_nowait(data)

    def error_received(self, exc: Exception) -> None:  # noqa: ARG002
        """A port where nobody listens: the time-out says so, or the next server answers."""
        self.count = _MOST_PACKETS
        self.messages.put_nowait(b"")
