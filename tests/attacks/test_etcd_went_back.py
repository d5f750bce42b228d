"""An etcd that was put back to an older state, or exchanged for another one, brings nothing back in silence.

A revocation that is newer than the state is gone with it, and revisions are given out again with other content. Real
etcd, whose data are exchanged for an earlier copy of them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from asynctest import async_test
from etcd_server import EtcdServer
from kubevouch.storage.etcd.keys import ROOT
from kubevouch.storage.etcd.mark import EtcdWentBack
from kubevouch.storage.etcd.options import EtcdOptions
from kubevouch.storage.etcd.place import LEFT_OUT, EtcdPlace
from kubevouch.storage.etcd.store import EtcdStore
from kubevouch.storage.interface import Compacted, Revision, StoreUnavailable
from kubevouch.storage.sqlite.mark import Noted, mark_of, read_mark, write_mark
from kubevouch.util.clock import SystemClock
from processes import PATIENCE_SECONDS, Up, kubevouch
from wire import Wire

CLOCK = SystemClock()
LOST = "a revocation is in the ledger and not in the store"
REVOCATIONS = "/apis/kubevouch.io/v1alpha1/certificaterevocations"


@asynccontextmanager
async def opened(etcd: EtcdServer, mark: Path | None) -> AsyncIterator[EtcdStore]:
    # Writes that nobody answers fail soon, or tests of an etcd that is away would take their time.
    options = EtcdOptions(etcd.endpoints, read_seconds=PATIENCE_SECONDS, write_seconds=PATIENCE_SECONDS)
    store = await EtcdStore.open(options, CLOCK, mark=mark)
    try:
        yield store
    finally:
        await store.close()


def restarted_from(etcd: EtcdServer, kept: Path) -> None:
    etcd.kill(0)
    etcd.put_back(0, kept)
    etcd.start(0)


def kept_now(etcd: EtcdServer, into: Path) -> Path:
    etcd.kill(0)
    etcd.keep(0, into)
    etcd.start(0)
    return into


def place_of(etcd: EtcdServer) -> EtcdPlace:
    return EtcdPlace(EtcdOptions(etcd.endpoints), etcd.spec)


@async_test
async def test_a_start_on_an_older_etcd_is_refused_until_the_loss_is_accepted(tmp_path: Path) -> None:
    mark = tmp_path / "etcd"
    with EtcdServer(tmp_path) as etcd:
        async with opened(etcd, mark) as store:
            await store.create(f"{ROOT}a", b"")
        kept = kept_now(etcd, tmp_path / "kept")
        async with opened(etcd, mark) as store:
            reached = await store.create(f"{ROOT}revoked", b"")
            reached = await store.create(f"{ROOT}b", b"")
        noted = read_mark(mark)
        assert noted is not None
        assert noted.revision == reached
        restarted_from(etcd, kept)
        for _ in range(2):
            with pytest.raises(EtcdWentBack, match=f"expected {reached} or later, which was acknowledged") as refused:
                async with opened(etcd, mark):
                    pass
        assert f"kubevouch store accept-loss etcd://127.0.0.1:{etcd.client_ports[0]}" in str(refused.value)
        assert f"--data-dir {tmp_path}" in str(refused.value)
        assert read_mark(mark) == noted
        # What nobody remembers nobody misses: this is what a server did before it kept a mark.
        async with opened(etcd, None) as store:
            assert await store.get(f"{ROOT}revoked") is None
        revision = await place_of(etcd).accept_loss(mark, CLOCK, lambda _: None)
        assert revision > reached + LEFT_OUT
        async with opened(etcd, mark) as store:
            assert await store.create(f"{ROOT}c", b"") > revision
            with pytest.raises(Compacted):
                async for _ in store.watch(ROOT, reached):
                    pass
        # Another replica, which had seen more, has seen less than what was left out, and goes on by itself.
        write_mark(tmp_path / "two", Noted(noted.identity, Revision(reached + 100)))
        async with opened(etcd, tmp_path / "two") as store:
            assert await store.revision() > revision


@async_test
async def test_a_member_that_is_put_back_under_a_running_server_ends_its_work_for_good(tmp_path: Path) -> None:
    mark = tmp_path / "etcd"
    with EtcdServer(tmp_path) as etcd:
        async with opened(etcd, mark) as store:
            await store.create(f"{ROOT}a", b"")
        kept = kept_now(etcd, tmp_path / "kept")
        async with opened(etcd, mark) as store:
            for name in "bcd":
                reached = await store.create(f"{ROOT}{name}", b"")
            restarted_from(etcd, kept)
            with pytest.raises(EtcdWentBack, match="etcd was restored from an older state"):
                await store.create(f"{ROOT}e", b"")
            # Others write on, and etcd soon has as many revisions as before: that changes nothing.
            async with opened(etcd, None) as other:
                while await other.revision() <= reached:
                    found = await other.get(f"{ROOT}a")
                    assert found is not None
                    await other.update(f"{ROOT}a", b"", found.revision)
            for refused in (store.revision(), store.get(f"{ROOT}a"), store.list(ROOT), store.create(f"{ROOT}f", b"")):
                with pytest.raises(EtcdWentBack):
                    await refused
            with pytest.raises(EtcdWentBack):
                store.expect_running()
            with pytest.raises(EtcdWentBack):
                store.watch(ROOT, reached)
        noted = read_mark(mark)
        assert noted is not None
        assert noted.revision == reached


@async_test
async def test_another_cluster_under_a_running_server_is_refused_however_far_it_is(tmp_path: Path) -> None:
    mark = tmp_path / "etcd"
    with EtcdServer(tmp_path) as etcd, EtcdServer(tmp_path) as other:
        async with opened(other, None) as store:
            for name in "abcdef":
                await store.create(f"{ROOT}{name}", b"")
        other.kill(0)
        other.keep(0, tmp_path / "kept")
        async with opened(etcd, mark) as store:
            await store.create(f"{ROOT}a", b"")
            restarted_from(etcd, tmp_path / "kept")
            with pytest.raises(EtcdWentBack, match="restored from a snapshot, or this is another etcd"):
                await store.revision()


@async_test
async def test_another_cluster_of_etcd_is_refused_unless_it_is_a_whole_copy(tmp_path: Path) -> None:
    from kubevouch.storage.copying.copy import copy

    mark = tmp_path / "etcd"
    with EtcdServer(tmp_path) as etcd, EtcdServer(tmp_path) as other:
        async with opened(etcd, mark) as store:
            await store.create(f"{ROOT}a", b"")
            reached = await store.revision()
        async with opened(other, None) as store:
            while await store.revision() <= reached:
                await store.create(f"{ROOT}{await store.revision()}", b"")
        with pytest.raises(EtcdWentBack, match="restored from a snapshot, or this is another etcd"):
            async with opened(other, mark):
                pass
        await copy(place_of(etcd), place_of(other), CLOCK, lambda _: None, replace=True)
        async with opened(etcd, mark) as store:
            late = await store.create(f"{ROOT}late", b"")
        # A write that came after it was copied: the copy is older.
        with pytest.raises(EtcdWentBack):
            async with opened(other, mark):
                pass
        await copy(place_of(etcd), place_of(other), CLOCK, lambda _: None)
        async with opened(other, mark) as store:
            assert await store.get(f"{ROOT}late") is not None
            assert await store.revision() > late
        with pytest.raises(EtcdWentBack):
            async with opened(etcd, mark):
                pass


@async_test
async def test_nothing_that_an_etcd_may_do_raises_the_alarm(tmp_path: Path) -> None:
    """Compaction, defragmentation, members that lag or are killed, and servers that each keep a mark of their own."""
    marks = tmp_path / "one" / "etcd", tmp_path / "two" / "etcd"
    with EtcdServer(tmp_path, members=3) as etcd:
        async with opened(etcd, marks[0]) as one, opened(etcd, marks[1]) as two:

            async def written(times: int) -> Revision:
                for _ in range(times):
                    for store in (one, two):
                        with contextlib.suppress(StoreUnavailable):
                            found = await store.get(f"{ROOT}a")
                            if found is None:
                                await store.create(f"{ROOT}a", b"")
                            else:
                                await store.update(f"{ROOT}a", b"", found.revision)
                return await one.revision()

            revision = await written(20)
            await one.compact(revision)
            etcd.ctl("defrag", "--command-timeout", f"{PATIENCE_SECONDS:.0f}s")
            lagging = next(each for each in range(3) if each != etcd.leader())
            etcd.pause(lagging)
            await written(20)
            etcd.resume(lagging)
            for store in (one, two):
                store._client._current = lagging
            await written(20)
            etcd.kill(etcd.leader())
            await written(20)
            assert await two.revision() >= revision
        for mark in marks:
            async with opened(etcd, mark) as store:
                await store.list(ROOT)


@async_test
async def test_a_mark_that_cannot_be_read_and_one_that_goes(tmp_path: Path) -> None:
    mark = tmp_path / "data" / "etcd"
    with EtcdServer(tmp_path) as etcd:
        async with opened(etcd, mark) as store:
            store.expect_in_place()
            os.unlink(mark_of(mark))
            with pytest.raises(StoreUnavailable, match="expected what this process has open"):
                store.expect_in_place()
        async with opened(etcd, mark):
            pass
        mark_of(mark).write_bytes(b"x" * 1024)
        with pytest.raises(EtcdWentBack, match="nobody knows how far etcd was"):
            async with opened(etcd, mark):
                pass
        await place_of(etcd).accept_loss(mark, CLOCK, lambda _: None)
        async with opened(etcd, mark):
            pass


def revocation(name: str) -> dict[str, object]:
    return {
        "apiVersion": "kubevouch.io/v1alpha1", "kind": "CertificateRevocation", "metadata": {"name": name},
        "spec": {"reason": "keyCompromise", "revoked": {"nodes": ["worker-1"]}},
    }  # fmt: skip


def revoked(folder: Path) -> Wire:
    """Once the ledger has the revocation, which it has before the status is written."""
    wire = Wire.of_kubeconfig(folder / "cluster/admin.conf", folder)
    assert wire.json("POST", REVOCATIONS, revocation("stolen")).code == 201
    with wire.kept_open() as kept:
        while b"InForce" not in kept.request("GET", f"{REVOCATIONS}/stolen").body:
            pass
    return wire


def test_a_start_names_what_the_ledger_has_revoked_and_an_older_file_has_not(tmp_path: Path) -> None:
    """A copy of SQLite's file with its mark is as old as that, and opens."""
    files = ("kubevouch.db", "kubevouch.db.mark")
    with Up(tmp_path) as up:
        assert up.end() == 0
    kept = {name: (tmp_path / "cluster" / name).read_bytes() for name in files}
    with Up(tmp_path) as up:
        revoked(tmp_path)
        assert up.end() == 0
        assert LOST not in up.stderr
    for name, content in kept.items():
        (tmp_path / "cluster" / name).write_bytes(content)
    with Up(tmp_path) as up:
        assert LOST in up.stderr
        assert 'name="stolen"' in up.stderr


def test_up_does_not_serve_from_an_etcd_that_has_lost_a_revocation(tmp_path: Path) -> None:
    with EtcdServer(tmp_path) as etcd:
        store = ("--store", etcd.spec)
        with Up(tmp_path, store) as up:
            assert up.end() == 0
        kept = kept_now(etcd, tmp_path / "kept")
        with Up(tmp_path, store) as up:
            wire = revoked(tmp_path)
            restarted_from(etcd, kept)
            with wire.kept_open() as connection:
                while connection.request("GET", "/livez").code != 500:
                    pass
                assert connection.request("GET", "/readyz").code == 500
                # Nobody is let in by what the older state says, or by what was known before.
                assert connection.request("GET", REVOCATIONS).code >= 500
            up.end()
            assert "etcd was restored from an older state; restore the newest snapshot" in up.stderr
        again = kubevouch("up", "--data-dir", "./cluster", "--secure-port", "0", *store, cwd=tmp_path)
        assert again.code != 0
        assert again.stderr.startswith(f"error: {etcd.spec}/registry: got revision ")
        assert f"kubevouch store accept-loss {etcd.spec}/registry --data-dir" in again.stderr
        accepted = kubevouch(
            "store", "accept-loss", etcd.spec, "--data-dir", "./cluster", "--yes", "-o", "json", cwd=tmp_path
        )
        assert accepted.code == 0, accepted.stderr
        facts = msgspec.json.decode(accepted.stdout)
        assert facts["store"] == f"{etcd.spec}/registry"
        with Up(tmp_path, store) as up:
            assert LOST in up.stderr
            wire = Wire.of_kubeconfig(tmp_path / "cluster/admin.conf", tmp_path)
            listed = msgspec.json.decode(wire.request("GET", REVOCATIONS).body)
            assert int(listed["metadata"]["resourceVersion"]) > facts["revision"]
