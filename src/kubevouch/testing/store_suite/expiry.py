"""Keys with a time to live."""

from __future__ import annotations

import asyncio

import pytest

from kubevouch.storage.interface import (
    KeyValue,
    Revision,
    Store,
    StoreEvent,
)
from kubevouch.testing.store_suite.harness import (
    Suite,
    Watch,
    keys,
    store_test,
    watching,
)


class ExpirySuite(Suite):
    """Keys with a time to live."""

    @store_test
    async def test_a_key_is_deleted_when_its_time_is_over(self, store: Store) -> None:
        await store.create("/a", b"1", ttl=10)
        async with watching(store, "/", Revision(2)) as batches:
            await self.elapse(9)
            assert await store.get("/a") is not None
            await self.elapse(1)
            events = await Watch(batches).until(Revision(3))
        assert events == [StoreEvent("/a", Revision(3), None, KeyValue("/a", b"1", Revision(2)))]
        assert await store.get("/a") is None
        assert await store.revision() == 3
        assert await store.create("/a", b"2") == 4

    @store_test
    async def test_an_update_decides_about_the_time_anew(self, store: Store) -> None:
        await store.create("/kept", b"", ttl=10)
        await store.create("/longer", b"", ttl=10)
        await store.create("/gone", b"", ttl=10)
        await store.create("/shorter", b"", ttl=1000)
        await store.update("/kept", b"", Revision(2))
        await store.update("/longer", b"", Revision(3), ttl=30)
        await store.update("/shorter", b"", Revision(5), ttl=20)
        async with watching(store, "/", await store.revision()) as batches:
            watch = Watch(batches)
            for seconds, expected in (
                (10, ["/gone"]),
                (10, ["/gone", "/shorter"]),
                (10, ["/gone", "/shorter", "/longer"]),
            ):
                await self.elapse(seconds)
                await watch.until(Revision(8 + len(expected)))
                assert [event.key for event in watch.events] == expected
            await self.elapse(10_000)
            assert keys(await store.list("/")) == ["/kept"]

    @store_test
    async def test_the_earliest_goes_first(self, store: Store) -> None:
        for i in (3, 1, 2, 5, 4):
            await store.create(f"/{i}", b"", ttl=i * 10)
        async with watching(store, "/", Revision(6)) as batches:
            await self.elapse(100)
            events = await Watch(batches).until(Revision(11))
        assert [event.key for event in events] == ["/1", "/2", "/3", "/4", "/5"]

    @store_test
    async def test_many_keys_at_once(self, store: Store) -> None:
        await asyncio.gather(*(store.create(f"/{i:04}", b"", ttl=60) for i in range(600)))
        async with watching(store, "/", Revision(601)) as batches:
            await self.elapse(60)
            # They may go in one write.
            await Watch(batches).until_written(600)
        assert (await store.list("/")).total == 0

    @store_test
    async def test_a_deleted_key_has_no_time_left(self, store: Store) -> None:
        await store.delete("/a", await store.create("/a", b"", ttl=10))
        await store.create("/a", b"")
        await store.create("/mark", b"", ttl=20)
        async with watching(store, "/", Revision(5)) as batches:
            await self.elapse(20)
            assert [event.key for event in await Watch(batches).until(Revision(6))] == ["/mark"]
        assert await store.get("/a") is not None

    @store_test
    async def test_a_cancelled_write_keeps_its_time(self, store: Store) -> None:
        writing = asyncio.ensure_future(store.create("/a", b"", ttl=10))
        await asyncio.sleep(0)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        written = await store.create("/b", b"")
        if written == Revision(2):
            return  # the store gave the write up
        async with watching(store, "/", written) as batches:
            await self.elapse(10)
            assert [event.key for event in await Watch(batches).until(Revision(4))] == ["/a"]

    @store_test
    async def test_a_time_to_live_is_positive(self, store: Store) -> None:
        for ttl in (0, -1, float("nan"), float("inf")):
            with pytest.raises(ValueError, match="time to live"):
                await store.create("/a", b"", ttl=ttl)
        assert await store.revision() == 1
