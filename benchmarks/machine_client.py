"""Plays machines that join, in a process of its own: started by ``machines.py``, told what to do on standard input.

It says ``prepared`` once every request is made, waits for a line, and says at the end what it saw as one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import resource
import ssl
import sys
import time

import msgspec
import uvloop

from http1 import Connection
from joins import CSRS, Prepared, prepare

_CLUSTER_INFO = "/api/v1/namespaces/kube-public/configmaps/cluster-info"


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """``count`` machines with names of ``prefix``, ``at_once`` of them at a time.

    ``whole``: each reads cluster-info first, over a connection that checks nothing and over one that does, as
    ``kubevouch join`` does.
    """

    host: str
    port: int
    ca_file: str
    token: str
    prefix: str
    count: int
    at_once: int
    whole: bool


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """``latencies`` in seconds, one a machine, from its first connection to its last; ``cpu`` is this process's own."""

    latencies: list[float]
    seconds: float
    cpu: float


class _Machine:
    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._verified = trusting_only(fleet.ca_file)
        self._unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._unverified.check_hostname = False
        self._unverified.verify_mode = ssl.CERT_NONE

    async def join(self, prepared: Prepared) -> float:
        begun = time.perf_counter()
        if self._fleet.whole:
            await self._discover(self._unverified)
            await self._discover(self._verified)
        connection = await self._connect(self._verified, self._fleet.token)
        created = json.loads(await connection.request("POST", CSRS, prepared.body))
        version = created["metadata"]["resourceVersion"]
        path = f"{CSRS}?watch=true&fieldSelector=metadata.name%3D{prepared.name}&resourceVersion={version}"
        path += "&allowWatchBookmarks=true&timeoutSeconds=300"
        seen = b""
        async for piece in connection.watch(path):
            seen += piece
            # The field is empty until it is issued.
            if b'"certificate":"' in seen and seen.endswith(b"\n"):
                break
        else:
            raise RuntimeError(f"the watch of {prepared.name} ended without a certificate")
        connection.close()
        return time.perf_counter() - begun

    async def _discover(self, context: ssl.SSLContext) -> None:
        connection = await self._connect(context, "")
        await connection.request("GET", _CLUSTER_INFO)
        connection.close()

    async def _connect(self, context: ssl.SSLContext, token: str) -> Connection:
        return await Connection.open(self._fleet.host, self._fleet.port, context, token)


def trusting_only(ca_file: str) -> ssl.SSLContext:
    """Nothing but the cluster's own authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(ca_file)
    return context


async def play(fleet: Fleet, todo: list[Prepared]) -> Seen:
    """All machines; raises if one is refused."""
    machine = _Machine(fleet)
    latencies: list[float] = []

    async def one_after_another() -> None:
        while todo:
            latencies.append(await machine.join(todo.pop()))

    cpu, begun = time.process_time(), time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(fleet.at_once):
            group.create_task(one_after_another())
    return Seen(latencies=latencies, seconds=time.perf_counter() - begun, cpu=time.process_time() - cpu)


def main() -> None:
    fleet = msgspec.json.decode(sys.stdin.readline(), type=Fleet)
    _, descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
    todo = prepare(fleet.count, fleet.prefix)
    print("prepared", flush=True)
    if sys.stdin.readline() != "go\n":
        raise SystemExit("nobody said go")
    print(msgspec.json.encode(uvloop.run(play(fleet, todo))).decode(), flush=True)


if __name__ == "__main__":
    main()
