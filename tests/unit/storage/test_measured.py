"""storage/measured.py: a store like any other that tells what it was asked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from asynctest import async_test
from kubevouch.storage.interface import MAX_VALUE_BYTES, KeyExists, Revision, RevisionConflict, Store, ValueTooLarge
from kubevouch.storage.measured import MeasuredStore
from kubevouch.storage.memory import MemoryStore
from kubevouch.testing.clock import FakeClock
from kubevouch.testing.store_suite import StoreSuite


class Calls:
    def __init__(self) -> None:
        self.seen: list[tuple[str, str, bool]] = []

    def call(self, operation: str, key: str, seconds: float, *, failed: bool) -> None:
        assert seconds >= 0
        self.seen.append((operation, key, failed))


class TestMeasuredStore(StoreSuite):
    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        store = MeasuredStore(MemoryStore(clock=self.clock), self.clock, Calls())
        yield store
        await store.close()


@async_test
async def test_every_call_is_told() -> None:
    clock, calls = FakeClock(), Calls()
    store = MeasuredStore(MemoryStore(clock=clock), clock, calls)
    revision = await store.create("/a", b"1")
    await store.get("/a")
    await store.list("/")
    changed = await store.update("/a", b"2", revision)
    with pytest.raises(KeyExists):
        await store.create("/a", b"1")
    with pytest.raises(RevisionConflict):
        await store.delete("/a", Revision(1))
    with pytest.raises(ValueTooLarge):
        await store.update("/a", b"x" * (MAX_VALUE_BYTES + 1), changed)
    await store.delete("/a", changed)
    await store.close()
    assert calls.seen == [
        ("create", "/a", False),
        ("get", "/a", False),
        ("list", "/", False),
        ("update", "/a", False),
        ("create", "/a", False),
        ("delete", "/a", False),
        ("update", "/a", True),
        ("delete", "/a", False),
    ]
