from __future__ import annotations

import asyncio

import pytest

import aio
from kubevouch.storage.compactor import keep_compacting
from kubevouch.storage.interface import Compacted, Revision, StoreUnavailable
from kubevouch.storage.memory import MemoryStore
from kubevouch.testing.clock import FakeClock


class FailingOnce(MemoryStore):
    failures = 1

    async def compact(self, revision: Revision) -> None:
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("the disk is full")
        await super().compact(revision)


@pytest.mark.parametrize(("store", "intervals"), [(MemoryStore(), 2), (FailingOnce(), 3)])
def test_a_state_is_kept_for_an_interval_and_gone_after_two(store: MemoryStore, intervals: int) -> None:
    async def scenario() -> None:
        clock = FakeClock()
        task = asyncio.create_task(keep_compacting(store, clock, 300))
        await clock.run(100)
        first = await store.create("/a", b"1")
        second = await store.update("/a", b"2", first)
        await clock.run(300)
        assert (await store.list("/", revision=first)).items[0].value == b"1"
        await clock.run(300 * (intervals - 1))
        with pytest.raises(Compacted):
            await store.list("/", revision=first)
        assert (await store.list("/", revision=second)).items[0].value == b"2"
        task.cancel()
        await asyncio.wait({task})

    aio.run(scenario())
