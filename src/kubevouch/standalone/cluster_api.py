"""The cluster in which Cluster API has its objects, for controllers of another one or of itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec

from kubevouch import wellknown
from kubevouch.client.cache.informer import InformerFactory
from kubevouch.client.gate import Gate
from kubevouch.client.https import HTTPSClient
from kubevouch.client.interface import Client
from kubevouch.controllers.interface import Management
from kubevouch.standalone.cluster_api_options import ClusterAPIOptions
from kubevouch.util.clock import Clock

Connect = Callable[[str], Client]


class ManagementCluster(msgspec.Struct, frozen=True):
    """Connections to it. ``elsewhere``: None where it is the cluster that is managed itself."""

    options: ClusterAPIOptions
    elsewhere: tuple[Connect, InformerFactory] | None

    @property
    def informers(self) -> InformerFactory | None:
        """Caches that somebody has to run."""
        return None if self.elsewhere is None else self.elsewhere[1]

    def management(self, connect: Connect, informers: InformerFactory) -> Management:
        """What controllers get. Args: ``connect``, ``informers``: of the cluster that is managed."""
        connect, informers = self.elsewhere or (connect, informers)
        return Management(
            namespace=self.options.namespace,
            name=self.options.name,
            connect=connect,
            informers=informers,
            token_ttl=self.options.token_ttl,
            replaces_tokens=self.options.replaces_tokens,
        )


@asynccontextmanager
async def management_cluster(
    options: ClusterAPIOptions | None, clock: Clock, gate: Callable[[], Gate] | None = None
) -> AsyncIterator[ManagementCluster | None]:
    """None without Cluster API. ``gate``: through which each of the clients asks.

    Raises:
        ClientConfigurationError: the cluster cannot be asked as the options say.
    """
    if options is None or options.management is None:
        yield None if options is None else ManagementCluster(options, None)
        return
    config = options.management
    clients: dict[str, HTTPSClient] = {}

    def connect(name: str) -> Client:
        if name not in clients:
            clients[name] = config.client(component=name, clock=clock, gate=None if gate is None else gate())
        return clients[name]

    async with AsyncExitStack() as stack:
        informers = InformerFactory(connect(wellknown.CLUSTER_API_CONTROLLER), clock)
        try:
            yield ManagementCluster(options, (connect, informers))
        finally:
            for client in clients.values():
                stack.push_async_callback(client.close)
