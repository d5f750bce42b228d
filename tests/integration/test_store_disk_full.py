"""The SQLite store when the disk has no room, by three means: a size limit, a file size limit, a full file system."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

import aio
from file_systems import file_size_limit, memory_disk
from kubevouch.storage.interface import Revision, Store, StoreUnavailable
from kubevouch.storage.sqlite import SQLiteStore
from kubevouch.testing.clock import FakeClock
from kubevouch.testing.store_suite import Watch, watching

VALUE = bytes(range(256)) * 40


async def written_until_full(store: Store, limit: int = 20_000) -> int:
    """Creates keys one by one until one fails; returns how many were acknowledged."""
    for acknowledged in range(limit):
        try:
            await store.create(f"/{acknowledged:05}", VALUE)
        except StoreUnavailable:
            return acknowledged
    raise AssertionError("the medium never became full")


async def assert_all_there(store: Store, acknowledged: int) -> None:
    page = await store.list("/")
    assert [item.key for item in page.items][:acknowledged] == [f"/{i:05}" for i in range(acknowledged)]
    assert all(item.value == VALUE for item in page.items[:acknowledged])
    assert page.items[acknowledged - 1].revision == acknowledged + 1
    assert (await store.list("/", limit=3, revision=Revision(acknowledged))).total == acknowledged - 1
    assert await store.get("/00001") is not None


def test_a_store_at_its_size_limit_goes_on_after_a_compaction(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "store.db"
        store = await SQLiteStore.open(path, clock=FakeClock(), max_bytes=1_000_000)
        try:
            acknowledged = await written_until_full(store)
            assert 20 < acknowledged < 100
            await assert_all_there(store, acknowledged)
            for i in range(10):
                await store.delete(f"/{i:05}", Revision(i + 2))
            await store.compact(await store.revision())
            await store.create("/again", VALUE)
            assert path.stat().st_size <= 1_000_000
        finally:
            await store.close()

    aio.run(scenario())


@contextmanager
def quota(folder: Path) -> Iterator[Callable[[], None]]:
    """No file may be longer than 2 MB; yields what takes the limit away."""
    with file_size_limit() as lift:
        yield lift


@contextmanager
def full_file_system(folder: Path) -> Iterator[Callable[[], None]]:
    """A file system of 4 MB in memory; yields what makes it larger."""
    with memory_disk(folder, "size=4m") as mount_again:
        yield lambda: mount_again("size=64m")


def may_mount(folder: Path) -> bool:
    try:
        with full_file_system(folder):
            return True
    except PermissionError:
        return False


Medium = Callable[[Path], AbstractContextManager[Callable[[], None]]]


@pytest.mark.parametrize("medium", [quota, full_file_system])
def test_a_disk_without_room_fails_writes_only_and_they_work_again_with_room(tmp_path: Path, medium: Medium) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    if medium is full_file_system and not may_mount(folder):
        medium = quota  # only root may mount; the other means is close enough

    async def scenario() -> None:
        path = folder / "store.db"
        store = await SQLiteStore.open(path, clock=FakeClock())
        try:
            async with watching(store, "/", Revision(1)) as batches:
                watch = Watch(batches)
                acknowledged = await written_until_full(store)
                assert acknowledged > 20
                for _ in range(3):
                    with pytest.raises(StoreUnavailable, match="nothing was acknowledged; "):
                        await store.create("/more", VALUE)
                await assert_all_there(store, acknowledged)
                assert await store.revision() == acknowledged + 1
                lift()
                assert await store.create("/with-room", VALUE) == acknowledged + 2
                events = await watch.until(Revision(acknowledged + 2))
                assert [event.revision for event in events] == list(range(2, acknowledged + 3))
        finally:
            await store.close()
        store = await SQLiteStore.open(path, clock=FakeClock())
        try:
            await assert_all_there(store, acknowledged)
            assert await store.revision() == acknowledged + 2
        finally:
            await store.close()

    with medium(folder) as lift:
        aio.run(scenario())


def test_a_store_closed_on_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "store.db"
        store = await SQLiteStore.open(path, clock=FakeClock())
        with file_size_limit() as lift:
            acknowledged = await written_until_full(store)
            await store.close()
            lift()
        store = await SQLiteStore.open(path, clock=FakeClock())
        try:
            await assert_all_there(store, acknowledged)
        finally:
            await store.close()

    aio.run(scenario())
