"""What the SQLite store says to files that are not what it left behind."""

import os
import random
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import aio
from kubevouch.storage.interface import (
    Compacted,
    KeyValue,
    Revision,
    StoreDamaged,
    StoreUnavailable,
)
from kubevouch.storage.sqlite import SQLiteStore
from kubevouch.testing.clock import FakeClock
from kubevouch.testing.store_suite import Watch, soon, watching

ADVICE = "expected a whole kubevouch store; restore a backup, or move the file away"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed store with 120 keys."""
    path = tmp_path / "store.db"

    async def fill() -> None:
        store = await SQLiteStore.open(path, clock=FakeClock())
        for i in range(120):
            await store.create(key(i), value(i))
        await store.close()

    aio.run(fill())
    return path


def key(i: int) -> str:
    return f"/k/{i:03}"


def value(i: int) -> bytes:
    return f"value {i} ".encode() * 150


def open_once(path: Path) -> None:
    async def scenario() -> None:
        store = await SQLiteStore.open(path, clock=FakeClock())
        await store.close()

    aio.run(scenario())


def assert_refused(path: Path, reason: str) -> None:
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(StoreDamaged, match=reason) as caught:
        open_once(path)
    assert ADVICE in str(caught.value)
    assert str(path) in str(caught.value)
    assert before is None or path.read_bytes() == before


def marked_unclean(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE meta SET value = 0 WHERE name = 'clean'")
        connection.commit()


@pytest.mark.parametrize("size", [0, 1, 99])
def test_a_file_without_a_beginning(path: Path, size: int) -> None:
    os.truncate(path, size)
    assert_refused(path, f"a file of {size} bytes that does not begin as SQLite's do")


@pytest.mark.parametrize("size", [100, 4096, 8192, 65536, 100_000])
def test_a_file_that_was_cut_off(path: Path, size: int) -> None:
    assert path.stat().st_size > size
    os.truncate(path, size)
    assert_refused(path, "malformed|not a database|SQLite's check")


def test_a_file_of_something_else(path: Path) -> None:
    path.write_text("apiVersion: v1\n" * 50)
    assert_refused(path, "does not begin as SQLite's do")


def test_an_sqlite_file_of_another_program(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE kine (id INTEGER PRIMARY KEY)")
    path.chmod(0o644)
    assert_refused(path, "another program")
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_store_of_a_later_kubevouch(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 3")
    assert_refused(path, "layout 3 where this kubevouch knows 2 only")


@pytest.mark.parametrize(
    "statement", ["DROP TABLE current", "CREATE TABLE more (x)", "DELETE FROM meta WHERE name = 'compacted'"]
)
def test_a_store_that_somebody_changed(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()
    assert_refused(path, "other tables or other rows")


def test_a_folder(tmp_path: Path) -> None:
    (tmp_path / "store.db").mkdir()
    assert_refused(tmp_path / "store.db", "something that is not a file")


def test_a_mark_without_its_file(path: Path) -> None:
    path.rename(path.with_name("elsewhere.db"))
    assert_refused(path, "no file, but a mark .* of one at revision 121")


def test_a_log_without_its_file(path: Path) -> None:
    path.rename(path.with_name("elsewhere.db"))
    path.with_name("store.db-wal").write_bytes(b"frames")
    assert_refused(path, "no file, but writes that belong to it in store.db-wal")


def test_what_an_interrupted_creation_left_is_no_hindrance(tmp_path: Path) -> None:
    for suffix in (".new", ".new-wal", ".new-shm"):
        tmp_path.joinpath("store.db" + suffix).write_bytes(b"half")
    open_once(tmp_path / "store.db")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["store.db", "store.db.lock", "store.db.mark"]


def test_a_flipped_bit_in_the_header(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[3] ^= 1
    path.write_bytes(content)
    assert_refused(path, "does not begin as SQLite's do")


def test_a_page_of_noise_is_found_after_an_unclean_shutdown(path: Path) -> None:
    marked_unclean(path)
    content = bytearray(path.read_bytes())
    middle = len(content) // 2 // 8192 * 8192
    content[middle : middle + 8192] = random.Random(7).randbytes(8192)
    path.write_bytes(content)
    with pytest.raises(StoreDamaged, match="SQLite's check") as caught:
        open_once(path)
    assert ADVICE in str(caught.value)


def test_a_flipped_bit_in_a_value_is_never_served(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[content.index(value(50)) + 700] ^= 4
    path.write_bytes(content)

    async def scenario() -> None:
        store = await SQLiteStore.open(path, clock=FakeClock())
        try:
            assert await store.get(key(49)) == KeyValue(key(49), value(49), Revision(51))
            with pytest.raises(StoreDamaged, match="wrong checksum at revision 52 of /k/050"):
                await store.get(key(50))
            with pytest.raises(StoreDamaged):
                await store.list("/k/")
            assert (await store.list(key(51))).total == 1
            async with watching(store, "/k/", Revision(51)) as batches:
                with pytest.raises(StoreDamaged):
                    await soon(anext(batches))
                assert await anext(batches, None) is None
            with pytest.raises(StoreDamaged):
                await store.update(key(50), b"", Revision(52))
            # The rest of the store goes on.
            assert await store.update(key(51), b"", Revision(53)) == 122
        finally:
            await store.close()

    aio.run(scenario())


@pytest.mark.parametrize("seed", range(25))
def test_flipped_bits_anywhere_give_what_was_written_or_an_error(path: Path, seed: int) -> None:
    """Never another value, never an error of SQLite's own. A key whose index entry is damaged may be missing."""
    choice = random.Random(seed)
    content = bytearray(path.read_bytes())
    for _ in range(choice.choice([1, 3, 30])):
        content[choice.randrange(len(content))] ^= 1 << choice.randrange(8)
    path.write_bytes(content)

    async def scenario() -> None:
        try:
            store = await SQLiteStore.open(path, clock=FakeClock())
        except StoreUnavailable:
            return
        try:
            for i in range(120):
                try:
                    found = await store.get(key(i))
                    assert found in (None, KeyValue(key(i), value(i), Revision(i + 2)))
                except StoreDamaged:
                    pass
            try:
                for item in (await store.list("/k/")).items:
                    assert item == KeyValue(item.key, value(item.revision - 2), item.revision)
                await store.create("/new", b"")
                await store.compact(await store.revision())
            except StoreDamaged:
                pass
            try:
                async with watching(store, "", Revision(1)) as batches:
                    await Watch(batches).until(await store.revision())
            except (StoreDamaged, Compacted):  # a mark of the compaction may be what was damaged
                pass
        finally:
            await store.close()

    aio.run(scenario())


@pytest.fixture
def forbidden_folder() -> Iterator[Path]:
    """A folder that exists and that this process may not write to, even if it runs as root."""
    folder = Path(tempfile.mkdtemp(prefix="kubevouch-", dir="/tmp"))
    folder.chmod(0o555)
    if os.geteuid() == 0:
        os.seteuid(65534)
        yield folder
        os.seteuid(0)
    else:
        yield folder
    folder.chmod(0o755)
    folder.rmdir()


def test_a_folder_that_may_not_be_written(forbidden_folder: Path) -> None:
    for path in (forbidden_folder / "store.db", forbidden_folder / "deeper" / "store.db"):
        with pytest.raises(StoreUnavailable, match=r"Permission denied.*expected") as caught:
            open_once(path)
        assert not isinstance(caught.value, StoreDamaged)
