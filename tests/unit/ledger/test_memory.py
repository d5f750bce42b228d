"""ledger/memory.py: bounded; that it answers as a file does is in test_store.py."""

from __future__ import annotations

import ledger_world as world
from asynctest import async_test
from kubevouch.ledger.entries import Query, encode
from kubevouch.ledger.memory import MemoryLedger


@async_test
async def test_the_oldest_are_forgotten_when_there_is_no_room() -> None:
    made = [world.entry(number) for number in range(30)]
    ledger = MemoryLedger(sum(len(encode(each)) for each in made[-10:]))
    for each in made:
        last = await ledger.append(each)
    assert last == 29
    assert [each.sequence for each in await ledger.find(Query())] == list(range(20, 30))
    assert await ledger.find(Query(node="n1")) == []
    assert [each.entry for each in await ledger.find(Query(node="n9"))] == made[27:]
    assert [each.sequence for each in await ledger.find(Query(token="abcdef", limit=1))] == [20]
