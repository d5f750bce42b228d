"""Reads: a list of many requests, and many watchers of one object."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import ssl
import statistics
import time
from dataclasses import dataclass
from typing import cast

from cluster import Cluster
from http1 import Connection, request_head
from joins import CSRS

CHANGES = 30

_CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
_NAME = "watched"
_MERGE_PATCH = "application/merge-patch+json"
_MODIFIED = b'"MODIFIED"'
_CONTINUE = re.compile(rb'"continue":"([^"]+)"')
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@dataclass(frozen=True)
class Lists:
    """Seconds to the last byte: the first list of an encoding after a start, and the median of those that follow."""

    cold: float
    warm: float


async def lists(cluster: Cluster, accept: str, repeats: int) -> Lists:
    """Lists everything, over one kept connection."""
    await cluster.quiet()
    connection = await cluster.connect()

    async def once() -> float:
        begun = time.perf_counter()
        await connection.request("GET", CSRS, accept=accept)
        return time.perf_counter() - begun

    cold, *warm = [await once() for _ in range(1 + repeats)]
    connection.close()
    return Lists(cold, statistics.median(warm))


async def stall(cluster: Cluster, accept: str, repeats: int) -> float:
    """The longest get, in seconds, of one client while another lists everything; the median of several lists."""
    admin = await cluster.connect_as_admin()
    longest = []
    for _ in range(repeats):
        # In a thread, so that what is measured is the server's other work and not this client's.
        listing = asyncio.create_task(asyncio.to_thread(_read_list, cluster, accept))
        waits = []
        while not listing.done():
            begun = time.perf_counter()
            await admin.request("GET", "/api/v1/namespaces/default")
            waits.append(time.perf_counter() - begun)
        await listing
        longest.append(max(waits))
    admin.close()
    return statistics.median(longest)


def _read_list(cluster: Cluster, accept: str) -> None:
    with (
        socket.create_connection((cluster.host, cluster.port)) as plain,
        cluster.admin_context().wrap_socket(plain, server_hostname=cluster.host) as connection,
    ):
        head = request_head(cluster.host, cluster.port, "").decode()
        connection.sendall(f"GET {CSRS}{head}Accept: {accept}\r\nConnection: close\r\n\r\n".encode())
        buffer = bytearray(1 << 16)
        if not connection.recv_into(buffer) or not buffer.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"listing failed: {bytes(buffer[:300])!r}")
        while connection.recv_into(buffer):
            pass


async def pages(cluster: Cluster, size: int) -> float:
    """Seconds to read everything in pages of ``size``."""
    connection = await cluster.connect()
    begun = time.perf_counter()
    token = ""
    while True:
        path = f"{CSRS}?limit={size}" + (f"&continue={token}" if token else "")
        found = _CONTINUE.search(await connection.request("GET", path))
        if found is None:
            break
        token = found[1].decode()
    took = time.perf_counter() - begun
    connection.close()
    return took


@dataclass(frozen=True)
class Heard:
    """For each change the seconds from sending it until the first and the last watcher had it."""

    first: list[float]
    last: list[float]
    rss_mib_a_watcher: float


class _Watcher(asyncio.Protocol):
    """A raw reader: hundreds of streams would measure the client."""

    def __init__(self, head: bytes, heard: list[float], told: asyncio.Queue[None]) -> None:
        self._head = head
        self._heard = heard
        self._told = told

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        path = f"{_CONFIG_MAPS}?watch=true&fieldSelector=metadata.name%3D{_NAME}"
        # uvloop's transports are none of asyncio's classes.
        cast("asyncio.Transport", transport).write(f"GET {path}".encode() + self._head + b"\r\n")

    def data_received(self, piece: bytes) -> None:
        if _MODIFIED in piece:
            self._heard.append(time.perf_counter())
            self._told.put_nowait(None)
        elif b'"ADDED"' in piece:
            self._told.put_nowait(None)


async def _exists(admin: Connection) -> bool:
    listed = await admin.request("GET", f"{_CONFIG_MAPS}?fieldSelector=metadata.name%3D{_NAME}")
    return _NAME.encode() in listed


def _shares(count: int) -> list[int]:
    """``count`` in eight parts: so many handshakes at once."""
    return [count // 8 + (1 if part < count % 8 else 0) for part in range(8)]


async def watchers(cluster: Cluster, count: int) -> Heard:
    """A ConfigMap is patched; each watcher has a TLS connection of its own."""
    loop = asyncio.get_running_loop()
    admin = await cluster.connect_as_admin()
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": _NAME}}
    if not await _exists(admin):
        await admin.request("POST", _CONFIG_MAPS, json.dumps(body).encode())
    context: ssl.SSLContext = cluster.admin_context()
    head = request_head(cluster.host, cluster.port, "")
    heard: list[float] = []
    told: asyncio.Queue[None] = asyncio.Queue()
    before = cluster.rss_mib()
    transports: list[asyncio.Transport] = []

    async def connect(share: int) -> None:
        for _ in range(share):
            transport, _ = await loop.create_connection(
                lambda: _Watcher(head, heard, told), cluster.host, cluster.port, ssl=context
            )
            transports.append(transport)

    await asyncio.gather(*map(connect, _shares(count)))
    for _ in range(count):
        await told.get()
    rss = (cluster.rss_mib() - before) / count
    first, last = [], []
    for number in range(CHANGES):
        heard.clear()
        begun = time.perf_counter()
        patch = json.dumps({"data": {"number": str(number)}}).encode()
        await admin.request("PATCH", f"{_CONFIG_MAPS}/{_NAME}", patch, body_type=_MERGE_PATCH)
        for _ in range(count):
            await told.get()
        first.append(heard[0] - begun)
        last.append(heard[-1] - begun)
    for transport in transports:
        transport.close()
    admin.close()
    return Heard(first, last, rss)
