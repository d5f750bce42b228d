"""ledger/absence.py, and ledger/store.py with it: what is said to be absent is nowhere, and most that is absent is."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from sqlite3 import Connection

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ledger_world as world
from asynctest import async_test
from kubevouch.ledger import reading, terms
from kubevouch.ledger.absence import AbsentTerms, marks
from kubevouch.ledger.entries import Query, Recorded, terms_wanted
from kubevouch.ledger.store import SQLiteLedger, read
from kubevouch.testing.clock import FakeClock

_TERMS = st.sets(st.binary(min_size=8, max_size=8).map(lambda each: each[:1].translate(bytes([7, 8] * 128)) + each[1:]))


@given(before=_TERMS, during=_TERMS, filled=_TERMS, others=_TERMS)
def test_nothing_that_is_there_is_absent(
    before: set[bytes], during: set[bytes], filled: set[bytes], others: set[bytes]
) -> None:
    absent = AbsentTerms([b"".join(before)])
    assert not any(map(absent.has, before | others))
    for bucket in absent.begin(filled | others):
        # What is appended while the file is read may be in what is read, or not.
        absent.add(b"".join(during))
        absent.complete(bucket, marks(each for each in filled if each[0] == bucket))
    assert absent.begin(filled | others) == set()
    assert not any(map(absent.has, before | during | filled if filled | others else before | filled))


def test_most_of_what_is_absent_is_known_to_be() -> None:
    absent = AbsentTerms()
    known = [b"\0" + hashlib.sha256(b"%d" % number).digest()[:7] for number in range(9000)]
    assert absent.begin(known[:1]) == {0}
    absent.complete(0, marks(known))
    unknown = [b"\0" + hashlib.sha256(b"x%d" % number).digest()[:7] for number in range(2000)]
    assert sum(map(absent.has, unknown)) > 1900 and not any(map(absent.has, known))


def test_what_could_not_be_read_is_asked_for_again() -> None:
    absent = AbsentTerms()
    assert absent.begin([bytes(8)]) == {0}
    absent.complete(0, None)
    assert not absent.has(bytes(8)) and absent.begin([bytes(8)]) == {0}


async def _complete(ledger: SQLiteLedger, query: Query) -> None:
    """Until the buckets of ``query`` are known."""
    (number,) = map(terms.number_of, terms_wanted(query))
    while terms.bucket_of(number) not in ledger._absent._whole:
        await ledger.find(query)


def _queries(number: int) -> list[Query]:
    entry = world.entry(number)
    return [
        Query(key=entry.key), Query(node=entry.node), Query(name=f"n{number // 3}.EXAMPLE.com"), Query(uid=entry.uid),
        Query(key=entry.key, node="another"), Query(serial=entry.serial or "none"), Query(request=entry.request),
    ]  # fmt: skip


@async_test
async def test_a_ledger_answers_as_its_file_after_a_start_and_appends(tmp_path: Path) -> None:
    """Of full segments, of the unfilled one, of what came since; and what was never there."""
    path = world.written(tmp_path / "ledger.db", 1100)
    ledger = await SQLiteLedger.open(path, FakeClock(world.NOW))
    try:
        for stop in (1200, 2100):
            for number in (2, 1000, 1023, 1024, 1099, 1100, 1199, 1200, 2047, 2048, 2099, 9000):
                for query in _queries(number):
                    for _ in range(2):
                        assert list(await ledger.find(query)) == read(path, query), (stop, number, query)
            await ledger.append(*map(world.entry, range(ledger.statistics.entries, stop)))
        assert ledger.statistics.entries == 2100
        for number in (1150, 1500, 2099, 9000):
            for query in _queries(number):
                assert list(await ledger.find(query)) == read(path, query), (number, query)
    finally:
        await ledger.close()


@async_test
async def test_a_fresh_key_is_known_without_the_file_until_it_is_appended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = world.written(tmp_path / "ledger.db", 1030)
    asked: list[Query] = []
    real = reading.find

    def find(connection: Connection, query: Query) -> list[Recorded]:
        asked.append(query)
        return real(connection, query)

    ledger = await SQLiteLedger.open(path, FakeClock(world.NOW))
    monkeypatch.setattr(reading, "find", find)
    try:
        fresh = msgspec.structs.replace(world.entry(9000), key="f" * 64)
        query = Query(key=fresh.key)
        await _complete(ledger, query)
        asked.clear()
        assert await ledger.find(query) == [] and asked == []
        # From the moment it is handed over on, though nothing is committed.
        appending = asyncio.ensure_future(ledger.append(fresh))
        await asyncio.sleep(0)
        await ledger.find(query)
        assert asked == [query]
        await appending
        assert [each.entry for each in await ledger.find(query)] == [fresh]
    finally:
        await ledger.close()
