"""Reads: a list of many requests, and many watchers of one object."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from dataclasses import dataclass
from typing import cast

from cluster import Cluster
from http1 import JSON, PROTOBUF, request_head
from joins import CSRS

CHANGES = 30

_CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
_NAME = "watched"
_MERGE_PATCH = "application/merge-patch+json"
_MODIFIED = b'"MODIFIED"'


@dataclass(frozen=True)
class Lists:
    """Seconds to the last byte: the first list of an encoding after a start, and those that follow."""

    json_cold: float
    json_warm: list[float]
    protobuf_cold: float
    protobuf_warm: list[float]


async def lists(cluster: Cluster, repeats: int) -> Lists:
    """Lists everything, over one kept connection. Nothing may have been read of this server before."""
    connection = await cluster.connect()

    async def once(accept: str) -> float:
        begun = time.perf_counter()
        await connection.request("GET", CSRS, accept=accept)
        return time.perf_counter() - begun

    cold, *warm = [await once(JSON) for _ in range(1 + repeats)]
    protobuf_cold, *protobuf_warm = [await once(PROTOBUF) for _ in range(1 + repeats)]
    connection.close()
    return Lists(cold, warm, protobuf_cold, protobuf_warm)


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


async def watchers(cluster: Cluster, count: int) -> Heard:
    """A ConfigMap is patched; each watcher has a TLS connection of its own."""
    loop = asyncio.get_running_loop()
    admin = await cluster.connect_as_admin()
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": _NAME}}
    await admin.request("POST", _CONFIG_MAPS, json.dumps(body).encode())
    context: ssl.SSLContext = cluster.admin_context()
    head = request_head(cluster.host, cluster.port, "")
    heard: list[float] = []
    told: asyncio.Queue[None] = asyncio.Queue()
    before = cluster.rss_mib()
    transports = []
    for _ in range(count):
        transport, _ = await loop.create_connection(
            lambda: _Watcher(head, heard, told), cluster.host, cluster.port, ssl=context
        )
        transports.append(transport)
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
