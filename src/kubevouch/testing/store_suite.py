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

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, aclosing
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

import pytest

from kubevouch.storage.interface import (
    MAX_VALUE_BYTES,
    Compacted,
    EventBatch,
    FutureRevision,
    KeyExists,
    KeyValue,
    Page,
    Revision,
    RevisionConflict,
    Store,
    StoreError,
    StoreEvent,
    StoreUnavailable,
    ValueTooLarge,
)
from kubevouch.testing.clock import FakeClock

T = TypeVar("T")

PATIENCE_SECONDS = 30.0
"""How long to wait for what has to come. Never for what must not: tests write something later and wait for that."""


class Suite:
    """What the parts of the suite share."""

    events_precede_writes: ClassVar[bool] = True
    """A running watch has the event before the write returns. Not so where events come over a network."""

    def opened(self) -> AbstractAsyncContextManager[Store]:
        """An empty store, closed at the end; it takes its time from ``self.clock``."""
        raise NotImplementedError

    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        """Runs a test; for subclasses that want another loop."""
        asyncio.run(scenario)

    async def elapse(self, seconds: float) -> None:
        """Lets time pass for the store; for subclasses whose store has a clock of its own."""
        self.clock.advance(seconds)

    @pytest.fixture(autouse=True)
    def _surroundings(self, tmp_path: Path) -> None:
        self.folder = tmp_path
        self.clock = FakeClock()


S = TypeVar("S", bound=Suite)


def store_test(scenario: Callable[[S, Store], Coroutine[Any, Any, None]]) -> Callable[[S], None]:
    """Makes a test of a coroutine that takes an open store."""

    async def with_store(suite: S) -> None:
        async with suite.opened() as store:
            await scenario(suite, store)

    def test(self: S) -> None:
        self.run(with_store(self))

    # Not functools.wraps: pytest would look through it and take ``store`` for a fixture.
    test.__name__ = scenario.__name__
    test.__doc__ = scenario.__doc__
    return test


class Watch:
    """A running watch, and what it has delivered."""

    def __init__(self, batches: AsyncIterator[EventBatch]) -> None:
        self.batches = batches
        self.events: list[StoreEvent] = []

    async def until(self, revision: Revision) -> list[StoreEvent]:
        """Reads until a write at or above ``revision`` was seen; returns everything since the watch began."""
        while not self.events or self.events[-1].revision < revision:
            batch = await soon(anext(self.batches))
            assert batch
            self.events += batch
        return self.events


def watching(
    store: Store, prefix: str, after: Revision
) -> AbstractAsyncContextManager[AsyncGenerator[EventBatch, None]]:
    """A watch that is closed at the end."""
    return aclosing(cast("AsyncGenerator[EventBatch, None]", store.watch(prefix, after)))


def soon(awaitable: Awaitable[T]) -> Coroutine[Any, Any, T]:
    return asyncio.wait_for(awaitable, PATIENCE_SECONDS)


def keys(page: Page) -> list[str]:
    return [item.key for item in page.items]


async def filled(store: Store, *names: str) -> Revision:
    """Creates keys, each with its own name as value; returns the revision of the last."""
    revision = await store.revision()
    for name in names:
        revision = await store.create(name, name.encode())
    return revision


class WriteSuite(Suite):
    """Create, update, delete and get."""

    @store_test
    async def test_a_new_store_is_empty_at_revision_1(self, store: Store) -> None:
        assert await store.revision() == 1
        assert await store.get("/a") is None
        assert await store.list("") == Page([], Revision(1), more=False, total=0)

    @store_test
    async def test_every_write_makes_one_revision(self, store: Store) -> None:
        assert await store.create("/a", b"1") == 2
        assert await store.create("/b", b"1") == 3
        assert await store.update("/a", b"2", Revision(2)) == 4
        assert await store.delete("/b", Revision(3)) == 5
        assert await store.revision() == 5
        assert await store.get("/a") == KeyValue("/a", b"2", Revision(4))
        assert await store.get("/b") is None

    @store_test
    async def test_create_of_a_key_that_exists(self, store: Store) -> None:
        await store.create("/a", b"first")
        with pytest.raises(KeyExists) as caught:
            await store.create("/a", b"second")
        assert caught.value.key == "/a"
        assert await store.get("/a") == KeyValue("/a", b"first", Revision(2))
        assert await store.revision() == 2

    @store_test
    async def test_update_of_a_key_that_moved_on_says_what_is_there(self, store: Store) -> None:
        await store.create("/a", b"1")
        await store.update("/a", b"2", Revision(2))
        for expected in (Revision(2), Revision(4), Revision(0)):
            with pytest.raises(RevisionConflict) as caught:
                await store.update("/a", b"3", expected)
            assert caught.value.key == "/a"
            assert caught.value.current == KeyValue("/a", b"2", Revision(3))
        assert await store.revision() == 3

    @store_test
    async def test_delete_of_a_key_that_moved_on_says_what_is_there(self, store: Store) -> None:
        await store.create("/a", b"1")
        with pytest.raises(RevisionConflict) as caught:
            await store.delete("/a", Revision(1))
        assert caught.value.current == KeyValue("/a", b"1", Revision(2))
        assert await store.revision() == 2

    @store_test
    async def test_update_and_delete_of_an_absent_key(self, store: Store) -> None:
        revision = await store.create("/gone", b"")
        await store.delete("/gone", revision)
        for key in ("/gone", "/never"):
            with pytest.raises(RevisionConflict) as caught:
                await store.update(key, b"", revision)
            assert caught.value.current is None
            with pytest.raises(RevisionConflict) as caught:
                await store.delete(key, revision)
            assert caught.value.current is None
        assert await store.revision() == 3

    @store_test
    async def test_a_deleted_key_can_be_created_again(self, store: Store) -> None:
        await store.delete("/a", await store.create("/a", b"1"))
        assert await store.create("/a", b"2") == 4
        assert await store.get("/a") == KeyValue("/a", b"2", Revision(4))

    @store_test
    async def test_values_are_any_bytes(self, store: Store) -> None:
        values = [b"", b"\x00", bytes(range(256)) * 3, "ü€😀".encode(), b"\xff\xfe\x00\x00"]
        created = await asyncio.gather(*(store.create(f"/v/{i}", value) for i, value in enumerate(values)))
        assert [item.value for item in (await store.list("/v/")).items] == values
        for i, (revision, value) in enumerate(zip(created, values, strict=True)):
            assert await store.get(f"/v/{i}") == KeyValue(f"/v/{i}", value, revision)

    @store_test
    async def test_a_value_may_have_the_largest_size_and_no_more(self, store: Store) -> None:
        await store.create("/a", b"x" * MAX_VALUE_BYTES)
        kept = await store.get("/a")
        assert kept is not None
        assert kept.value == b"x" * MAX_VALUE_BYTES
        with pytest.raises(ValueTooLarge, match=f"{MAX_VALUE_BYTES + 1}.*{MAX_VALUE_BYTES}"):
            await store.create("/b", b"x" * (MAX_VALUE_BYTES + 1))
        with pytest.raises(ValueTooLarge):
            await store.update("/a", b"x" * (MAX_VALUE_BYTES + 1), kept.revision)
        assert await store.revision() == 2

    @store_test
    async def test_keys_that_no_store_could_hold(self, store: Store) -> None:
        for key in ("", "/a\x00b", "/\ud800"):
            with pytest.raises(ValueError, match=r"key|surrogates"):
                await store.create(key, b"")
            with pytest.raises(ValueError, match=r"key|surrogates"):
                await store.get(key)
        assert await store.revision() == 1

    @store_test
    async def test_of_many_creates_of_one_key_one_wins(self, store: Store) -> None:
        outcomes = await settled(*(store.create("/a", str(i).encode()) for i in range(50)))
        assert [outcome for outcome in outcomes if not isinstance(outcome, KeyExists)] == [2]
        winner = outcomes.index(Revision(2))
        assert await store.get("/a") == KeyValue("/a", str(winner).encode(), Revision(2))

    @store_test
    async def test_of_many_updates_of_one_key_one_wins(self, store: Store) -> None:
        await store.create("/a", b"")
        outcomes = await settled(*(store.update("/a", str(i).encode(), Revision(2)) for i in range(50)))
        assert [outcome for outcome in outcomes if not isinstance(outcome, RevisionConflict)] == [3]
        held = KeyValue("/a", str(outcomes.index(Revision(3))).encode(), Revision(3))
        assert {outcome.current for outcome in outcomes if isinstance(outcome, RevisionConflict)} == {held}

    @store_test
    async def test_writes_that_share_a_commit_fail_alone(self, store: Store) -> None:
        await filled(store, "/there", "/moved", "/gone")
        outcomes = await settled(
            store.create("/new", b"1"),
            store.create("/there", b"1"),
            store.update("/moved", b"1", Revision(99)),
            store.delete("/gone", Revision(4)),
            store.delete("/gone", Revision(4)),
            store.create("/gone", b"again"),
        )
        kinds = [type(outcome) for outcome in outcomes]
        assert kinds == [int, KeyExists, RevisionConflict, int, RevisionConflict, int]
        assert await store.revision() == 7
        assert keys(await store.list("")) == ["/gone", "/moved", "/new", "/there"]

    @store_test
    async def test_concurrent_writes_have_consecutive_revisions(self, store: Store) -> None:
        revisions = await asyncio.gather(*(store.create(f"/{i}", b"") for i in range(300)))
        assert sorted(revisions) == list(range(2, 302))
        assert await store.revision() == 301

    @store_test
    async def test_a_write_is_read_by_whoever_asks_after_it(self, store: Store) -> None:
        async def write_and_read(name: str) -> None:
            revision = await store.create(name, b"")
            for turn in range(10):
                revision = await store.update(name, str(turn).encode(), revision)
                expected = KeyValue(name, str(turn).encode(), revision)
                assert await store.get(name) == expected
                page = await store.list(name)
                assert page.items == [expected]
                assert revision <= page.revision <= await store.revision()

        await asyncio.gather(*(write_and_read(f"/{i:02}") for i in range(20)))

    @store_test
    async def test_a_cancelled_write_happens_whole_or_not_at_all(self, store: Store) -> None:
        writes = [asyncio.ensure_future(store.create(f"/{i:03}", b"value")) for i in range(100)]
        await asyncio.sleep(0)
        for write in writes[::2]:
            write.cancel()
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
        last = await store.create("/last", b"")
        async with watching(store, "/", Revision(1)) as batches:
            events = await Watch(batches).until(last)
        assert [event.revision for event in events] == list(range(2, last + 1))
        held = {item.key: item.revision for item in (await store.list("")).items}
        assert held == {event.key: event.revision for event in events}
        for i, outcome in enumerate(outcomes):
            if not isinstance(outcome, asyncio.CancelledError):
                assert held[f"/{i:03}"] == outcome

    @store_test
    async def test_closing_carries_out_what_was_accepted(self, store: Store) -> None:
        writes = [asyncio.ensure_future(store.create(f"/{i:03}", b"")) for i in range(100)]
        await asyncio.sleep(0)
        await store.close()
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
        assert sorted(outcome for outcome in outcomes if isinstance(outcome, int)) == list(range(2, 102))

    @store_test
    async def test_a_closed_store_refuses_everything(self, store: Store) -> None:
        await store.create("/a", b"")
        await store.close()
        await store.close()
        for call in (
            store.get("/a"),
            store.list("/"),
            store.create("/b", b""),
            store.update("/a", b"", Revision(2)),
            store.delete("/a", Revision(2)),
            store.compact(Revision(2)),
            store.revision(),
        ):
            with pytest.raises(StoreUnavailable, match="closed"):
                await call
        with pytest.raises(StoreUnavailable, match="closed"):
            store.watch("/", Revision(1))


class ListSuite(Suite):
    """Prefixes, order, pages and old revisions."""

    @store_test
    async def test_keys_come_in_the_order_of_their_bytes(self, store: Store) -> None:
        names = [
            "/A",
            "/a",
            "/a!",
            "/a/",
            "/a/b",
            "/a0",
            "/b",
            "/é",
            "/\ud7ff",
            "/\ue000",
            "/\uffff",
            "/😀",
            "/\U0010ffff",
        ]
        assert names == sorted(names, key=str.encode)
        await filled(store, *reversed(names))
        assert keys(await store.list("/")) == names

    @store_test
    async def test_a_prefix_takes_what_begins_with_it(self, store: Store) -> None:
        await filled(
            store, "/a", "/a/", "/a/x", "/a/y", "/a0", "/b/x", "/\ud7ff", "/\ud7ff1", "/\ue000", "/\U0010ffff1"
        )
        assert keys(await store.list("/a/")) == ["/a/", "/a/x", "/a/y"]
        assert keys(await store.list("/a")) == ["/a", "/a/", "/a/x", "/a/y", "/a0"]
        assert keys(await store.list("/a/x")) == ["/a/x"]
        assert keys(await store.list("/c")) == []
        assert keys(await store.list("/\ud7ff")) == ["/\ud7ff", "/\ud7ff1"]
        assert keys(await store.list("/\U0010ffff")) == ["/\U0010ffff1"]
        assert (await store.list("")).total == 10

    @store_test
    async def test_start_and_limit(self, store: Store) -> None:
        last = await filled(store, "/a/1", "/a/2", "/a/3", "/a/4", "/b/1")
        for start, limit, expected, total in (
            ("", 0, ["/a/1", "/a/2", "/a/3", "/a/4"], 4),
            ("", 1, ["/a/1"], 4),
            ("", 4, ["/a/1", "/a/2", "/a/3", "/a/4"], 4),
            ("", 9, ["/a/1", "/a/2", "/a/3", "/a/4"], 4),
            ("/a/2", 0, ["/a/2", "/a/3", "/a/4"], 3),
            ("/a/2\x00", 1, ["/a/3"], 2),
            ("/a/25", 0, ["/a/3", "/a/4"], 2),
            ("/0", 2, ["/a/1", "/a/2"], 4),
            ("/a/9", 0, [], 0),
            ("/b", 3, [], 0),
        ):
            page = await store.list("/a/", start=start, limit=limit)
            assert keys(page) == expected
            assert (page.total, page.more, page.revision) == (total, len(expected) < total, last)

    @store_test
    async def test_pages_put_together_are_the_whole(self, store: Store) -> None:
        names = [f"/{i:04}" for i in range(700)]
        await asyncio.gather(*(store.create(name, name.encode()) for name in names))
        whole = await store.list("/")
        assert keys(whole) == names
        for limit in (1, 255, 256, 257, 700, 701):
            found: list[KeyValue] = []
            more = True
            while more and len(found) < 3 * limit:
                start = found[-1].key + "\x00" if found else ""
                page = await store.list("/", start=start, limit=limit, revision=whole.revision)
                assert page.total == 700 - len(found)
                found += page.items
                more = page.more
            assert found == whole.items[: 3 * limit]

    @store_test
    async def test_every_old_state_can_be_listed(self, store: Store) -> None:
        states: dict[Revision, dict[str, KeyValue]] = {Revision(1): {}}
        current: dict[str, KeyValue] = {}
        for turn in range(60):
            key = f"/{turn * 7 % 5}"
            value = str(turn).encode()
            if key not in current:
                revision = await store.create(key, value)
                current[key] = KeyValue(key, value, revision)
            elif turn % 3:
                revision = await store.update(key, value, current[key].revision)
                current[key] = KeyValue(key, value, revision)
            else:
                revision = await store.delete(key, current.pop(key).revision)
            states[revision] = current.copy()
        for revision, state in states.items():
            expected = [state[key] for key in sorted(state)]
            assert await store.list("/", revision=revision) == Page(expected, revision, more=False, total=len(state))
            page = await store.list("/", start="/1", limit=2, revision=revision)
            later = [item for item in expected if item.key >= "/1"]
            assert page == Page(later[:2], revision, more=len(later) > 2, total=len(later))

    @store_test
    async def test_a_future_revision(self, store: Store) -> None:
        await store.create("/a", b"")
        with pytest.raises(FutureRevision) as caught:
            await store.list("/", revision=Revision(3))
        assert (caught.value.asked, caught.value.current) == (3, 2)
        with pytest.raises(FutureRevision):
            await store.compact(Revision(3))

    @store_test
    async def test_malformed_reads(self, store: Store) -> None:
        with pytest.raises(ValueError, match="limit"):
            await store.list("/", limit=-1)
        with pytest.raises(ValueError, match="surrogates"):
            await store.list("/\udfff")
        with pytest.raises(ValueError, match="surrogates"):
            await store.list("/", start="/\udfff")

    @store_test
    async def test_lists_are_one_moment_while_writes_go_on(self, store: Store) -> None:
        """Each writer moves a mark from one key to the other; every state has exactly one of the two."""

        async def move(name: str) -> None:
            here, there = f"{name}/a", f"{name}/b"
            revision = await store.create(here, b"")
            for _ in range(20):
                await store.create(there, b"")
                await store.delete(here, revision)
                kept = await store.get(there)
                assert kept is not None
                here, there, revision = there, here, kept.revision

        async def look() -> None:
            seen = Revision(0)
            while not moving.done():
                await asyncio.sleep(0)  # a store in memory may answer without giving others a turn
                page = await store.list("/")
                assert page.revision >= seen
                seen = page.revision
                assert await store.list("/", revision=seen) == page
                for name in {key.rpartition("/")[0] for key in keys(page)}:
                    assert 1 <= sum(key.startswith(name) for key in keys(page)) <= 2

        moving = asyncio.gather(*(move(f"/{i}") for i in range(5)))
        await asyncio.gather(look(), look(), moving)


class CompactionSuite(Suite):
    """What is forgotten and what stays."""

    @store_test
    async def test_states_below_are_gone_and_those_above_are_not(self, store: Store) -> None:
        await filled(store, "/a", "/b", "/c")
        await store.update("/a", b"5", Revision(2))
        await store.delete("/b", Revision(3))
        await store.update("/a", b"7", Revision(5))
        at_6 = await store.list("/", revision=Revision(6))
        await store.compact(Revision(6))
        assert await store.list("/", revision=Revision(6)) == at_6
        assert keys(await store.list("/", revision=Revision(7))) == ["/a", "/c"]
        assert await store.list("/", revision=Revision(7)) == await store.list("/")
        for revision in (Revision(5), Revision(1)):
            with pytest.raises(Compacted) as caught:
                await store.list("/", revision=revision)
            assert (caught.value.asked, caught.value.oldest) == (revision, 6)

    @store_test
    async def test_everything_can_be_compacted_and_counting_goes_on(self, store: Store) -> None:
        await filled(store, "/a", "/b")
        await store.delete("/b", Revision(3))
        await store.compact(Revision(4))
        assert await store.revision() == 4
        assert await store.list("/") == Page([KeyValue("/a", b"/a", Revision(2))], Revision(4), more=False, total=1)
        assert await store.create("/b", b"") == 5
        assert keys(await store.list("/", revision=Revision(4))) == ["/a"]

    @store_test
    async def test_compacting_less_than_before_changes_nothing(self, store: Store) -> None:
        await filled(store, "/a", "/b", "/c")
        await store.compact(Revision(3))
        await store.compact(Revision(2))
        await store.compact(Revision(3))
        with pytest.raises(Compacted):
            await store.list("/", revision=Revision(2))
        assert keys(await store.list("/", revision=Revision(3))) == ["/a", "/b"]

    @store_test
    async def test_writes_and_reads_go_on_during_a_compaction(self, store: Store) -> None:
        revisions = list(await asyncio.gather(*(store.create(f"/{i:02}", b"") for i in range(50))))
        for turn in range(10):
            turns = (store.update(f"/{i:02}", str(turn).encode(), revisions[i]) for i in range(50))
            revisions = list(await asyncio.gather(*turns))
        before = await store.list("/")
        compacting = asyncio.ensure_future(store.compact(before.revision))
        written = await asyncio.gather(*(store.create(f"/new/{i}", b"") for i in range(50)))
        assert await store.list("/", revision=before.revision) == before
        await soon(compacting)
        assert await store.list("/", revision=before.revision) == before
        assert {item.revision for item in (await store.list("/new/")).items} == set(written)

    @store_test
    async def test_compactions_at_the_same_time(self, store: Store) -> None:
        last = await filled(store, *(f"/{i}" for i in range(30)))
        await asyncio.gather(*(store.compact(Revision(revision)) for revision in range(last, 1, -3)))
        with pytest.raises(Compacted):
            await store.list("/", revision=Revision(last - 1))
        assert (await store.list("/", revision=last)).total == 30


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
            await Watch(batches).until(Revision(1201))
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


class StoreSuite(WriteSuite, ListSuite, CompactionSuite, WatchSuite, ExpirySuite):
    """All of it."""


async def settled(*calls: Coroutine[Any, Any, T]) -> list[T | StoreError]:
    """What each call returned, or the store's error it raised."""
    outcomes: list[T | StoreError] = []
    for outcome in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(outcome, BaseException) and not isinstance(outcome, StoreError):
            raise outcome
        outcomes.append(outcome)
    return outcomes
