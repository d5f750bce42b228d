"""`kubevouch store verify` finds damage anywhere in a store's files; `accept-loss` never lets a revision come twice."""

from __future__ import annotations

import datetime as dt
import os
import random
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import aio
from kubevouch.api import catalog
from kubevouch.machinery.codec import protobuf
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.phases import store as phase
from kubevouch.storage.interface import Compacted, Revision, StoreDamaged, StoreEvent, StoreUnavailable
from kubevouch.storage.sqlite import SQLiteStore, verification
from kubevouch.storage.sqlite.acceptance import REVISIONS_LEFT_OUT
from kubevouch.testing.clock import FakeClock
from kubevouch.testing.store_suite import watching
from processes import Up, kubevouch

SUFFIXES = ("", "-wal", ".mark")
PLACES = int(os.environ.get("KUBEVOUCH_DAMAGED_PLACES", "16"))
NEWEST = Revision(95)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def value(number: int) -> bytes:
    return f"value {number} ".encode() * 200


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Half in the file, half in the log, as a kill leaves it; updates, deletions and a compaction among it."""
    path = tmp_path_factory.mktemp("files") / "store.db"

    async def scenario() -> dict[str, bytes]:
        store = await SQLiteStore.open(path, clock=FakeClock())
        for number in range(60):
            revision = await store.create(f"/k/{number:03}", value(number))
            if number % 5 == 0:
                await store.delete(f"/k/{number:03}", revision)
        await store.compact(Revision(30))
        await store.close()
        store = await SQLiteStore.open(path, clock=FakeClock())
        for number in range(100, 122):
            await store.create(f"/k/{number}", value(number))
        assert await store.revision() == NEWEST
        left = read(path)
        await store.close()
        return left

    return aio.run(scenario())


@pytest.fixture
def path(files: dict[str, bytes], tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    lay(path, files)
    return path


def read(path: Path) -> dict[str, bytes]:
    return {suffix: Path(f"{path}{suffix}").read_bytes() for suffix in SUFFIXES}


def lay(path: Path, files: dict[str, bytes]) -> None:
    for suffix, content in files.items():
        Path(f"{path}{suffix}").write_bytes(content)


def flip(path: Path, at: int, bit: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1 << bit
    path.write_bytes(content)


def contents(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.parent.iterdir() if file.suffix not in {".lock", ".db-shm"}}


def test_a_whole_store(path: Path) -> None:
    before = contents(path)
    verified = phase.verify(path)
    assert verified.findings == []
    assert (verified.revision, verified.marked, verified.compacted) == (95, 95, 30)
    assert (verified.keys, verified.versions) == (70, 84)
    assert verified.frames > 40
    assert contents(path) == before


def places(length: int) -> Iterator[tuple[int, int]]:
    choice = random.Random(length)
    for _ in range(PLACES):
        yield choice.randrange(length), choice.randrange(8)


@pytest.mark.parametrize("suffix", ["-wal", ""])
def test_flipped_bits_are_found_or_change_nothing(files: dict[str, bytes], tmp_path: Path, suffix: str) -> None:
    """A bit in a page that is free, or in a page of the file whose newer form is in the log, means nothing."""
    harmless = 0
    for turn, (at, bit) in enumerate(places(len(files[suffix]))):
        path = tmp_path / f"{turn}.db"
        lay(path, files)
        flip(Path(f"{path}{suffix}"), at, bit)
        try:
            found = phase.verify(path).findings
        except StoreDamaged:
            continue
        harmless += not found
        assert found or served(path) == served_whole(files, tmp_path)
    assert harmless <= (0 if suffix else PLACES * 0.6)


def served_whole(files: dict[str, bytes], tmp_path: Path) -> object:
    path = tmp_path / "whole.db"
    lay(path, files)
    return served(path)


def served(path: Path) -> object:
    """All that clients can be given: the state, and history."""

    async def scenario() -> object:
        store = await SQLiteStore.open(path, clock=FakeClock())
        try:
            events: list[StoreEvent] = []
            async with watching(store, "", Revision(30)) as batches:
                while not events or events[-1].revision < await store.revision():
                    events += await anext(batches)
            return (await store.list("")).items, events
        finally:
            await store.close()

    return aio.run(scenario())


STATEMENTS = {
    "a revision is gone": ("DELETE FROM version WHERE revision = 50", "no revision between 49 and 51|two accounts"),
    "a link": ("UPDATE version SET previous = 40 WHERE revision = 50", "wrong checksum at revision 50"),
    "an account": ("DELETE FROM current WHERE key = '/k/105'", "no account of /k/105, which has versions"),
    "an older version": ("UPDATE current SET revision = 33 WHERE key = '/k/105'", "two accounts of /k/105"),
    "the marks": ("UPDATE meta SET value = 99 WHERE name = 'swept'", "swept up to 99, beyond its mark 30"),
}


@pytest.mark.parametrize(("statement", "finding"), STATEMENTS.values(), ids=STATEMENTS.keys())
def test_what_a_row_says(path: Path, statement: str, finding: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement)
    found = "\n".join(phase.verify(path).damaged)
    assert any(part in found for part in finding.split("|")), found


def test_values_that_are_not_what_their_keys_say() -> None:
    resource = catalog.CONFIG_MAPS
    sound = resource.type(metadata=ObjectMeta(name="a", namespace="b"))
    sealed = protobuf.seal(resource.api_version, resource.kind, protobuf.codec_for(resource.type).encode(sound))
    assert phase.judged("/registry/configmaps/b/a", sealed) == ""
    assert phase.judged("/registry/configmaps/b/c", sealed) == "an object that is called b/a"
    assert "no Secret that can be read" in phase.judged("/registry/secrets/b/a", sealed)
    assert phase.judged("/registry/configmaps/b/a", sealed[:-3]).startswith("no ConfigMap that can be read")
    assert phase.judged("/registry/unknown/b/a", b"anything") == ""


def cut(path: Path) -> None:
    """The log loses its last third: some acknowledged writes."""
    log = Path(f"{path}-wal")
    os.truncate(log, log.stat().st_size * 2 // 3)


def test_after_an_accepted_loss_no_revision_comes_twice_and_watches_begin_anew(path: Path) -> None:
    cut(path)
    log = Path(f"{path}-wal").read_bytes()
    assert phase.verify(path).lost
    assert not phase.verify(path).damaged
    revision, kept = phase.accept_loss(path, EPOCH)
    assert revision == NEWEST + REVISIONS_LEFT_OUT
    assert kept is not None
    assert kept.read_bytes() == log
    assert kept.stat().st_mode & 0o777 == 0o600
    assert phase.verify(path).findings == []

    async def scenario() -> None:
        store = await SQLiteStore.open(path, clock=FakeClock())
        try:
            assert await store.revision() == revision
            assert 48 < len((await store.list("/k/")).items) < 70
            with pytest.raises(Compacted):
                async with watching(store, "/k/", NEWEST) as batches:
                    await anext(batches)
            assert await store.create("/k/new", b"") == revision + 1
        finally:
            await store.close()

    aio.run(scenario())
    assert phase.accept_loss(path, EPOCH)[0] == revision + 1 + REVISIONS_LEFT_OUT


def test_of_a_copy_that_is_gone_on_with_twice_no_revision_comes_twice(path: Path, tmp_path: Path) -> None:
    """What was written after the first time, nobody knows of the second time."""
    Path(f"{path}.mark").unlink()
    copy = tmp_path / "copy.db"
    shutil.copy(path, copy)
    first, _ = phase.accept_loss(path, EPOCH + dt.timedelta(days=20_000))
    second, _ = phase.accept_loss(copy, EPOCH + dt.timedelta(days=20_000, seconds=1))
    assert second - first == 1_000_000


def test_a_backup_without_its_mark(path: Path) -> None:
    Path(f"{path}.mark").unlink()
    assert "no mark" in phase.verify(path).lost[0]
    assert phase.accept_loss(path, EPOCH)[0] == NEWEST + REVISIONS_LEFT_OUT
    assert phase.verify(path).findings == []


def test_damage_is_no_loss_that_can_be_accepted(path: Path) -> None:
    content = path.read_bytes()
    flip(path, content.index(value(44)) + 50)
    before = contents(path)
    with pytest.raises(phase.StillDamagedError, match=r"wrong checksum at revision .* of /k/044"):
        phase.accept_loss(path, EPOCH)
    assert contents(path) == before


def test_a_store_in_use_and_a_file_that_is_none(path: Path, tmp_path: Path) -> None:
    with verification.alone(path), pytest.raises(StoreUnavailable, match="has open"):
        phase.verify(path)
    (tmp_path / "text").write_text("hello")
    with pytest.raises(StoreDamaged, match="does not begin as SQLite"):
        phase.verify(tmp_path / "text")


def test_the_commands(path: Path, tmp_path: Path) -> None:
    whole = kubevouch("store", "verify", path, cwd=tmp_path)
    assert (whole.code, whole.stderr) == (0, "")
    assert whole.stdout.startswith("whole: revision 95, marked 95; 70 keys, 84 versions since revision 30, ")
    cut(path)
    lost = kubevouch("store", "verify", path, cwd=tmp_path)
    assert lost.code == 1
    assert "as the newest, where 95 was acknowledged" in lost.stdout
    assert lost.stderr.startswith(f"error: {path} has lost writes: 1 finding\nhint: restore the newest backup, or ")
    aborted = kubevouch("store", "accept-loss", path, cwd=tmp_path, text="")
    assert (aborted.code, "aborted; nothing was changed" in aborted.stderr) == (1, True)
    accepted = kubevouch("store", "accept-loss", path, "--yes", cwd=tmp_path)
    assert accepted.code == 0
    assert re.search(r"goes on at revision \d{16}$", accepted.stdout, re.MULTILINE)
    assert kubevouch("store", "verify", path, "-o", "json", cwd=tmp_path).code == 0
    assert kubevouch("store", "verify", tmp_path / "nothing", cwd=tmp_path).code == 3


def test_a_running_cluster_s_store_is_in_use_and_its_objects_are_sound(tmp_path: Path) -> None:
    with Up(tmp_path) as up:
        used = kubevouch("store", "verify", "--data-dir", "cluster", cwd=tmp_path)
        assert used.code == 2
        assert f"process {up.pid} has open" in used.stderr
        up.end()
    ended = kubevouch("store", "verify", "--data-dir", "cluster", cwd=tmp_path)
    assert (ended.code, ended.stderr) == (0, "")
    (tmp_path / "cluster/kubevouch.db.mark").unlink()
    refused = kubevouch("up", "--data-dir", "cluster", "--secure-port", "0", cwd=tmp_path)
    assert refused.code == 1
    assert refused.stderr.count("error:") == 1
    assert "got no mark (kubevouch.db.mark)" in refused.stderr
