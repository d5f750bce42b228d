"""What every store has to do, as tests.

Subclass ``StoreSuite`` in a test module under a name that begins with ``Test`` and say how to open the store::

    class TestMemoryStore(StoreSuite):
        @asynccontextmanager
        async def opened(self) -> AsyncIterator[Store]:
            store = MemoryStore(clock=self.clock)
            yield store
            await store.close()
"""

from __future__ import annotations

from kubevouch.testing.store_suite.compaction import CompactionSuite
from kubevouch.testing.store_suite.expiry import ExpirySuite
from kubevouch.testing.store_suite.harness import Watch, filled, soon, watching
from kubevouch.testing.store_suite.reads import ListSuite
from kubevouch.testing.store_suite.watches import WatchSuite
from kubevouch.testing.store_suite.writes import WriteSuite

__all__ = ["StoreSuite", "Watch", "filled", "soon", "watching"]


class StoreSuite(WriteSuite, ListSuite, CompactionSuite, WatchSuite, ExpirySuite):
    """All of it."""
