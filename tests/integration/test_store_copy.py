"""A store from SQLite to a real etcd and back, by what is typed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest

import aio
from etcd_server import EtcdServer
from fixed_ports import free_port
from kubevouch.cli.main import run
from kubevouch.storage.copying.errors import Unfinished
from kubevouch.storage.copying.mark import MARK_KEY
from kubevouch.storage.etcd import place as etcd_place
from kubevouch.storage.interface import Compacted, KeyValue, Revision, Store
from kubevouch.storage.options import EtcdSpec, parse_store
from kubevouch.storage.sqlite import SQLiteStore
from kubevouch.testing.store_suite import watching
from kubevouch.util.clock import SystemClock

CLOCK = SystemClock()


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    with EtcdServer(tmp_path_factory.mktemp("etcd")) as server:
        yield server


@pytest.fixture
def spec(etcd: EtcdServer) -> str:
    """An etcd that nobody has used below its prefix."""
    return f"{etcd.spec}/{uuid4()}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store at revision 600, with 300 keys, one of them an Event that stays for an hour."""
    path = tmp_path / "from.db"

    async def fill() -> None:
        store = await SQLiteStore.open(path)
        names = [f"/registry/configmaps/default/{number:03}" for number in range(299)]
        revisions = await asyncio.gather(*(store.create(name, b"first") for name in names))
        await asyncio.gather(*map(store.update, names, (name.encode() for name in names), revisions))
        await store.create("/registry/events/default/e", b"event", ttl=3600)
        await store.close()

    aio.run(fill())
    return path


async def contents(store: Store) -> dict[str, KeyValue]:
    return {each.key: each for each in (await store.list("/registry/")).items if each.key != MARK_KEY}


async def opened(text: str) -> Store:
    spec = parse_store(text, Path())
    # Each test has an etcd of its own, and no server that would remember the last one.
    return await (msgspec.structs.replace(spec, mark=None) if isinstance(spec, EtcdSpec) else spec).open(CLOCK)


def tree(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> Any:
    capsys.readouterr()
    assert run([*arguments, "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_from_sqlite_to_etcd_and_back(
    etcd: EtcdServer, spec: str, path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = tree(["store", "copy", str(path), spec], capsys)
    assert (there["keys"], there["created"], there["sourceRevision"]) == (300, 300, 600)
    again = tree(["store", "copy", str(path), spec], capsys)
    assert (again["created"], again["updated"], again["deleted"]) == (0, 0, 0)
    leases = json.loads(etcd.ctl("get", f"/{spec.rpartition('/')[2]}/events/default/e", "-w", "json"))["kvs"][0][
        "lease"
    ]
    assert 3500 < json.loads(etcd.ctl("lease", "timetolive", f"{leases:x}", "-w", "json"))["ttl"] <= 3660
    back = tree(["store", "copy", spec, str(tmp_path / "back.db")], capsys)
    assert back["keys"] == 300 and back["revision"] > again["revision"]

    async def compare() -> None:
        first, second = await opened(f"sqlite:{path}"), await opened(f"sqlite:{tmp_path}/back.db")
        wanted, found = await contents(first), await contents(second)
        assert {key: each.value for key, each in wanted.items()} == {key: each.value for key, each in found.items()}
        await first.close()
        await second.close()

    aio.run(compare())


def test_etcd_goes_on_above_the_source_and_watches_of_before_end(spec: str, path: Path) -> None:
    async def raise_source() -> None:
        """As far as a cluster that has gone on."""
        store = await opened(spec)
        newest = await store.revision()
        await store.close()
        source = await SQLiteStore.open(path)
        found = await source.get("/registry/configmaps/default/000")
        assert found is not None
        revision = found.revision
        while await source.revision() < newest:
            revision = await source.update(found.key, found.value, revision)
        await source.close()

    aio.run(raise_source())
    assert run(["store", "copy", str(path), spec]) == 0

    async def look() -> None:
        source, store = await SQLiteStore.open(path), await opened(spec)
        seen = await source.revision()
        found = await contents(store)
        assert len(found) == 300 and all(each.revision > seen for each in found.values())
        with pytest.raises(Compacted):
            async with watching(store, "/registry/", after=seen) as watch:
                await anext(watch)
        await source.close()
        await store.close()

    aio.run(look())


def test_what_writes_cannot_reach_is_refused_with_the_tool_that_can(
    spec: str, path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["store", "backup", str(tmp_path / "b"), "--store", f"sqlite:{path}"]) == 0
    above = etcd_place.MOST_RAISED * 2
    assert run(["store", "restore", str(tmp_path / "b"), spec, "--above", str(above)]) == 1
    assert "etcdutl snapshot restore --bump-revision" in capsys.readouterr().err
    assert run(["store", "inspect", "--store", spec]) == 0
    assert "configmaps" not in capsys.readouterr().out


def test_nobody_serves_from_a_copy_that_was_not_finished(spec: str, path: Path) -> None:
    assert run(["store", "copy", str(path), spec]) == 0

    async def unfinish() -> None:
        store = await opened(spec)
        found = await store.get(MARK_KEY)
        assert found is not None
        await store.update(MARK_KEY, found.value.replace(b"true", b"false"), found.revision)
        await store.close()

    aio.run(unfinish())
    with pytest.raises(Unfinished, match="a copy was not finished"):
        aio.run(opened(spec))
    assert run(["store", "copy", str(path), spec]) == 0
    assert aio.run(_count(spec)) == 300


async def _count(spec: str) -> int:
    store = await opened(spec)
    count = len(await contents(store))
    await store.close()
    return count


def test_an_etcd_in_use_is_restored_in_place(
    spec: str, path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["store", "copy", str(path), spec]) == 0
    assert run(["store", "backup", str(tmp_path / "b"), "--store", spec]) == 0

    async def go_on() -> Revision:
        store = await opened(spec)
        revision = await store.create("/registry/configmaps/default/later", b"1")
        found = await store.get("/registry/configmaps/default/007")
        assert found is not None
        await store.delete(found.key, found.revision)
        await store.close()
        return revision

    seen = aio.run(go_on())
    assert run(["store", "restore", str(tmp_path / "b"), spec]) == 1
    assert "--replace" in capsys.readouterr().err
    done = tree(["store", "restore", str(tmp_path / "b"), spec, "--replace", "--above", "1"], capsys)
    assert (done["created"], done["deleted"]) == (1, 1) and done["revision"] > seen
    assert aio.run(_count(spec)) == 300


def test_every_value_of_an_etcd_is_looked_at_and_every_member(
    etcd: EtcdServer, spec: str, path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    below = f"/{spec.rpartition('/')[2]}"
    etcd.ctl(
        "put",
        f"{below}/configmaps/a/b",
        '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"a","name":"b"}}',
    )
    etcd.ctl("put", f"{below}/secrets/a/sealed", "k8s:enc:aescbc:v1:key1:x")
    etcd.ctl("put", f"{below}/example.com/things/a/b", "{}")
    whole = tree(["store", "verify", spec], capsys)
    assert whole["whole"] and (whole["keys"], whole["encrypted"], whole["others"]) == (3, 1, 1)
    assert run(["store", "backup", str(tmp_path / "b"), "--store", spec]) == 0
    assert tree(["store", "verify", str(tmp_path / "b")], capsys)["keys"] == 3

    etcd.ctl("put", f"{below}/secrets/a/text", "text")
    gone = f"127.0.0.1:{free_port()}"
    assert run(["store", "verify", f"{etcd.spec},{gone}{below}"]) == 1
    said = capsys.readouterr()
    assert "/registry/secrets/a/text: no Secret that can be read" in said.out and f"http://{gone}: " in said.out
    assert "is not whole: 2 findings" in said.err


def test_a_whole_cluster_on_etcd_is_backed_up_and_restored_to_another(
    etcd: EtcdServer, spec: str, path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "cluster"
    (folder / "pki").mkdir(parents=True)
    (folder / "pki/ca.key").write_bytes(b"key")
    there = tree(["store", "copy", str(path), spec], capsys)
    backup = ["backup", str(tmp_path / "b.tar"), "--data-dir", str(folder), "--store", spec]
    assert tree(backup, capsys)["revision"] == there["revision"]
    other = f"{etcd.spec}/{uuid4()}"
    restore = ["restore", str(tmp_path / "b.tar"), "--store", other, "--above", str(there["revision"] + 5)]
    done = tree([*restore, "--data-dir", str(tmp_path / "to-etcd")], capsys)
    assert done["goesOnAt"] > there["revision"] + 5 and aio.run(_count(other)) == 300
    assert (tmp_path / "to-etcd/pki/ca.key").read_bytes() == b"key" and not list(tmp_path.glob("to-etcd/kubevouch.db*"))
    assert run(["restore", str(tmp_path / "b.tar"), "--data-dir", str(tmp_path / "to-file")]) == 0
    assert aio.run(_count(f"sqlite:{tmp_path}/to-file/kubevouch.db")) == 300
