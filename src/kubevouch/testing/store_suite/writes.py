"""Create, update, delete and get."""

from __future__ import annotations

import asyncio

import pytest

from kubevouch.storage.interface import (
    MAX_VALUE_BYTES,
    KeyExists,
    KeyValue,
    Page,
    Revision,
    RevisionConflict,
    Store,
    StoreUnavailable,
    ValueTooLarge,
)
from kubevouch.testing.store_suite.harness import (
    Suite,
    Watch,
    filled,
    keys,
    settled,
    store_test,
    watching,
)


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
        if not self.writes_keep_their_order:
            return
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
