"""The SQLite store against the suite, on both event loops, and what only a store on a disk can do."""

import asyncio
import hashlib
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

import aio
from kubevouch.storage.interface import (
    Compacted,
    KeyValue,
    Revision,
    Store,
    StoreEvent,
    StoreInUse,
    StoreUnavailable,
)
from kubevouch.storage.sqlite import SQLiteStore, database, examination, writer
from kubevouch.storage.sqlite.rows import Row, insert_rows
from kubevouch.storage.sqlite.wal import LARGEST_FILE
from kubevouch.testing.clock import FakeClock
from kubevouch.testing.store_suite import StoreSuite, Watch, filled, soon, watching
from kubevouch.util.turns import give_way


class TestSQLiteStore(StoreSuite):
    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        store = await SQLiteStore.open(self.folder / "store.db", clock=self.clock)
        try:
            yield store
        finally:
            await store.close()

    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        aio.run(scenario)


class TestSQLiteStoreOnUvloop(TestSQLiteStore):
    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        aio.run(scenario, loop="uvloop")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "made" / "store.db"


@asynccontextmanager
async def opened(
    path: Path, clock: FakeClock | None = None, max_bytes: int | None = None
) -> AsyncIterator[SQLiteStore]:
    store = await SQLiteStore.open(path, clock=clock or FakeClock(), max_bytes=max_bytes)
    try:
        yield store
    finally:
        await store.close()


def edited(path: Path, *statements: str) -> None:
    """Changes a closed store behind its back."""
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def counted(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        (rows,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        assert isinstance(rows, int)
        return rows


def test_what_was_written_is_there_after_opening_again(path: Path) -> None:
    async def scenario() -> None:
        async with opened(path) as store:
            await filled(store, "/a", "/b", "/c")
            await store.update("/a", b"new", Revision(2))
            await store.delete("/b", Revision(3))
            await store.compact(Revision(4))
            before = await store.list("/")
        assert sorted(file.name for file in path.parent.iterdir()) == ["store.db", "store.db.lock", "store.db.mark"]
        async with opened(path) as store:
            assert await store.revision() == 6
            assert await store.list("/") == before
            assert [item.key for item in (await store.list("/", revision=Revision(5))).items] == ["/a", "/b", "/c"]
            with pytest.raises(Compacted):
                await store.list("/", revision=Revision(3))
            async with watching(store, "/", Revision(4)) as batches:
                events = await Watch(batches).until(Revision(6))
            assert [event.revision for event in events] == [5, 6]
            assert await store.create("/d", b"") == 7

    aio.run(scenario())


def test_the_revision_survives_when_its_row_is_compacted_away(path: Path) -> None:
    async def scenario() -> None:
        async with opened(path) as store:
            await store.delete("/a", await store.create("/a", b""))
            await store.compact(Revision(3))
        assert counted(path, "version") == 0
        assert counted(path, "current") == 0
        async with opened(path) as store:
            assert await store.revision() == 3
            assert await store.create("/a", b"") == 4

    aio.run(scenario())


def test_a_key_that_became_due_while_closed_is_deleted_on_opening(path: Path) -> None:
    async def scenario() -> None:
        clock = FakeClock()
        async with opened(path, clock) as store:
            await store.create("/due", b"1", ttl=10)
            await store.create("/later", b"2", ttl=60)
        clock.advance(30)
        async with opened(path, clock) as store, watching(store, "/", Revision(3)) as batches:
            watch = Watch(batches)
            await watch.until(Revision(4))
            clock.advance(30)
            events = await watch.until(Revision(5))
            assert events == [
                StoreEvent("/due", Revision(4), None, KeyValue("/due", b"1", Revision(2))),
                StoreEvent("/later", Revision(5), None, KeyValue("/later", b"2", Revision(3))),
            ]

    aio.run(scenario())


def test_compaction_leaves_no_rows_that_nobody_needs(path: Path) -> None:
    async def scenario() -> None:
        async with opened(path) as store:
            await churned(store)
            await store.compact(await store.revision())
        assert counted(path, "version") == 10
        assert counted(path, "current") == 10

    aio.run(scenario())


def test_a_compaction_that_was_cut_off_is_finished_by_the_next(path: Path) -> None:
    async def scenario() -> None:
        async with opened(path) as store:
            await churned(store)
            last = await store.revision()
            before = await store.list("/")
        # As after a crash: the mark has moved, rows below it are still there.
        edited(path, f"UPDATE meta SET value = {last} WHERE name = 'compacted'")
        async with opened(path) as store:
            with pytest.raises(Compacted):
                await store.list("/", revision=Revision(last - 1))
            assert await store.list("/", revision=last) == before
            await store.compact(last)
        assert counted(path, "version") == 10

    aio.run(scenario())


async def churned(store: Store) -> None:
    """Ten keys with forty versions each, and fifty that are deleted again."""
    for i in range(10):
        revision = await store.create(f"/kept/{i}", b"")
        for turn in range(40):
            revision = await store.update(f"/kept/{i}", bytes(turn), revision)
    for i in range(50):
        await store.delete(f"/gone/{i}", await store.create(f"/gone/{i}", b""))


def test_compaction_makes_room_that_is_used_again(path: Path) -> None:
    async def scenario() -> None:
        async with opened(path) as store:
            revision = await store.create("/a", bytes(50_000))
            for _ in range(6):
                for _ in range(40):
                    revision = await store.update("/a", bytes(50_000), revision)
                await store.compact(revision)

    aio.run(scenario())
    assert path.stat().st_size < 2 * 40 * 50_000


def test_the_files_are_for_their_owner_only(path: Path) -> None:
    async def scenario() -> None:
        async with opened(path) as store:
            await store.create("/a", b"")
            assert modes(path) == {
                "store.db": 0o600,
                "store.db-shm": 0o600,
                "store.db-wal": 0o600,
                "store.db.lock": 0o600,
                "store.db.mark": 0o600,
            }

    async def made_private_again() -> None:
        async with opened(path) as store:
            await store.create("/b", b"")
            assert set(modes(path).values()) == {0o600}

    aio.run(scenario())
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.chmod(0o644)
    aio.run(made_private_again())


def modes(path: Path) -> dict[str, int]:
    return {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}


def test_a_second_store_on_the_file_is_refused(path: Path) -> None:
    async def scenario() -> None:
        link = path.parent / "link.db"
        async with opened(path) as store:
            link.symlink_to(path)
            for name in (path, link):
                with pytest.raises(StoreInUse, match=r"process \d+.*stop that process"):
                    await SQLiteStore.open(name)
            await store.create("/a", b"")
        async with opened(link) as store:
            assert await store.get("/a") is not None

    aio.run(scenario())


def test_a_second_process_is_refused(path: Path) -> None:
    program = """
import asyncio, sys
from pathlib import Path
from kubevouch.storage.interface import StoreInUse
from kubevouch.storage.sqlite import SQLiteStore
try:
    asyncio.run(SQLiteStore.open(Path(sys.argv[1])))
except StoreInUse as error:
    print(error)
"""

    async def scenario() -> str:
        async with opened(path):
            return await asyncio.to_thread(
                subprocess.check_output, [sys.executable, "-c", program, str(path)], text=True, timeout=50
            )

    assert "that process" in aio.run(scenario(), blocked_seconds=30)


def test_whoever_waits_for_opening_may_be_cancelled(path: Path) -> None:
    async def scenario() -> None:
        for turns in range(4):
            opening = asyncio.ensure_future(SQLiteStore.open(path, clock=FakeClock()))
            for _ in range(turns):
                await asyncio.sleep(0)
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
            while True:
                try:
                    async with opened(path) as store:
                        await store.create(f"/{turns}", b"")
                    break
                except StoreInUse:  # the opening that nobody waits for is not over yet
                    await asyncio.sleep(0)

    aio.run(scenario())


def test_whoever_waits_for_closing_may_be_cancelled(path: Path) -> None:
    async def scenario() -> None:
        store = await SQLiteStore.open(path, clock=FakeClock())
        closing_store = asyncio.ensure_future(store.close())
        await asyncio.sleep(0)
        closing_store.cancel()
        await asyncio.gather(closing_store, return_exceptions=True)
        await store.close()
        async with opened(path):
            pass

    aio.run(scenario())


def test_an_unclean_shutdown_is_noticed_and_a_check_that_takes_long_is_cut_short(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with opened(path) as store:
            await asyncio.gather(*(store.create(f"/{i}", bytes(10_000)) for i in range(2000)))
        edited(path, "UPDATE meta SET value = 0 WHERE name = 'clean'")
        monkeypatch.setattr(examination, "CHECK_SECONDS", 0.0)
        async with opened(path) as store:
            assert (await store.list("/")).total == 2000

    aio.run(scenario())


def test_a_revision_that_was_never_published_is_found_and_published(path: Path) -> None:
    """As after a commit that was reported as failed and had happened after all."""

    async def scenario() -> None:
        async with opened(path) as store, watching(store, "/", Revision(1)) as batches:
            watch = Watch(batches)
            await store.create("/a", b"1")
            await watch.until(Revision(2))
            for revision, write_first in ((3, False), (4, True)):
                lost = Row(Revision(revision), revision - 1, None, "/a", b"lost")
                with closing(sqlite3.connect(path, isolation_level=None)) as connection:
                    insert_rows(connection, [lost])
                if write_first:
                    assert await store.create("/b", b"") == 5
                found = await soon(store.get("/a"))
                assert found == KeyValue("/a", b"lost", Revision(revision))
                assert await store.revision() >= revision
            events = await watch.until(Revision(5))
            assert [(event.key, event.revision) for event in events] == [("/a", 2), ("/a", 3), ("/a", 4), ("/b", 5)]

    aio.run(scenario())


def test_another_program_that_holds_the_file_delays_writes_only(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.05)

    async def scenario() -> None:
        async with opened(path) as store:
            await store.create("/a", b"")
            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                with pytest.raises(StoreUnavailable, match="stop the other program"):
                    await store.create("/b", b"")
                assert await store.get("/a") is not None
                other.execute("ROLLBACK")
            assert await store.create("/b", b"") == 3
            assert store.statistics().failed_commits == 1

    aio.run(scenario())


def test_the_log_stays_bounded_under_readers_without_end(path: Path) -> None:
    """Readers that overlap keep SQLite from beginning its log anew; the writer has to make them pause."""

    async def scenario() -> int:
        async with opened(path) as store:
            await asyncio.gather(*(store.create(f"/{i}", bytes(1000)) for i in range(500)))
            writing = asyncio.ensure_future(write(store))
            await asyncio.gather(writing, *(read(store, writing) for _ in range(6)))
            assert store.statistics().failed_commits == 0
            assert store.statistics().failed_checkpoints == 0
            return await writing

    async def write(store: SQLiteStore) -> int:
        largest = 0
        for turn in range(40):
            await asyncio.gather(*(store.create(f"/w/{turn}/{i}", bytes(100_000)) for i in range(20)))
            largest = max(largest, store.statistics().wal_bytes)
        return largest

    async def read(store: SQLiteStore, writing: asyncio.Future[int]) -> None:
        while not writing.done():
            await store.list("/", limit=500)

    assert 0 < aio.run(scenario()) < LARGEST_FILE + 2 * (writer.MAX_BATCH_BYTES + writer.MAX_GATHERED_BYTES)


def test_writes_of_one_turn_share_a_commit_up_to_a_bound(path: Path) -> None:
    async def commits(store: SQLiteStore, turn: str, count: int) -> int:
        before = store.statistics().commits
        await asyncio.gather(*(store.create(f"/{turn}/{number}", b"") for number in range(count)))
        return store.statistics().commits - before

    async def scenario() -> None:
        async with opened(path) as store:
            assert await commits(store, "few", 100) == 1
            most = writer.MAX_BATCH_WRITES + writer.MAX_GATHERED_WRITES
            assert await commits(store, "many", 2 * most) >= 2

    aio.run(scenario())


def test_writes_of_neighbouring_turns_share_a_commit(path: Path) -> None:
    """A busy loop brings a few with each turn, and each commit has its price."""
    work = bytes(2 * 1024 * 1024)

    async def scenario() -> None:
        async with opened(path) as store:
            before = store.statistics().commits
            made = []
            for number in range(writer.MOST_TURNS - 2):
                made.append(asyncio.create_task(store.create(f"/k{number}", b"x")))
                hashlib.sha256(work)  # meanwhile the writer's thread has the interpreter
                await give_way()
            await asyncio.gather(*made)
            assert store.statistics().commits - before == 1

    aio.run(scenario())


def test_what_was_written_in_the_turn_of_the_closing_is_stored(path: Path) -> None:
    async def scenario() -> None:
        async with opened(path) as store:
            writing = asyncio.ensure_future(store.create("/last", b"word"))
            await asyncio.sleep(0)
            await store.close()
            revision = await writing
        async with opened(path) as store:
            assert await store.get("/last") == KeyValue("/last", b"word", revision)

    aio.run(scenario())


def test_old_states_and_new_writes_and_compaction_all_at_once(path: Path) -> None:
    """Nobody ever hears "database is locked"."""

    async def scenario() -> None:
        async with opened(path) as store:
            writers = asyncio.gather(*(write(store, str(i)) for i in range(8)))
            await asyncio.gather(writers, compact(store, writers), look(store, writers), look(store, writers))
            statistics = store.statistics()
            assert (statistics.failed_commits, statistics.failed_checkpoints) == (0, 0)
            assert statistics.commits <= statistics.writes == 8 * 151

    async def write(store: Store, name: str) -> None:
        revision = await store.create(f"/{name}", b"")
        for turn in range(150):
            revision = await store.update(f"/{name}", bytes(turn * 20), revision)

    async def compact(store: Store, writers: asyncio.Future[list[None]]) -> None:
        while not writers.done():
            await store.compact(await store.revision())

    async def look(store: Store, writers: asyncio.Future[list[None]]) -> None:
        while not writers.done():
            now = await store.list("/")
            try:
                then = await store.list("/", revision=now.revision)
            except Compacted:
                continue
            assert then == now

    aio.run(scenario())
