"""The store on three members of etcd that are killed, stopped, cut off, full, or do not let everybody in."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest

import aio
from asynctest import async_test
from cutting_proxy import CuttingProxy
from etcd_server import EtcdServer, TLSFiles
from kubevouch.storage.etcd import upstream
from kubevouch.storage.etcd.errors import CallFailed
from kubevouch.storage.etcd.keys import ROOT
from kubevouch.storage.etcd.options import EtcdOptions
from kubevouch.storage.etcd.store import EtcdStore
from kubevouch.storage.interface import (
    Compacted,
    Revision,
    StoreDamaged,
    StoreEvent,
    StoreRefused,
    StoreTimeout,
    StoreUnavailable,
)
from kubevouch.testing.store_suite import Watch, soon, watching
from kubevouch.util.clock import SystemClock
from throwaway_ca import ThrowawayCA


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TLSFiles:
    folder, ca = tmp_path_factory.mktemp("tls"), ThrowawayCA("etcd-ca")
    authority = folder / "ca.crt"
    authority.write_bytes(ca.bundle)
    served = ca.issue("etcd").write(folder, "server")
    client = ca.issue("kube-apiserver-etcd-client").write(folder, "client")
    return TLSFiles(authority, *served, *client)


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory, tls: TLSFiles) -> Iterator[EtcdServer]:
    with EtcdServer(tmp_path_factory.mktemp("members"), members=3, tls=tls) as server:
        yield server


def _options(server: EtcdServer, tls: TLSFiles | None = None, **more: Any) -> EtcdOptions:
    files = {"cafile": tls.ca, "certfile": tls.client_certificate, "keyfile": tls.client_key} if tls else {}
    return EtcdOptions(server.endpoints, prefix=f"/{uuid4()}", **(files | more))


@asynccontextmanager
async def opened(options: EtcdOptions) -> AsyncIterator[EtcdStore]:
    store = await EtcdStore.open(options, SystemClock())
    try:
        yield store
    finally:
        await store.close()


async def _until_written(store: EtcdStore, key: str) -> Revision:
    """A key that nobody else writes, however often it takes."""
    while True:
        with contextlib.suppress(StoreUnavailable):
            return await store.create(key, b"")
        if (found := await store.get(key)) is not None:
            return found.revision


def _in_use(server: EtcdServer, store: EtcdStore) -> int:
    return server.endpoints.index(store._client.current.url)


# ------------------------------------------------------------------ members that fail


@async_test
async def test_the_leader_dies_and_nothing_that_was_acknowledged_is_lost(members: EtcdServer, tls: TLSFiles) -> None:
    leader = members.leader()
    acknowledged: dict[str, Revision] = {}

    async def write(store: EtcdStore, writer: int) -> None:
        for turn in range(40):
            key = f"{ROOT}{writer}/{turn}"
            with contextlib.suppress(StoreUnavailable):
                acknowledged[key] = await store.create(key, b"")
            if writer == turn == 5:
                members.kill(leader)

    async with opened(_options(members, tls)) as store, watching(store, ROOT, await store.revision()) as batches:
        # What a follower has under way then, it answers only after seven seconds.
        store._client._current = leader
        await asyncio.gather(*(write(store, writer) for writer in range(6)))
        last = await _until_written(store, f"{ROOT}last")
        events = await Watch(batches).until(last)
        held = {item.key: item.revision for item in (await store.list(ROOT)).items}
        assert acknowledged.items() <= held.items()
        assert {event.key: event.revision for event in events} == held
        assert sorted(event.revision for event in events) == [event.revision for event in events]
        assert len(events) == len(held)
        # Hardly any fails: who finds no leader waits for one.
        assert len(acknowledged) > 200
    members.start(leader)


@async_test
async def test_a_member_that_stands_still_is_left_for_another(members: EtcdServer, tls: TLSFiles) -> None:
    async with opened(_options(members, tls)) as store, watching(store, ROOT, await store.revision()) as batches:
        await store.create(f"{ROOT}before", b"")
        stopped = _in_use(members, store)
        members.pause(stopped)
        try:
            # It may be the leader; the others choose another one. Who stands still has not answered this.
            assert await soon(store.get(f"{ROOT}before")) is not None
            last = await _until_written(store, f"{ROOT}after")
            events = await Watch(batches).until(last)
            assert [event.key for event in events] == [f"{ROOT}before", f"{ROOT}after"]
        finally:
            members.resume(stopped)


@async_test
async def test_without_a_majority_nobody_is_told_anything_and_afterwards_it_goes_on(
    members: EtcdServer, tls: TLSFiles
) -> None:
    options = _options(members, tls, read_seconds=1.0, write_seconds=1.0)
    async with opened(options) as store, watching(store, ROOT, await store.revision()) as batches:
        await store.create(f"{ROOT}before", b"")
        dead = [member for member in range(3) if member != _in_use(members, store)]
        for member in dead:
            members.kill(member)
        calls = store.get(f"{ROOT}before"), store.create(f"{ROOT}never", b""), store.list(ROOT), store.expect_writable()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        # On a busy machine the member that is left notices first that it has no leader, and says so.
        assert {type(outcome) for outcome in outcomes} <= {StoreTimeout, StoreRefused}
        store.expect_running()
        for member in dead:
            members.start(member, wait=member == dead[-1])
        last = await _until_written(store, f"{ROOT}after")
        events = await Watch(batches).until(last)
        assert [event.key for event in events if event.key != f"{ROOT}never"] == [f"{ROOT}before", f"{ROOT}after"]


# ------------------------------------------------------------------ who is let in


@async_test
async def test_who_shows_no_certificate_is_not_let_in(members: EtcdServer, tls: TLSFiles) -> None:
    stranger = msgspec.structs.replace(_options(members, tls), certfile=None, keyfile=None)
    with pytest.raises(StoreUnavailable, match="does not answer"):
        await EtcdStore.open(stranger, SystemClock(), seconds=0.5)


@async_test
async def test_a_server_of_another_authority_is_not_believed(
    members: EtcdServer, tls: TLSFiles, tmp_path: Path
) -> None:
    other = tmp_path / "other.crt"
    other.write_bytes(ThrowawayCA("other").bundle)
    with pytest.raises(StoreUnavailable, match="does not answer"):
        await EtcdStore.open(msgspec.structs.replace(_options(members, tls), cafile=other), SystemClock(), seconds=0.5)


@async_test
async def test_files_that_are_missing_are_named(members: EtcdServer, tls: TLSFiles, tmp_path: Path) -> None:
    options, nothing = _options(members, tls), tmp_path / "nothing-here"
    for told in (
        msgspec.structs.replace(options, cafile=nothing),
        msgspec.structs.replace(options, certfile=nothing),
        msgspec.structs.replace(options, keyfile=nothing),
    ):
        with pytest.raises(StoreUnavailable, match="nothing-here: no such file or directory"):
            await EtcdStore.open(told, SystemClock())


# ------------------------------------------------------------------ one member


@async_test
async def test_users_log_in_again_when_etcd_has_forgotten_them(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("right\n")
    with EtcdServer(tmp_path, arguments=("--auth-token-ttl=2", "--bcrypt-cost=4")) as etcd:
        as_root = ("--user", "root:right")
        etcd.ctl("user", "add", "root:right")
        etcd.ctl("user", "grant-role", "root", "root")
        etcd.ctl("user", "add", "vouch:right")
        etcd.ctl("role", "add", "vouch")
        etcd.ctl("role", "grant-permission", "vouch", "readwrite", "/mine/", "/mine0")
        etcd.ctl("user", "grant-role", "vouch", "vouch")
        etcd.ctl("auth", "enable")
        options = EtcdOptions(etcd.endpoints, "/mine", user="vouch", password_file=password)
        async with opened(options) as store, watching(store, ROOT, await store.revision()) as batches:
            await store.create(f"{ROOT}a", b"")
            etcd.kill(0)
            etcd.start(0)  # tokens are in its memory
            last = await _until_written(store, f"{ROOT}b")
            assert [event.key for event in await Watch(batches).until(last)] == [f"{ROOT}a", f"{ROOT}b"]
            token, store._client._token = store._client._token, "expired"
            last = await store.create(f"{ROOT}c", b"")
            assert store._client._token not in ("expired", token)
            assert await Watch(batches).until(last)
        password.write_text("wrong\n")
        with pytest.raises(StoreUnavailable, match="authentication failed, invalid user ID or password"):
            await EtcdStore.open(options, SystemClock())
        password.write_text("right\n")
        with pytest.raises(StoreUnavailable, match="permission denied"):
            await EtcdStore.open(msgspec.structs.replace(options, prefix="/theirs"), SystemClock())
        assert etcd.ctl("get", "/mine/", "--prefix", "--keys-only", *as_root).split() == [
            "/mine/a", "/mine/b", "/mine/c",
        ]  # fmt: skip


async def _fill(store: EtcdStore, key: str, revision: Revision) -> None:
    while True:
        revision = await store.update(key, b"x" * (1 << 19), revision)


@async_test
async def test_an_etcd_without_room_says_so_and_is_read_all_the_same(tmp_path: Path) -> None:
    quota = 4 << 20
    with EtcdServer(tmp_path, arguments=(f"--quota-backend-bytes={quota}",)) as etcd:
        async with opened(EtcdOptions(etcd.endpoints, db_poll_seconds=0)) as store:
            key = f"{ROOT}a"
            revision = await store.create(key, b"")
            with pytest.raises(StoreRefused, match=r"etcd has no room left.*disarm its alarm") as caught:
                await _fill(store, key, revision)
            assert caught.value.got == "etcdserver: mvcc: database space exceeded"
            found = await store.get(key)
            assert found is not None
            assert (await store.list(ROOT)).total == 1
            await store.expect_writable()
            # As the text says.
            await store.compact(await store.revision())
            etcd.ctl("defrag")
            etcd.ctl("alarm", "disarm")
            assert await store.update(key, b"", found.revision) > found.revision


@async_test
async def test_connections_break_and_no_event_is_lost_nor_comes_twice(tmp_path: Path) -> None:
    with EtcdServer(tmp_path) as etcd, CuttingProxy(etcd.client_ports[0]) as proxy:
        async with opened(EtcdOptions((f"http://127.0.0.1:{proxy.port}",))) as store:
            before = await store.revision()
            async with watching(store, ROOT, before) as batches:
                watch = Watch(batches)
                revision = before
                for turn in range(60):
                    if turn % 10 == 5:
                        proxy.cut()
                    revision = await _until_written(store, f"{ROOT}{turn:02}")
                events = await watch.until(revision)
            assert [event.key for event in events] == [f"{ROOT}{turn:02}" for turn in range(60)]


@async_test
async def test_a_watch_that_was_cut_off_while_etcd_compacted_hears_so(tmp_path: Path) -> None:
    with EtcdServer(tmp_path) as etcd, CuttingProxy(etcd.client_ports[0]) as proxy:
        async with (
            opened(EtcdOptions(etcd.endpoints)) as direct,
            opened(EtcdOptions((f"http://127.0.0.1:{proxy.port}",))) as store,
            watching(store, ROOT, await store.revision()) as batches,
        ):
            first = await direct.create(f"{ROOT}a", b"")
            assert await Watch(batches).until(first)
            with proxy.refusing():
                revision = await direct.update(f"{ROOT}a", b"1", first)
                revision = await direct.update(f"{ROOT}a", b"2", revision)
                await direct.compact(revision)
            with pytest.raises(Compacted) as caught:
                await Watch(batches).until(revision)
            assert (caught.value.asked, caught.value.oldest) == (first, revision)
            # Whoever begins anew from a list goes on.
            page = await store.list(ROOT)
            async with watching(store, ROOT, page.revision) as anew:
                last = await direct.delete(f"{ROOT}a", revision)
                assert [event.value for event in await Watch(anew).until(last)] == [None]


@pytest.mark.parametrize("by_request", [False, True])
def test_writes_of_others_outside_do_not_keep_a_consistent_read_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_request: bool
) -> None:
    """The etcd at hand answers requests for progress wrongly only while a watch catches up; here none has to."""
    if by_request:
        monkeypatch.setattr(upstream, "tells_progress", lambda _version: True)

    with EtcdServer(tmp_path) as etcd:
        aio.run(others_write(etcd, tells=by_request))


async def others_write(etcd: EtcdServer, *, tells: bool) -> None:
    """While somebody else writes, the revision is known: by etcd's word if it ``tells``, else by a write of ours."""
    async with opened(EtcdOptions(etcd.endpoints)) as store:
        async with watching(store, ROOT, await store.revision()) as batches:
            for _ in range(3):
                await asyncio.to_thread(etcd.ctl, "put", "/somebody/else", "")
                wanted = await store.revision()
                told: list[StoreEvent] = []
                while not told or told[-1].revision < wanted:
                    told += await soon(anext(batches))
                assert all(event.is_progress for event in told)
                assert (await store.revision() == wanted) is tells
        # Where etcd's word does not count, what we wrote to know it is gone again.
        assert etcd.ctl("get", "/registry/", "--prefix", "--keys-only") == ""


@async_test
async def test_a_stream_may_be_asked_by_several_at_once(tmp_path: Path) -> None:
    with EtcdServer(tmp_path) as etcd:
        async with opened(EtcdOptions(etcd.endpoints)) as store:
            stream = await store._client.watch()
            large = stream.create(b"a" * 1_000_000, b"b", Revision(1))
            await asyncio.gather(large, *(stream.request_progress() for _ in range(20)))
            answers = [await soon(stream.read()) for _ in range(21)]
            assert sorted(answer.created for answer in answers) == [False] * 20 + [True]
            stream.close()


@async_test
async def test_who_waits_on_a_stream_that_was_given_up_can_be_cancelled(tmp_path: Path) -> None:
    """A server that was told to stop while etcd was away did not: its watch took the one for the other."""
    with EtcdServer(tmp_path) as etcd:
        async with opened(EtcdOptions(etcd.endpoints)) as store:
            stream = await store._client.watch()
            await stream.create(b"a", b"b", Revision(1))
            await stream.read()
            reading = asyncio.ensure_future(stream.read())
            await asyncio.sleep(0)
            stream.give_up(store._client.current)
            reading.cancel()
            await asyncio.wait({reading})
            assert reading.cancelled()
            with pytest.raises(CallFailed, match="the watch stream ended"):
                await stream.read()
            stream.close()


@async_test
async def test_an_etcd_that_was_put_back_to_an_older_state_is_not_believed(tmp_path: Path) -> None:
    with EtcdServer(tmp_path) as etcd:
        async with opened(EtcdOptions(etcd.endpoints)) as store:
            async with watching(store, ROOT, await store.revision()) as batches:
                await Watch(batches).until(await store.create(f"{ROOT}a", b""))
            etcd.kill(0)
            etcd.forget(0)
            etcd.start(0)
            for call in (store.revision(), store.expect_writable()):
                with pytest.raises(StoreDamaged, match="got revision 1, expected 2 or later, which was acknowledged"):
                    await call
        async with opened(EtcdOptions(etcd.endpoints)) as store:
            assert await store.revision() == 1
