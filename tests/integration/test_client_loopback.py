"""The client in the server's own process, against the suite."""

from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import aio
from kubevouch.client.interface import Client
from kubevouch.testing import Cluster
from kubevouch.testing.client_suite import ClientSuite


class TestLoopbackClient(ClientSuite):
    @asynccontextmanager
    async def opened(self, user: str = "") -> AsyncIterator[Client]:
        async with Cluster() as cluster:
            yield cluster.client(user or None)

    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        aio.run(scenario)
