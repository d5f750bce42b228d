"""A server that cannot write says so, to probes by failing and to clients without naming its files."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

import aio
from file_systems import file_size_limit
from kubevouch.api.catalog import CONFIG_MAPS
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.client.interface import Client
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.storage.interface import StoreDamaged
from kubevouch.storage.sqlite import SQLiteStore
from kubevouch.storage.sqlite.store import PROBE_AFTER_SECONDS, RETRY_SECONDS
from kubevouch.testing import Cluster


async def probe(client: Client, path: str) -> int:
    return (await client.raw("GET", path)).status


async def create(client: Client, name: str, size: int = 10) -> None:
    meta = ObjectMeta(name=name, namespace="default")
    await client.create(CONFIG_MAPS, ConfigMap(metadata=meta, data={"a": "x" * size}))


async def free(client: Client) -> int:
    """A number that no object of the name has yet."""
    return len((await client.list(CONFIG_MAPS, "default")).items)


def store_of(cluster: Cluster) -> SQLiteStore:
    return cast("SQLiteStore", cluster.server.api._probed)


def assert_names_no_file(err: APIStatusError, folder: Path) -> None:
    text = str(err.status)
    assert str(folder) not in text
    assert "sqlite" not in text.lower()
    assert ".db" not in text


@pytest.mark.parametrize("idle", [False, True], ids=["after a write that failed", "while nobody writes"])
def test_readyz_fails_while_no_write_works_and_passes_again(tmp_path: Path, idle: bool) -> None:
    async def scenario() -> None:
        async with Cluster(store=f"sqlite:{tmp_path / 'store.db'}") as cluster:
            client = cluster.client()
            assert [await probe(client, path) for path in ("/readyz", "/livez", "/healthz")] == [200, 200, 200]
            # Until the log grows: after a checkpoint it is written anew from its beginning.
            begun = log = (tmp_path / "store.db-wal").stat().st_size
            while log == begun:
                await create(client, f"filling-{await free(client)}", 100_000)
                log = (tmp_path / "store.db-wal").stat().st_size
            with file_size_limit(log + 100) as lift:
                if idle:
                    await cluster.clock.run(PROBE_AFTER_SECONDS)
                else:
                    with pytest.raises(APIStatusError, match="the store cannot be written; the server's log") as caught:
                        await create(client, "a")
                    assert_names_no_file(caught.value, tmp_path)
                assert [await probe(client, path) for path in ("/readyz", "/livez", "/healthz")] == [500, 200, 500]
                verbose = await client.raw("GET", "/readyz?verbose")
                assert b"[-]etcd-readiness failed: reason withheld" in verbose.body
                assert str(tmp_path).encode() not in verbose.body
                failed = store_of(cluster).statistics().failed_commits
                for _ in range(20):
                    assert await probe(client, "/readyz") == 500
                assert store_of(cluster).statistics().failed_commits == failed
                lift()
            await cluster.clock.run(RETRY_SECONDS)
            assert await probe(client, "/readyz") == 200
            await create(client, "a")

    aio.run(scenario())


def test_probes_cost_no_commit_while_writes_work(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(store=f"sqlite:{tmp_path / 'store.db'}") as cluster:
            client = cluster.client()
            log = tmp_path / "store.db-wal"
            await create(client, "a")
            before = log.stat().st_mtime_ns
            for _ in range(50):
                assert await probe(client, "/readyz") == 200
            assert log.stat().st_mtime_ns == before

    aio.run(scenario())


def test_a_writer_that_has_ended_is_for_livez(tmp_path: Path) -> None:
    """Only a new process helps."""

    async def scenario() -> None:
        async with Cluster(store=f"sqlite:{tmp_path / 'store.db'}") as cluster:
            store = store_of(cluster)
            store._writer.stop()
            await aio.until(lambda: not store._thread.is_alive())
            assert [await probe(cluster.client(), path) for path in ("/readyz", "/livez")] == [500, 500]

    aio.run(scenario())


def test_what_is_damaged_names_no_file_either(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def scenario() -> None:
        async with Cluster(store=f"sqlite:{path}") as cluster:
            client = cluster.client()
            await create(client, "a")
            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("UPDATE version SET checksum = 0 WHERE key = '/registry/configmaps/default/a'")
            with pytest.raises(
                APIStatusError, match="the store is damaged here; the server's log says where"
            ) as caught:
                await client.delete(CONFIG_MAPS, "a", "default")
            assert_names_no_file(caught.value, tmp_path)
            with pytest.raises(StoreDamaged, match=r"store\.db"):
                await store_of(cluster).get("/registry/configmaps/default/a")

    aio.run(scenario())
