from __future__ import annotations

import asyncio

import pytest

import aio
from aio import until
from kubevouch.storage.compactor import ROW_BYTES, RevisionBytes, keep_compacting
from kubevouch.storage.interface import Compacted, Revision, StoreUnavailable
from kubevouch.storage.measured import MeasuredStore
from kubevouch.storage.memory import MemoryStore
from kubevouch.testing.clock import FakeClock

MIB = 1 << 20


class Calls:
    def call(self, operation: str, key: str, seconds: float, *, failed: bool) -> None: ...


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
        task = asyncio.create_task(keep_compacting(store, clock, 300, RevisionBytes()))
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


def test_what_is_large_is_forgotten_early() -> None:
    async def scenario() -> None:
        clock, recorder = FakeClock(), Calls()
        store, revisions = MemoryStore(clock=clock), RevisionBytes(MIB * 8)
        measured = MeasuredStore(store, clock, recorder, revisions)
        task = asyncio.create_task(keep_compacting(measured, clock, 300, revisions))
        await clock.until_asleep()
        revision = first = await measured.create("/a", b"")
        most = 0
        for number in range(100):
            revision = await measured.update("/a", bytes(MIB - ROW_BYTES), revision)
            await asyncio.sleep(0)
            await until(lambda: revisions.bytes <= 8 * MIB)
            held = sum(len(event.value or b"") for event in store.snapshot().history)
            most = max(most, held)
            assert held <= revisions.bytes <= 9 * MIB
            if number > 10:  # what is recent is there, for who reads in pages
                assert (await store.list("/", revision=Revision(revision - 3))).items
        assert most >= 7 * MIB
        with pytest.raises(Compacted):
            await store.list("/", revision=first)
        task.cancel()
        await asyncio.wait({task})

    aio.run(scenario())


def test_many_small_writes_count_too() -> None:
    revisions = RevisionBytes(MIB * 2)
    for revision in range(1, 10_000):
        revisions.wrote(Revision(revision), 0)
    assert revisions.too_many.is_set()
    revisions.compacted(revisions.surplus())
    assert not revisions.too_many.is_set()
    assert 0 < revisions.bytes <= 2 * MIB
