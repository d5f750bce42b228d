"""Watches: what they deliver, in which order, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import cast

import pytest

from kubevouch.storage.interface import (
    Compacted,
    EventBatch,
    KeyValue,
    Revision,
    Store,
    StoreEvent,
)
from kubevouch.testing.store_suite.harness import (
    Suite,
    Watch,
    filled,
    soon,
    store_test,
    watching,
)


class WatchSuite(Suite):
    """Events: in order, each once, whatever the watch began with."""

    @store_test
    async def test_events_say_what_was_and_what_is(self, store: Store) -> None:
        await store.create("/a", b"1")
        await store.update("/a", b"2", Revision(2))
        await store.delete("/a", Revision(3))
        last = await store.create("/a", b"5")
        async with watching(store, "/a", Revision(1)) as batches:
            events = await Watch(batches).until(last)
        assert events == [
            StoreEvent("/a", Revision(2), b"1", None),
            StoreEvent("/a", Revision(3), b"2", KeyValue("/a", b"1", Revision(2))),
            StoreEvent("/a", Revision(4), None, KeyValue("/a", b"2", Revision(3))),
            StoreEvent("/a", Revision(5), b"5", None),
        ]

    @store_test
    async def test_live_events_are_those_that_are_read_back(self, store: Store) -> None:
        async with watching(store, "/", Revision(1)) as batches:
            live = Watch(batches)
            first = asyncio.ensure_future(live.until(Revision(2)))
            await store.create("/a", b"1")
            await soon(first)
            await store.update("/a", b"2", Revision(2))
            await store.create("/b", b"")
            await store.delete("/a", Revision(3))
            last = await store.create("/a", b"")
            events = await live.until(last)
        async with watching(store, "/", Revision(1)) as batches:
            assert await Watch(batches).until(last) == events
        assert [event.revision for event in events] == [2, 3, 4, 5, 6]

    @store_test
    async def test_a_watch_begins_after_its_revision_and_sees_its_prefix_only(self, store: Store) -> None:
        await filled(store, "/a/1", "/b/1", "/a/2", "/a0")
        async with watching(store, "/a/", Revision(2)) as batches:
            watch = Watch(batches)
            await watch.until(Revision(4))
            last = await filled(store, "/b/2", "/a/3", "/a", "/a/4")
            events = await watch.until(last)
        assert [event.key for event in events] == ["/a/2", "/a/3", "/a/4"]

    @store_test
    async def test_a_watch_after_0_sees_everything(self, store: Store) -> None:
        last = await filled(store, "/a", "/b")
        async with watching(store, "", Revision(0)) as batches:
            assert [event.revision for event in await Watch(batches).until(last)] == [2, 3]

    @store_test
    async def test_a_watch_may_begin_in_the_future(self, store: Store) -> None:
        await store.create("/a", b"")
        async with watching(store, "/", Revision(4)) as batches:
            watch = Watch(batches)
            waiting = asyncio.ensure_future(watch.until(Revision(6)))
            await filled(store, "/b", "/c", "/d", "/e")
            assert [event.key for event in await soon(waiting)] == ["/d", "/e"]

    @store_test
    async def test_a_running_watch_has_the_event_before_the_write_returns(self, store: Store) -> None:
        if not self.events_precede_writes:
            return
        async with watching(store, "/", Revision(1)) as batches:
            waiting = asyncio.ensure_future(anext(batches))
            await store.create("/a", b"")
            await soon(waiting)
            for turn in range(20):
                revision = await store.create(f"/{turn}", b"")
                # An event that is there is delivered without giving the loop a turn.
                with pytest.raises(StopIteration) as delivered:
                    anext(batches).__await__().__next__()
                assert [event.revision for event in delivered.value.value] == [revision]

    @store_test
    async def test_many_watches_from_everywhere_during_writes(self, store: Store) -> None:
        async def write(name: str) -> None:
            revision = await store.create(f"/w/{name}", b"")
            for turn in range(25):
                revision = await store.update(f"/w/{name}", str(turn).encode(), revision)

        async def watch(after: Revision) -> None:
            async with watching(store, "/w/", Revision(1)) as batches:
                await Watch(batches).until(Revision(min(after + 20, last)))
            async with watching(store, "/w/", after) as batches:
                events = await Watch(batches).until(last)
            assert [event.revision for event in events] == list(range(after + 1, last + 1))
            for event in events:
                if event.previous is not None:
                    assert event.previous.revision < event.revision
                    assert event.previous.key == event.key

        last = Revision(1 + 10 * 26)
        writers = [write(str(i)) for i in range(10)]
        watchers = [watch(Revision(after)) for after in range(1, last, 10)]
        await soon(asyncio.gather(*writers, *watchers))

    @store_test
    async def test_a_watch_that_is_not_read_loses_nothing(self, store: Store) -> None:
        async with watching(store, "/", Revision(1)) as batches:
            watch = Watch(batches)
            first = asyncio.ensure_future(watch.until(Revision(2)))
            await store.create("/first", b"")
            await soon(first)
            for part in range(4):
                await asyncio.gather(*(store.create(f"/{part}/{i}", b"") for i in range(1000)))
            revision = await store.create("/last", b"")
            events = await watch.until(revision)
            assert [event.revision for event in events] == list(range(2, 4004))
            last = await store.create("/live", b"")
            assert (await watch.until(last))[-1].key == "/live"

    @store_test
    async def test_a_watch_behind_a_compaction_says_so_after_what_it_kept(self, store: Store) -> None:
        async with watching(store, "/", Revision(1)) as batches:
            watch = Watch(batches)
            first = asyncio.ensure_future(watch.until(Revision(2)))
            await store.create("/first", b"")
            await soon(first)
            for part in range(4):
                await asyncio.gather(*(store.create(f"/{part}/{i}", b"") for i in range(1000)))
            last = await store.revision()
            async with watching(store, "/", Revision(1)) as others:
                await Watch(others).until(last)  # by then the watch was told, too
            await store.compact(last)
            with pytest.raises(Compacted) as caught:
                await watch.until(Revision(last + 1))
            assert caught.value.oldest == last
            assert [event.revision for event in watch.events] == list(range(2, 2 + len(watch.events)))
            assert await anext(batches, None) is None

    @store_test
    async def test_a_watch_from_a_compacted_revision(self, store: Store) -> None:
        await filled(store, "/a", "/b", "/c", "/d")
        await store.compact(Revision(4))
        async with watching(store, "/", Revision(2)) as batches:
            with pytest.raises(Compacted) as caught:
                await soon(anext(batches))
            assert (caught.value.asked, caught.value.oldest) == (2, 4)
        async with watching(store, "/", Revision(4)) as batches:
            assert [event.revision for event in await Watch(batches).until(Revision(5))] == [5]

    @store_test
    async def test_previous_values_survive_a_compaction_below_the_event(self, store: Store) -> None:
        await filled(store, "/a", "/b")
        await store.update("/a", b"4", Revision(2))
        await store.compact(Revision(3))
        async with watching(store, "/", Revision(3)) as batches:
            events = await Watch(batches).until(Revision(4))
        assert events == [StoreEvent("/a", Revision(4), b"4", KeyValue("/a", b"/a", Revision(2)))]

    @store_test
    async def test_a_running_watch_does_not_notice_a_compaction(self, store: Store) -> None:
        async with watching(store, "/", Revision(1)) as batches:
            watch = Watch(batches)
            first = asyncio.ensure_future(watch.until(Revision(2)))
            await store.create("/a", b"")
            await soon(first)
            await store.create("/b", b"")
            await store.compact(Revision(3))
            last = await store.create("/c", b"")
            assert [event.key for event in await watch.until(last)] == ["/a", "/b", "/c"]

    @store_test
    async def test_closing_the_iterator_ends_the_watch(self, store: Store) -> None:
        batches = cast("AsyncGenerator[EventBatch, None]", store.watch("/", Revision(1)))
        waiting = asyncio.ensure_future(anext(batches, None))
        await asyncio.sleep(0)
        await batches.aclose()
        assert await soon(waiting) is None
        await store.create("/a", b"")
        assert await soon(asyncio.ensure_future(anext(batches, None))) is None
        await batches.aclose()

    @store_test
    async def test_cancelling_a_wait_loses_no_event(self, store: Store) -> None:
        async with watching(store, "/", Revision(1)) as batches:
            watch = Watch(batches)
            for turn in range(10):
                waiting = asyncio.ensure_future(anext(batches))
                for _ in range(turn % 3):
                    await asyncio.sleep(0)
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)
                if not waiting.cancelled():
                    watch.events += waiting.result()
                await store.create(f"/{turn}", b"")
            events = await watch.until(Revision(11))
        assert [event.revision for event in events] == list(range(2, 12))

    @store_test
    async def test_watches_end_with_the_store(self, store: Store) -> None:
        await store.create("/a", b"")
        async with watching(store, "/", Revision(1)) as behind, watching(store, "/", Revision(2)) as live:
            waiting = asyncio.ensure_future(anext(live, None))
            await asyncio.sleep(0)
            await store.close()
            assert await soon(waiting) is None
            assert await soon(anext(behind, None)) is None
