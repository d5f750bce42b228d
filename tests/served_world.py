"""A server on a real socket with settings of a test's own, and plain HTTP/1.1 spoken to it."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from kubevouch.client.endpoint import Endpoint
from kubevouch.client.interface import Client
from kubevouch.phases import bootstrap_token, cluster_info
from kubevouch.pki.authority import LeafSpec
from kubevouch.records.bootstrap_tokens import generate_token
from kubevouch.records.cluster_info import ClusterInfo
from kubevouch.server.audit.build import prepare
from kubevouch.server.audit.options import AuditOptions
from kubevouch.server.filters.tracing import Tracing
from kubevouch.server.options import ServerOptions
from kubevouch.standalone.network import bind
from kubevouch.standalone.server import StandaloneServer
from kubevouch.storage.memory import MemoryStore
from kubevouch.testing.cluster_pki import HOST, ClusterPKI
from kubevouch.util.clock import SystemClock


@dataclass
class Served:
    """A running server."""

    server: StandaloneServer
    url: str
    context: ssl.SSLContext
    token: str
    pki: ClusterPKI

    def kubeconfig(self, who: LeafSpec) -> str:
        """The text of a kubeconfig with a new client certificate."""
        return self.pki.kubeconfig(self.url, who)

    @property
    def admin(self) -> Client:
        return self.server.client

    @asynccontextmanager
    async def session(self, token: str = "", **settings: Any) -> AsyncIterator[aiohttp.ClientSession]:
        """Requests with a bearer token, or anonymous ones; as many connections as there are requests."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        connector = aiohttp.TCPConnector(ssl=self.context, limit=0)
        async with aiohttp.ClientSession(self.url, headers=headers, connector=connector, **settings) as session:
            yield session


@asynccontextmanager
async def served(
    folder: Path,
    audit: AuditOptions = AuditOptions(),  # noqa: B008 - frozen
    options: ServerOptions | None = None,
    tracing: Tracing | None = None,
) -> AsyncIterator[Served]:
    clock = SystemClock()
    pki = ClusterPKI(folder / "pki", clock.now(), clock.now())
    sockets = bind(HOST, 0)
    endpoint = Endpoint(HOST, sockets[0].getsockname()[1])
    store = MemoryStore(clock=clock)
    server = StandaloneServer(
        store, clock, pki.control_plane, endpoint, audit=prepare(audit, clock), options=options, tracing=tracing
    )
    async with server:
        await cluster_info.ensure(server.client, ClusterInfo(endpoint.url, pki.control_plane.ca_certificate))
        token = generate_token()
        await bootstrap_token.create(server.client, bootstrap_token.plan(token, now=clock.now()))
        await server.listen(sockets)
        context = ssl.create_default_context(cafile=str(folder / "pki" / "ca.crt"))
        yield Served(server, endpoint.url, context, token.text, pki)
    await store.close()
