"""Several API servers in one process over one store, each with a link to it of its own that can be cut."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubevouch.authentication.interface import Credentials
from kubevouch.client.endpoint import Endpoint
from kubevouch.client.interface import Client
from kubevouch.machinery.errors import APIStatusError
from kubevouch.phases.certificates.certs import ControlPlanePKI
from kubevouch.server.query import Query
from kubevouch.server.request import Request
from kubevouch.standalone.server import StandaloneServer
from kubevouch.storage.interface import EventBatch, KeyValue, Page, Revision, Store
from kubevouch.storage.memory import MemoryStore
from kubevouch.testing.clock import FakeClock, settle
from kubevouch.testing.cluster_pki import ClusterPKI
from kubevouch.util.clock import Clock


class Link:
    """One replica's way to the store that all share: others have their turns in between, and it can be cut.

    ``hears`` and ``asks`` are set while events come in, and calls go out; cleared, they wait.
    """

    def __init__(self, store: Store, seed: int) -> None:
        self.store = store
        self._turns = random.Random(seed)
        self.hears = asyncio.Event()
        self.asks = asyncio.Event()
        self.hears.set()
        self.asks.set()

    def cut(self) -> None:
        """Nothing comes in, nothing goes out, and nobody is told."""
        self.hears.clear()
        self.asks.clear()

    def mend(self) -> None:
        self.hears.set()
        self.asks.set()

    async def _way(self) -> None:
        for _ in range(self._turns.randrange(4)):
            await asyncio.sleep(0)
        await self.asks.wait()

    async def get(self, key: str) -> KeyValue | None:
        await self._way()
        return await self.store.get(key)

    async def list(self, prefix: str, *, start: str = "", limit: int = 0, revision: Revision | None = None) -> Page:
        await self._way()
        return await self.store.list(prefix, start=start, limit=limit, revision=revision)

    async def create(self, key: str, value: bytes, *, ttl: float | None = None) -> Revision:
        await self._way()
        return await self.store.create(key, value, ttl=ttl)

    async def update(self, key: str, value: bytes, expected: Revision, *, ttl: float | None = None) -> Revision:
        await self._way()
        return await self.store.update(key, value, expected, ttl=ttl)

    async def delete(self, key: str, expected: Revision) -> Revision:
        await self._way()
        return await self.store.delete(key, expected)

    async def watch(self, prefix: str, after: Revision) -> AsyncIterator[EventBatch]:
        async for batch in self.store.watch(prefix, after):
            await self.hears.wait()
            yield batch

    async def compact(self, revision: Revision) -> None:
        await self.store.compact(revision)

    async def revision(self) -> Revision:
        await self._way()
        return await self.store.revision()

    async def close(self) -> None:
        """The store is everybody's."""


@dataclass(slots=True)
class Replica:
    server: StandaloneServer
    link: Link
    is_running: bool = True

    @property
    def client(self) -> Client:
        return self.server.client

    async def stop(self) -> None:
        """As at SIGTERM."""
        self.link.mend()
        if self.is_running:
            self.is_running = False
            await self.server.close()


@asynccontextmanager
async def passing(clock: Clock) -> AsyncIterator[None]:
    """Time passes inside, and far less of it than there is work done."""

    async def passes() -> None:
        while isinstance(clock, FakeClock):
            clock.advance(0.001)
            await settle()

    task = asyncio.create_task(passes())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


@asynccontextmanager
async def replicas(
    count: int,
    pki: ControlPlanePKI | Path,
    clock: Clock,
    *,
    at_first_start: Callable[[Client], Awaitable[None]] | None = None,
    seed: int = 0,
    store: Store | None = None,
    offset: int = 0,
    **more: Any,
) -> AsyncIterator[Sequence[Replica]]:
    """Started all at once over one store, an empty one unless it is given, with the same ``pki/``.

    Args:
        pki: or the folder to make it in.
        offset: how many there are already.
    """
    if isinstance(pki, Path):
        pki = ClusterPKI(pki, clock.now(), clock.now()).control_plane
    async with AsyncExitStack() as stack:
        if store is None:
            store = MemoryStore(clock=clock)
            stack.push_async_callback(store.close)
        made = []
        for number in range(count):
            link = Link(store, seed * count + number)
            server = StandaloneServer(
                link, clock, pki, Endpoint(f"192.0.2.{number + offset + 1}", 6443),
                at_first_start=at_first_start, replicated=True, **more,
            )  # fmt: skip
            replica = Replica(server, link)
            stack.push_async_callback(replica.stop)
            made.append(replica)
        async with passing(clock):
            await asyncio.gather(*(each.server.start() for each in made))
        yield made


async def answer(replica: Replica, path: str, *, chain: Sequence[bytes] = (), token: str = "") -> int:
    """The status of a GET as it comes over the network, with a client certificate or a bearer token.

    For a list any state will do that the server has at hand.
    """
    request = Request(
        method="GET",
        path=path,
        query=Query("resourceVersion=0"),
        headers={},
        received=replica.server.clock.now(),
        credentials=Credentials(tuple(chain), f"Bearer {token}" if token else None, source="192.0.2.99"),
    )
    try:
        return (await replica.server.api.handler(request)).status
    except APIStatusError as err:
        return err.code
