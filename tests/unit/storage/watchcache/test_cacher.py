"""Caches that come and go while the follower runs."""

from __future__ import annotations

import asyncio

import pytest

from aio import until
from asynctest import async_test
from kubevouch.machinery.meta import Object, ObjectMeta
from kubevouch.storage.feed import Feed, Stretch, Watcher
from kubevouch.storage.interface import Revision, StoreTimeout
from kubevouch.storage.memory import MemoryStore
from kubevouch.storage.watchcache.cacher import PATIENCE_SECONDS, Cacher
from kubevouch.storage.watchcache.resource_cache import ResourceCache, Scope, WatchClosed
from kubevouch.testing.clock import FakeClock

PREFIX = "/registry/demo.example.com/widgets/"


def _decode(value: bytes, revision: Revision) -> Object:
    return Object(metadata=ObjectMeta(name=value.decode(), resource_version=str(revision)))


def _names(cache: ResourceCache[Object]) -> list[str]:
    return [stored.obj.metadata.name for stored in cache.scan(PREFIX)]


@async_test
async def test_a_cache_that_joins_knows_what_was_there_and_what_comes_meanwhile() -> None:
    clock = FakeClock()
    store = MemoryStore()
    cacher = Cacher(store, clock)
    await store.create(f"{PREFIX}a", b"a")
    await cacher.start()
    cache: ResourceCache[Object] = cacher.register(PREFIX, _decode)
    joining = asyncio.create_task(cacher.join(cache))
    for number in range(50):
        await store.create(f"{PREFIX}b{number:02}", b"b")
        if number % 7 == 0:
            await asyncio.sleep(0)
    await joining
    await cacher.newest()
    assert _names(cache) == ["a", *["b"] * 50]
    assert [int(stored.obj.metadata.resource_version) for stored in cache.scan(PREFIX)] == list(range(2, 53))
    watcher = cache.watch(Scope(PREFIX), cacher.revision)
    await store.create(f"{PREFIX}c", b"c")
    assert [change.type for change in await watcher.next_batch()] == ["ADDED"]
    await cacher.close()
    await store.close()


@async_test
async def test_a_cache_that_leaves_ends_its_watches_and_holds_nothing() -> None:
    clock = FakeClock()
    store = MemoryStore()
    cacher = Cacher(store, clock)
    await store.create(f"{PREFIX}a", b"a")
    cache: ResourceCache[Object] = cacher.register(PREFIX, _decode)
    await cacher.start()
    await store.update(f"{PREFIX}a", b"A", Revision(2))
    await until(lambda: _names(cache) == ["A"])
    assert cacher.budgets.history_bytes > 0
    watcher = cache.watch(Scope(PREFIX), cacher.revision)
    cacher.unregister(cache)
    with pytest.raises(WatchClosed):
        await watcher.next_batch()
    assert (cacher.object_bytes, cacher.budgets.history_bytes, len(cache)) == (0, 0, 0)
    await store.create(f"{PREFIX}b", b"b")
    await cacher.newest()
    assert len(cache) == 0
    again: ResourceCache[Object] = cacher.register(PREFIX, _decode)
    await cacher.join(again)
    assert _names(again) == ["A", "b"]
    await cacher.close()
    await store.close()


@async_test
async def test_what_has_to_be_done_before_reading_is_done_only_where_there_is_something_to_read() -> None:
    clock, store = FakeClock(), MemoryStore()
    cacher = Cacher(store, clock)
    await cacher.start()
    done: list[int] = []

    async def before() -> None:
        done.append(len(done))

    cache: ResourceCache[Object] = cacher.register(PREFIX, _decode)
    await cacher.join(cache, before)
    assert done == []
    await store.create(f"{PREFIX}a", b"a")
    cacher.unregister(cache)
    await cacher.join(cacher.register(PREFIX, _decode), before)
    assert done == [0]
    await cacher.close()
    await store.close()


@async_test
async def test_who_waits_for_a_revision_that_does_not_come_hears_so() -> None:
    clock, store = FakeClock(), MemoryStore()
    cacher = Cacher(store, clock)
    await cacher.start()
    early = asyncio.create_task(cacher.reach(Revision(9)))
    await clock.until_asleep()
    await clock.run(PATIENCE_SECONDS - 1)
    late = asyncio.create_task(cacher.reach(Revision(9)))
    await clock.run(1)
    with pytest.raises(StoreTimeout, match="behind revision 9"):
        await early
    assert not late.done()
    await clock.run(PATIENCE_SECONDS)
    with pytest.raises(StoreTimeout):
        await late
    await clock.run(PATIENCE_SECONDS)
    assert clock.sleepers == 0  # nobody waits, nobody watches over it
    await cacher.close()
    await store.close()


@async_test
async def test_a_write_of_somebody_else_that_is_none_of_ours_moves_the_caches_on() -> None:
    feed = Feed(Revision(1), _no_history)

    class Shared(MemoryStore):
        def watch(self, prefix: str, after: Revision) -> Watcher:
            return feed.watch(prefix, after)

    cacher = Cacher(Shared(), FakeClock())
    await cacher.start()
    reaching = asyncio.create_task(cacher.reach(Revision(5)))
    await asyncio.sleep(0)
    feed.progress(Revision(5))
    await reaching
    assert cacher.revision == 5
    await cacher.close()


async def _no_history(_prefix: str, _after: Revision, upto: Revision) -> Stretch:
    return Stretch([], upto)
