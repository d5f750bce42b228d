"""ledger/index.py: it finds what the ledger in memory finds."""

from __future__ import annotations

import pytest

import ledger_world as world
from asynctest import async_test
from kubevouch.ledger.entries import ISSUED, Query, encode
from kubevouch.ledger.index import EntryIndex
from kubevouch.ledger.memory import MemoryLedger

QUERIES = [
    Query(),
    Query(limit=3, after=700),
    Query(limit=3, newest_first=True, before=500, token="abcdef"),
    Query(limit=1, newest_first=True),
    Query(name="n5.EXAMPLE.com"),
    Query(node="n341"),
    Query(uid=world.entry(10).uid),
    Query(serial=world.entry(800).serial),
    Query(key=world.entry(1024).key, request="csr-341"),
    Query(key=world.entry(1024).key, request="csr-1"),
    Query(requester="system:bootstrap:abcdef", kinds=frozenset({ISSUED}), limit=5000),
    Query(kinds=frozenset({"begun"})),
    Query(ends_before=world.entry(100).not_after, kinds=frozenset({ISSUED})),
    Query(uid="unknown"),
]


@pytest.mark.parametrize("query", QUERIES)
def test_it_answers_as_the_ledger_in_memory(query: Query) -> None:
    @async_test
    async def scenario() -> None:
        ledger, index = MemoryLedger(), EntryIndex()
        for number in range(1100):
            await ledger.append(world.entry(number))
            index.add(world.entry(number), encode(world.entry(number)))
        assert len(index) == 1100
        assert await index.find(query) == await ledger.find(query)

    scenario()
