"""The memory store against the suite, on both event loops."""

from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import aio
from kubevouch.storage.interface import Store
from kubevouch.storage.memory import MemoryStore
from kubevouch.testing.store_suite import StoreSuite


class TestMemoryStore(StoreSuite):
    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        store = MemoryStore(clock=self.clock)
        yield store
        await store.close()

    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        aio.run(scenario)


class TestMemoryStoreOnUvloop(TestMemoryStore):
    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        aio.run(scenario, loop="uvloop")
