"""The store over a socket is a store like any other, and says so when the other side has gone."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator

import msgspec
import pytest

from asynctest import async_test
from kubevouch.storage.interface import Compacted, Page, Probed, Revision, Store, StoreDamaged, StoreUnavailable
from kubevouch.storage.memory import MemoryStore
from kubevouch.storage.remote.messages import Watch
from kubevouch.storage.remote.server import PAGE_KEYS, StoreServer
from kubevouch.storage.remote.store import RemoteStore
from kubevouch.testing import FakeClock
from kubevouch.testing.store_suite import StoreSuite, filled, soon


@contextlib.asynccontextmanager
async def remote(store: Store) -> AsyncIterator[tuple[RemoteStore, StoreServer]]:
    theirs, ours = socket.socketpair()
    server = StoreServer(store)
    await server.start(theirs)
    client = await RemoteStore.over(ours)
    try:
        yield client, server
    finally:
        await client.close()
        await server.close()


class TestRemoteStore(StoreSuite):
    events_precede_writes = False

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        store = MemoryStore(clock=self.clock)
        async with remote(store) as (client, _):
            yield client
        await store.close()


class _Failing(MemoryStore):
    async def get(self, key: str) -> None:
        raise StoreDamaged(f"/var/lib/x.db: {key} is not what was written", "something else")

    async def expect_writable(self) -> None:
        raise StoreUnavailable("disk full")

    def expect_running(self) -> None:
        return


@async_test
async def test_what_fails_over_there_fails_here_in_the_same_words() -> None:
    async with remote(_Failing(clock=FakeClock())) as (client, _):
        assert isinstance(client, Probed)
        with pytest.raises(StoreDamaged, match=r"^/var/lib/x.db: /a is not what was written$") as caught:
            await client.get("/a")
        assert caught.value.got == "something else"
        with pytest.raises(StoreUnavailable, match="disk full"):
            await client.expect_writable()
        client.expect_running()


@async_test
async def test_when_the_owner_goes_every_call_and_watch_ends_with_an_error() -> None:
    store = MemoryStore(clock=FakeClock())
    async with remote(store) as (client, server):
        watch = client.watch("/", Revision(1))
        waiting = asyncio.ensure_future(anext(watch))
        await client.create("/a", b"1")
        assert [event.key for event in await soon(waiting)] == ["/a"]
        waiting = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0)
        await server.close()
        await soon(client.lost)
        with pytest.raises(StoreUnavailable, match="gone"):
            await soon(waiting)
        for call in (client.get("/a"), client.create("/b", b""), client.revision(), client.expect_writable()):
            with pytest.raises(StoreUnavailable, match="gone"):
                await call
        with pytest.raises(StoreUnavailable, match="gone"):
            client.expect_running()


@async_test
async def test_what_was_asked_by_one_that_has_gone_is_done() -> None:
    store = MemoryStore(clock=FakeClock())
    async with remote(store) as (client, _):
        asked = asyncio.ensure_future(client.create("/a", b"1"))
        await asyncio.sleep(0)
        asked.cancel()
        await client.revision()
    assert (await store.get("/a")) is not None


@async_test
async def test_a_list_is_one_state_though_it_comes_in_pages() -> None:
    store = MemoryStore(clock=FakeClock())
    names = [f"/a/{number:05}" for number in range(2 * PAGE_KEYS + 1)]
    last = await filled(store, *names)
    async with remote(store) as (client, _):
        listing = asyncio.ensure_future(client.list("/a/"))
        await asyncio.sleep(0)
        page = await listing
        await store.delete(names[-1], last)
        assert ([item.key for item in page.items], page.revision, page.more) == (names, last, False)
        assert page.total == len(names)
        page = await client.list("/a/", limit=PAGE_KEYS + 1, revision=last)
        assert ([item.key for item in page.items], page.more) == (names[: PAGE_KEYS + 1], True)


class _CompactedBetween(MemoryStore):
    """Is written and compacted after its first page."""

    key: str | None = "/z"

    async def list(self, prefix: str, *, start: str = "", limit: int = 0, revision: Revision | None = None) -> Page:
        page = await super().list(prefix, start=start, limit=limit, revision=revision)
        if self.key is not None:
            key, self.key = self.key, None
            await self.compact(await self.create(key, b""))
        return page


@async_test
async def test_a_list_of_now_begins_anew_when_its_state_is_compacted_on_the_way() -> None:
    store = _CompactedBetween(clock=FakeClock())
    last = await filled(store, *(f"/a/{number:05}" for number in range(PAGE_KEYS + 1)))
    async with remote(store) as (client, _):
        page = await client.list("/a/")
        assert (len(page.items), page.revision) == (PAGE_KEYS + 1, last + 1)
        store.key = "/y"
        with pytest.raises(Compacted):
            await client.list("/a/", revision=Revision(last + 1))


@async_test
async def test_a_number_for_two_watches_ends_the_connection() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        server = StoreServer(MemoryStore())
        await server.start(ours)
        question = msgspec.msgpack.encode(Watch(1, "/registry/", 1))
        theirs.sendall(2 * (struct.pack(">I", len(question)) + question))
        for _ in range(100):
            await asyncio.sleep(0)
        theirs.setblocking(False)
        assert theirs.recv(1) == b""
        await server.close()
