"""Lists and reads of old states."""

from __future__ import annotations

import asyncio

import pytest

from kubevouch.storage.interface import (
    FutureRevision,
    KeyValue,
    Page,
    Revision,
    Store,
)
from kubevouch.testing.store_suite.harness import (
    Suite,
    filled,
    keys,
    store_test,
)


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
