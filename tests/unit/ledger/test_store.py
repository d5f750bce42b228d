"""ledger/store.py: durable before it is acknowledged, shared commits, found again, and read beside its writer."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from sqlite3 import Connection

import msgspec
import pytest

import ledger_world as world
from asynctest import async_test
from file_systems import file_size_limit
from kubevouch.ledger import entries
from kubevouch.ledger.entries import Query, Recorded
from kubevouch.ledger.interface import LedgerUnavailable, allowed, signed_before
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.ledger.store import SQLiteLedger, read
from kubevouch.testing.clock import FakeClock

SIZE = 1100


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[SQLiteLedger]:
    ledger = await SQLiteLedger.open(path, FakeClock(world.NOW))
    try:
        yield ledger
    finally:
        await ledger.close()


async def outcome(appending: Awaitable[int]) -> int | LedgerUnavailable:
    try:
        return await appending
    except LedgerUnavailable as error:
        return error


QUERIES = [
    Query(),
    Query(limit=3, after=1000),
    Query(limit=3, newest_first=True),
    Query(limit=3, newest_first=True, before=1030),
    Query(limit=3, newest_first=True, before=500, token="abcdef"),
    Query(name="n5.EXAMPLE.com"),
    Query(name="n365"),
    Query(node="n341", kinds=frozenset({"issued"})),
    Query(uid=world.entry(10).uid),
    Query(uid=world.entry(1090).uid),
    Query(serial=world.entry(800).serial),
    Query(key=world.entry(1024).key, request="csr-341"),
    Query(key=world.entry(1024).key, request="csr-1"),
    Query(requester="system:bootstrap:abcdef", kinds=frozenset({"denied"})),
    Query(token="abcdef", after=1000, limit=50),
    Query(since=world.NOW + dt.timedelta(seconds=1000), until=world.NOW + dt.timedelta(seconds=1050)),
    Query(since=world.NOW + dt.timedelta(seconds=1090), newest_first=True, limit=2),
    Query(ends_before=world.NOW + dt.timedelta(days=30, seconds=100)),
    Query(ends_after=world.NOW + dt.timedelta(days=30, seconds=1080), kinds=frozenset({"issued", "revoked"})),
    Query(ends_after=world.NOW + dt.timedelta(days=40)),
    Query(kinds=frozenset({"revoked"})),
    Query(signer="example.com/s", limit=7),
    Query(signer="example.com/t"),
]


@async_test
async def test_a_file_answers_as_memory_does(tmp_path: Path) -> None:
    memory = MemoryLedger()
    async with opened(tmp_path / "ledger.db") as ledger:
        for begin, end in ((0, 1), (1, 700), (700, SIZE)):
            batch = list(map(world.entry, range(begin, end)))
            assert await ledger.append(*batch) == await memory.append(*batch) == end - 1
        for query in QUERIES:
            expected = list(await memory.find(query))
            assert list(await ledger.find(query)) == expected, query
            # Nobody's process, and not the one that writes.
            assert read(ledger.path, query) == expected, query
    for query in QUERIES:
        assert read(ledger.path, query) == list(await memory.find(query)), query


@async_test
async def test_those_that_come_together_share_a_commit(tmp_path: Path) -> None:
    async with opened(tmp_path / "ledger.db") as ledger:
        sequences = await asyncio.gather(*(ledger.append(world.entry(number)) for number in range(100)))
        assert sorted(sequences) == list(range(100))
        assert ledger.statistics.commits < 10 and ledger.statistics.entries == 100
        assert ledger.lag == 0
        found = await ledger.find(Query())
        assert [each.sequence for each in found] == list(range(100))
    assert world.verified(ledger.path).findings == []


@async_test
async def test_who_stops_waiting_has_written_all_the_same(tmp_path: Path) -> None:
    async with opened(tmp_path / "ledger.db") as ledger:
        waiting = asyncio.create_task(ledger.append(world.entry(0)))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await ledger.append(world.entry(1)) == 1


@async_test
async def test_what_is_too_large_keeps_others_from_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path / "ledger.db") as ledger:
        large = entries.Entry(kind="x", at=world.NOW, message="x" * entries.MAX_ENTRY_BYTES)
        with pytest.raises(entries.EntryTooLarge):
            await ledger.append(world.entry(0), large)
        assert await ledger.append(world.entry(0)) == 0


@async_test
async def test_a_full_disk_is_an_error_and_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    async with opened(path) as ledger:
        await ledger.append(world.entry(0))
        large = entries.Entry(kind="x", at=world.NOW, message="x" * 200_000)
        with file_size_limit(1_000_000) as lift:
            outcomes = [await outcome(ledger.append(large)) for _ in range(20)]
            refused = [each for each in outcomes if isinstance(each, LedgerUnavailable)]
            assert refused and all("nothing was acknowledged" in str(each) for each in refused)
            written = ledger.statistics.entries
            assert ledger.statistics.failed_commits == len(refused)
            # What fits is written nevertheless, and what was acknowledged stays.
            lift()
        assert await ledger.append(world.entry(1)) == written
    assert world.verified(path).findings == []
    assert len(read(path, Query())) == written + 1


@async_test
async def test_a_closed_ledger_takes_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path / "ledger.db") as ledger:
        pass
    await ledger.close()
    with pytest.raises(LedgerUnavailable, match="is closed"):
        await ledger.append(world.entry(0))
    with pytest.raises(LedgerUnavailable, match="is closed"):
        await ledger.checkpoint()
    with pytest.raises(LedgerUnavailable, match="is closed"):
        await ledger.find(Query())


@async_test
async def test_what_is_accepted_is_written_before_it_closes(tmp_path: Path) -> None:
    ledger = await SQLiteLedger.open(tmp_path / "ledger.db", FakeClock(world.NOW))
    waiting = [asyncio.create_task(ledger.append(world.entry(number))) for number in range(5)]
    await asyncio.sleep(0)
    await ledger.close()
    assert await asyncio.gather(*waiting) == list(range(5))
    assert len(read(ledger.path, Query())) == 5


@async_test
async def test_a_checkpoint_is_made_once_for_a_size(tmp_path: Path) -> None:
    async with opened(tmp_path / "ledger.db") as ledger:
        await ledger.append(world.entry(0))
        first = await ledger.checkpoint()
        assert await ledger.checkpoint() == first
        await ledger.append(world.entry(1))
        assert await ledger.checkpoint() != first and first[0] == 1
    assert world.verified(ledger.path).checkpoints == 3


@async_test
async def test_whether_one_was_issued_is_known_without_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked for each certificate, before the key is used."""
    from kubevouch.ledger import reading, store

    asked: list[Query] = []
    monkeypatch.setattr(store, "REMEMBERED", 20)
    monkeypatch.setattr(store, "_LOADED", 60)
    real = reading.find

    def find(connection: Connection, query: Query) -> list[Recorded]:
        asked.append(query)
        return real(connection, query)

    monkeypatch.setattr(reading, "find", find)

    async def issued(ledger: SQLiteLedger, number: int, created: int | None) -> bool:
        entry = world.entry(number)
        moment = None if created is None else world.NOW + dt.timedelta(seconds=created) + dt.timedelta(minutes=5)
        return bool(await signed_before(ledger, entry.uid, entry.digest, moment))

    async with opened(tmp_path / "ledger.db") as ledger:
        await ledger.append(*map(world.entry, range(150)))
        asked.clear()
        # 30 of 50 are forgotten; the newest of them is entry 89.
        assert not await issued(ledger, 9000, 200) and not await issued(ledger, 9000, 90)
        assert asked == []
        assert await issued(ledger, 149, 100) and await issued(ledger, 2, 0) and await issued(ledger, 2, None)
        assert not await issued(ledger, 9000, None) and not await issued(ledger, 9000, 89)
        # Those that are there are read; of others the filter knows most, and whom it takes for one differs by run.
        assert 3 <= len(asked) <= 5
    async with opened(tmp_path / "ledger.db") as ledger:
        asked.clear()
        assert not await issued(ledger, 9000, 131)
        assert asked == []
        assert await issued(ledger, 149, 140) and await issued(ledger, 50, 48) and not await issued(ledger, 9000, 90)
        assert 2 <= len(asked) <= 3
        # What was approved a moment ago has not been signed.
        asked.clear()
        decided = msgspec.structs.replace(world.entry(600), created=world.NOW, at=world.NOW + dt.timedelta(hours=1))
        await ledger.append(decided)
        assert await signed_before(ledger, decided.uid, decided.digest, decided.at) == [] and asked == []
        assert await allowed(ledger, decided.uid, decided.digest) == decided and len(asked) == 1
