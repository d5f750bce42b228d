"""The client over a real socket with a client certificate, against the suite."""

from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import aio
from kubevouch.client.interface import Client
from kubevouch.client.rest_config import client_from_kubeconfig
from kubevouch.testing import Cluster
from kubevouch.testing.client_suite import ClientSuite


class TestHTTPSClient(ClientSuite):
    @asynccontextmanager
    async def opened(self, user: str = "") -> AsyncIterator[Client]:
        async with Cluster(https=True) as cluster:
            path = cluster.kubeconfig
            if user:
                path = cluster.folder / "user.conf"
                path.write_text(cluster.kubeconfig_for(user))
            client = client_from_kubeconfig(path, component="suite")
            try:
                yield client
            finally:
                await client.close()

    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        aio.run(scenario, loop="uvloop")
