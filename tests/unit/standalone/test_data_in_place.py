"""standalone/data_in_place.py: one look for all who ask, what it finds, and what a full disk leads to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from asynctest import async_test
from kubevouch.server.health import HealthError
from kubevouch.standalone import claims
from kubevouch.standalone.data_in_place import DataInPlace
from kubevouch.storage.interface import StoreUnavailable
from kubevouch.storage.memory import MemoryStore
from kubevouch.storage.sqlite import SQLiteStore
from kubevouch.testing.clock import FakeClock
from kubevouch.util.held_files import NotInPlaceError

PLENTY = os.statvfs_result((4096, 4096, 1000, 500, 500, 100, 50, 50, 0, 255))
FULL = os.statvfs_result((4096, 4096, 1000, 0, 0, 100, 50, 50, 0, 255))
READ_ONLY = os.statvfs_result((4096, 4096, 1000, 500, 500, 100, 50, 50, os.ST_RDONLY, 255))


def log_of(store: SQLiteStore) -> int:
    return store.path.with_name("store.db-wal").stat().st_size


@contextmanager
def held(folder: Path, disk: os.statvfs_result = PLENTY) -> Iterator[DataInPlace]:
    with claims.directory(folder):
        yield DataInPlace(folder, FakeClock(), room=lambda _: disk)


@async_test
async def test_all_is_well_until_a_look_raises(tmp_path: Path) -> None:
    found: list[Exception] = []

    def look() -> None:
        if found:
            raise found[0]

    with held(tmp_path) as data:
        async with data.watching(look):
            await data.check()
            found.append(StoreUnavailable("its files are gone"))
            with pytest.raises(HealthError, match="its files are gone"):
                await data.check()
            assert data.problem == "its files are gone"
        # What is watched no more is not looked at: a store that is closed takes files away.
        await data.check()
        assert not data.problem


@pytest.mark.parametrize("gone", ["", claims.LOCK_FILE])
@async_test
async def test_the_directory_and_its_lock_file(tmp_path: Path, gone: str) -> None:
    folder, away = tmp_path / "data", tmp_path / "away"
    with held(folder) as data:
        os.rename(folder / gone, away)
        await data.look()
        assert "expected what this process has open; nothing is written or signed" in data.problem
        os.rename(away, folder / gone)
        await data.look()
        assert not data.problem


@async_test
async def test_a_file_system_that_turns_read_only(tmp_path: Path) -> None:
    with held(tmp_path, READ_ONLY) as data:
        await data.look()
        assert "got a read-only file system" in data.problem


@async_test
async def test_a_full_disk_has_a_write_tell_whether_writes_work(tmp_path: Path) -> None:
    with held(tmp_path / "data", FULL) as data:
        clock = FakeClock()
        store = await SQLiteStore.open(tmp_path / "store.db", clock=clock)
        try:
            async with data.watching_store(store):
                await store.create("/a", b"1")
                before = log_of(store)
                await store.expect_writable()
                assert log_of(store) == before
                await data.look()
                assert not data.problem
                await store.expect_writable()
                assert log_of(store) > before
        finally:
            await store.close()


@async_test
async def test_a_store_without_files_is_not_looked_at(tmp_path: Path) -> None:
    with held(tmp_path) as data:
        async with data.watching_store(MemoryStore(clock=FakeClock())):
            await data.check()


def test_a_directory_that_is_gone_at_the_start_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        DataInPlace(tmp_path / "none", FakeClock())


def test_the_text_says_what_to_do() -> None:
    told = str(NotInPlaceError("/var/lib/kubevouch", "no file"))
    assert told.startswith("/var/lib/kubevouch: got no file, expected what this process has open; nothing is written")
    assert "move them back" in told
    assert "before you stop it" in told
