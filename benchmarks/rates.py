"""How many requests a second: gets, patches and applies of one object each, over kept connections."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable

from cluster import Cluster
from http1 import Connection

GET_CLIENTS = 16
WRITE_CLIENTS = 16

_CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
_MERGE_PATCH = "application/merge-patch+json"
_APPLY_PATCH = "application/apply-patch+yaml"

_Ask = Callable[[Connection, int, int], Awaitable[object]]


async def rate(cluster: Cluster, clients: int, seconds: float, ask: _Ask) -> float:
    """Answers a second; ``ask`` gets the connection, the client's number and the request's."""
    connections = [await cluster.connect_as_admin() for _ in range(clients)]
    end = time.perf_counter() + seconds
    done = 0

    async def client(which: int, connection: Connection) -> None:
        nonlocal done
        number = 0
        while time.perf_counter() < end:
            await ask(connection, which, number)
            number += 1
            done += 1

    begun = time.perf_counter()
    await asyncio.gather(*(client(which, connection) for which, connection in enumerate(connections)))
    took = time.perf_counter() - begun
    for connection in connections:
        connection.close()
    return done / took


def _name(which: int) -> str:
    return f"rate-{which}"


def _config_map(which: int, value: str) -> bytes:
    tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": _name(which)}, "data": {"value": value}}
    return json.dumps(tree).encode()


async def prepare(cluster: Cluster) -> None:
    """An object for each client."""
    admin = await cluster.connect_as_admin()
    for which in range(max(GET_CLIENTS, WRITE_CLIENTS)):
        await admin.request("POST", _CONFIG_MAPS, _config_map(which, "0"))
    admin.close()


async def get(connection: Connection, which: int, _number: int) -> None:
    await connection.request("GET", f"{_CONFIG_MAPS}/{_name(which)}")


async def patch(connection: Connection, which: int, number: int) -> None:
    body = b'{"data":{"value":"%d"}}' % number
    await connection.request("PATCH", f"{_CONFIG_MAPS}/{_name(which)}", body, body_type=_MERGE_PATCH)


async def apply(connection: Connection, which: int, number: int) -> None:
    path = f"{_CONFIG_MAPS}/{_name(which)}?fieldManager=benchmark&force=true"
    await connection.request("PATCH", path, _config_map(which, f"a{number}"), body_type=_APPLY_PATCH)
