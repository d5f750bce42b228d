"""What is left when old states are dropped."""

from __future__ import annotations

import asyncio

import pytest

from kubevouch.storage.interface import (
    Compacted,
    KeyValue,
    Page,
    Revision,
    Store,
)
from kubevouch.testing.store_suite.harness import (
    Suite,
    filled,
    keys,
    soon,
    store_test,
)


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
