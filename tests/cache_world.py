"""The parts that a reflector stands on: a server that answers from a script, a client, and two clocks."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from aio import until
from kubevouch.api.catalog import CONFIG_MAPS
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.client.https import HTTPSClient
from kubevouch.client.options import ClientOptions, Retry
from kubevouch.client.tls import TLSFiles, TLSSources
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.testing.clock import FakeClock
from scripted_server import Handler, ScriptedServer, reply_json, stream
from throwaway_ca import ThrowawayCA

RESOURCE = CONFIG_MAPS


class RecordingClock(FakeClock):
    """Remembers how long everybody wanted to sleep."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 6))
        await super().sleep(seconds)


class World:
    """A server and its client. The client's own clock stands still: only the reflector's moves."""

    def __init__(self, server: ScriptedServer, client: HTTPSClient) -> None:
        self.server = server
        self.client = client
        self.clock = RecordingClock()
        self.stalled = asyncio.Event()

    @property
    def queries(self) -> list[dict[str, str]]:
        return [dict(seen.query) for seen in self.server.seen]

    def open_watch(self, *frames: bytes) -> Handler:
        """A watch that stays open after its frames."""

        async def hold(_request: Any) -> None:
            self.stalled.set()
            await asyncio.Event().wait()

        return stream(frames, then=hold)

    async def until_stalled(self) -> None:
        """Until the client hangs on a watch that says nothing more, and has read all that it said."""
        await self.stalled.wait()
        self.stalled.clear()
        await turns()

    async def backed_off(self, seconds: float) -> None:
        """Let the reflector wait for ``seconds``, which it must want to."""
        await until(lambda: seconds in self.clock.slept)
        self.clock.slept.remove(seconds)
        await self.clock.until_asleep()
        self.clock.advance(seconds)


async def turns(count: int = 50) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@asynccontextmanager
async def world(ca: ThrowawayCA, serving: ssl.SSLContext) -> AsyncIterator[World]:
    async with ScriptedServer(serving) as server:
        clock = FakeClock()
        options = ClientOptions(server.url, retry=Retry(attempts=1), protobuf=False)
        async with HTTPSClient(options, tls=TLSFiles(TLSSources(ca.bundle), clock), clock=clock) as client:
            yield World(server, client)


def config_map(name: str, version: int, namespace: str = "n", **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace, resource_version=str(version)), data=data)


def tree(obj: ConfigMap) -> dict[str, Any]:
    return {"kind": "ConfigMap", "apiVersion": "v1", **json.loads(json_codec.encode(obj))}


def listing(version: int, *objects: ConfigMap, continue_token: str = "") -> Handler:
    metadata = {"resourceVersion": str(version)} | ({"continue": continue_token} if continue_token else {})
    items = [tree(obj) for obj in objects]
    return reply_json({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": metadata, "items": items})


def event(kind: str, obj: ConfigMap) -> bytes:
    return json.dumps({"type": kind, "object": tree(obj)}).encode() + b"\n"


def bookmark(version: int, *, end: bool = False) -> bytes:
    metadata: dict[str, Any] = {"resourceVersion": str(version)}
    if end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    document = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata}
    return json.dumps({"type": "BOOKMARK", "object": document}).encode() + b"\n"


def error_event(code: int, reason: str) -> bytes:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": reason, "reason": reason}
    return json.dumps({"type": "ERROR", "object": {**status, "code": code}}).encode() + b"\n"


def names(objects: Iterable[ConfigMap]) -> list[str]:
    return sorted(obj.metadata.name for obj in objects)
