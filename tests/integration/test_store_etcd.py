"""The store on etcd against the suite, with a real etcd."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar
from uuid import uuid4

import pytest

import aio
from asynctest import async_test
from etcd_server import EtcdServer
from kubevouch.storage.compactor import RevisionBytes
from kubevouch.storage.etcd import messages
from kubevouch.storage.etcd.compaction import NEVER, Turn, take
from kubevouch.storage.etcd.keys import ROOT
from kubevouch.storage.etcd.options import EtcdOptions
from kubevouch.storage.etcd.store import EtcdStore
from kubevouch.storage.interface import (
    Compacted,
    EventBatch,
    FutureRevision,
    KeyExists,
    KeyValue,
    Page,
    Revision,
    RevisionConflict,
    Store,
    StoreEvent,
)
from kubevouch.testing.clock import FakeClock
from kubevouch.testing.store_suite import StoreSuite
from kubevouch.util.clock import SystemClock


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    # The suite's largest value, with its key around it, is a little above etcd's own default.
    with EtcdServer(tmp_path_factory.mktemp("etcd"), arguments=("--max-request-bytes=3145728",)) as server:
        yield server


class NewStore:
    """An etcd that others have used before as a new store: revisions count from 1, and keys need no ``/registry/``."""

    def __init__(self, store: EtcdStore, before: int) -> None:
        self._store = store
        self._before = before

    def _theirs(self, revision: Revision) -> Revision:
        return Revision(revision + self._before)

    def _ours(self, revision: Revision) -> Revision:
        return Revision(revision - self._before)

    def _kept(self, kv: KeyValue | None) -> KeyValue | None:
        return None if kv is None else KeyValue(kv.key.removeprefix(ROOT), kv.value, self._ours(kv.revision))

    async def _told(self, call: Coroutine[Any, Any, Any]) -> Any:
        try:
            return await call
        except KeyExists as err:
            raise KeyExists(err.key.removeprefix(ROOT)) from err
        except RevisionConflict as err:
            raise RevisionConflict(err.key.removeprefix(ROOT), self._kept(err.current)) from err
        except Compacted as err:
            raise Compacted(self._ours(err.asked), self._ours(err.oldest)) from err
        except FutureRevision as err:
            raise FutureRevision(self._ours(err.asked), self._ours(err.current)) from err

    @staticmethod
    def _named(key: str) -> str:
        return ROOT + key if key else key

    async def get(self, key: str) -> KeyValue | None:
        return self._kept(await self._told(self._store.get(self._named(key))))

    async def list(self, prefix: str, *, start: str = "", limit: int = 0, revision: Revision | None = None) -> Page:
        at = None if revision is None else self._theirs(revision)
        listed = self._store.list(ROOT + prefix, start=self._named(start), limit=limit, revision=at)
        page: Page = await self._told(listed)
        items = [kept for kept in map(self._kept, page.items) if kept is not None]
        return Page(items, self._ours(page.revision), page.more, page.total)

    async def create(self, key: str, value: bytes, *, ttl: float | None = None) -> Revision:
        return self._ours(await self._told(self._store.create(self._named(key), value, ttl=ttl)))

    async def update(self, key: str, value: bytes, expected: Revision, *, ttl: float | None = None) -> Revision:
        written = self._store.update(self._named(key), value, self._theirs(expected), ttl=ttl)
        return self._ours(await self._told(written))

    async def delete(self, key: str, expected: Revision) -> Revision:
        return self._ours(await self._told(self._store.delete(self._named(key), self._theirs(expected))))

    def watch(self, prefix: str, after: Revision) -> AsyncIterator[EventBatch]:
        return self._Watch(self, self._store.watch(ROOT + prefix, self._theirs(after)))

    class _Watch:
        def __init__(self, store: NewStore, watch: Any) -> None:
            self._store = store
            self._watch = watch
            self.aclose = watch.aclose

        def __aiter__(self) -> AsyncIterator[EventBatch]:
            return self

        async def __anext__(self) -> EventBatch:
            batch = await self._store._told(anext(self._watch))
            return [
                StoreEvent(
                    event.key.removeprefix(ROOT),
                    self._store._ours(event.revision),
                    event.value,
                    self._store._kept(event.previous),
                )
                for event in batch
            ]

    async def compact(self, revision: Revision) -> None:
        await self._told(self._store.compact(self._theirs(revision)))

    async def revision(self) -> Revision:
        return self._ours(await self._store.revision())

    async def close(self) -> None:
        await self._store.close()


class CountingStore(EtcdStore):
    """Knows which leases it was given."""

    granted: list[tuple[int, int]]

    async def _grant(self, seconds: int) -> int:
        identity = await super()._grant(seconds)
        self.granted.append((seconds, identity))
        return identity


class TestEtcdStore(StoreSuite):
    events_precede_writes: ClassVar[bool] = False
    writes_keep_their_order: ClassVar[bool] = False
    clock: FakeClock

    @pytest.fixture(autouse=True)
    def _server(self, etcd: EtcdServer) -> None:
        self.etcd = etcd

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        options = EtcdOptions(self.etcd.endpoints, prefix=f"/{uuid4()}", lease_reuse_seconds=0)
        store = await CountingStore.open(options, SystemClock())
        self.store = store
        store.granted = []
        self.passed = 0.0
        try:
            yield NewStore(store, await store.revision() - 1)
        finally:
            await store.close()

    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        aio.run(scenario, loop="uvloop")

    async def elapse(self, seconds: float) -> None:
        """All leases of a test are taken at its start: those that would have ended are ended, as etcd does it."""
        self.passed += seconds
        for ttl, identity in sorted(self.store.granted):
            if ttl <= self.passed:
                self.store.granted.remove((ttl, identity))
                await self.store._client.call(messages.LEASE_REVOKE, messages.LeaseRevokeRequest(ID=identity), 10)


# ------------------------------------------------------------------ several servers on one etcd


@asynccontextmanager
async def opened(etcd: EtcdServer, **more: Any) -> AsyncIterator[EtcdStore]:
    store = await EtcdStore.open(EtcdOptions(etcd.endpoints, **more), SystemClock())
    try:
        yield store
    finally:
        await store.close()


async def _is_kept(store: EtcdStore, revision: Revision) -> bool:
    try:
        await store.list(ROOT, limit=1, revision=revision)
    except Compacted:
        return False
    return True


@async_test
async def test_two_servers_compact_like_one_until_one_of_them_dies(etcd: EtcdServer) -> None:
    async with opened(etcd) as store:
        client, revisions = store._client, RevisionBytes(store.revision_bytes)
        nowhere = Turn(-1)  # where the clock never is
        first = await take(client, await take(client, nowhere, NEVER, revisions), NEVER, revisions)
        second = await take(client, nowhere, NEVER, revisions)
        old = await store.create(f"{ROOT}{uuid4()}", b"")
        kept = []
        for _ in range(3):
            newer = await store.create(f"{ROOT}{uuid4()}", b"")
            at = first.time
            first = await take(client, first, first.revision, revisions)
            second = await take(client, second, second.revision, revisions)
            # One of them moves the clock, and the other one sees that it was moved: never both.
            assert (first.time, second.time) == (at + 1, at + 1)
            kept.append((await _is_kept(store, old), await _is_kept(store, newer)))
        assert kept == [(True, True), (False, True), (False, True)]
        # Once the first one is dead, the second one goes on.
        last = newer
        await store.create(f"{ROOT}{uuid4()}", b"")
        second = await take(client, second, second.revision, revisions)
        assert second.time == first.time + 1
        second = await take(client, second, second.revision, revisions)
        assert not await _is_kept(store, last)


@async_test
async def test_what_is_large_is_forgotten_early_whoever_has_the_turn(etcd: EtcdServer) -> None:
    async with opened(etcd) as store, opened(etcd) as other:
        revisions = RevisionBytes(4 << 20)
        await take(other._client, Turn(-1), NEVER, revisions)
        key = f"{ROOT}{uuid4()}"
        first = revision = await store.create(key, b"")
        compacting = asyncio.ensure_future(store.keep_compacting(300.0, revisions))
        for _ in range(5):
            revision = await store.update(key, b"x" * (1 << 20), revision)
            revisions.wrote(revision, 1 << 20)
        while await _is_kept(store, first):  # noqa: ASYNC110 - another server's doing
            await asyncio.sleep(0)
        assert await _is_kept(store, revision)
        assert revisions.bytes < 4 << 20
        compacting.cancel()
        await asyncio.wait({compacting})
