"""What the memory store does besides being a store: it starts as a copy, and is put back."""

from __future__ import annotations

from asynctest import async_test
from kubevouch.storage.interface import Revision, StoreEvent
from kubevouch.storage.memory import MemoryStore
from kubevouch.testing import FakeClock


async def _passed(store: MemoryStore, after: Revision) -> list[StoreEvent]:
    watch = store.watch("", after)
    events: list[StoreEvent] = []
    while (events[-1].revision if events else after) < await store.revision():
        events += await anext(watch)
    await watch.aclose()
    return events


@async_test
async def test_what_was_made_changed_and_deleted_since_is_undone_by_new_writes() -> None:
    store = MemoryStore(clock=FakeClock())
    for key in "abc":
        await store.create(key, b"1")
    snapshot = store.snapshot()
    await store.delete("a", Revision(2))
    await store.update("b", b"2", Revision(3))
    await store.create("d", b"1")
    before = await store.create("e", b"made of d")
    store.restore(snapshot)
    assert {kept.key: kept.value for kept in (await store.list("")).items} == {"a": b"1", "b": b"1", "c": b"1"}
    # The newest goes first; what nobody touched is not written.
    assert [(event.key, event.value) for event in await _passed(store, before)] == [
        ("e", None), ("d", None), ("a", b"1"), ("b", b"1"),
    ]  # fmt: skip
    assert await store.revision() == before + 4
    store.restore(snapshot)
    assert await store.revision() == before + 4


@async_test
async def test_an_older_state_can_be_read_after_a_restore() -> None:
    store = MemoryStore(clock=FakeClock())
    snapshot = store.snapshot()
    made = await store.create("a", b"1")
    store.restore(snapshot)
    assert (await store.list("")).items == []
    assert [kept.key for kept in (await store.list("", revision=made)).items] == ["a"]


@async_test
async def test_times_to_live_are_put_back() -> None:
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    await store.create("short", b"1", ttl=60)
    await store.create("gone", b"1", ttl=60)
    kept = await store.create("endless", b"1")
    snapshot, then = store.snapshot(), clock.now()
    await store.update("endless", b"1", kept, ttl=60)
    await clock.run(61)
    assert (await store.list("")).items == []
    clock.set(then)
    store.restore(snapshot)
    assert [each.key for each in (await store.list("")).items] == ["endless", "gone", "short"]
    await clock.run(61)
    assert [each.key for each in (await store.list("")).items] == ["endless"]
    await store.close()
