"""phases/backup.py: one private file that is whole or refused, and a folder that is there whole or not at all."""

from __future__ import annotations

import asyncio
import datetime as dt
import io
import os
import resource
import signal
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

import aio
import ledger_world
from kubevouch.cli.failures import explain
from kubevouch.ledger import keys
from kubevouch.ledger.entries import BEGUN, Entry, Query
from kubevouch.ledger.store import SQLiteLedger, read
from kubevouch.phases import backup as phase
from kubevouch.phases.backup import BackupError
from kubevouch.standalone import ledger
from kubevouch.storage.interface import Compacted, Revision
from kubevouch.storage.options import MemorySpec, SQLiteSpec
from kubevouch.storage.sqlite import SQLiteStore
from kubevouch.testing.clock import FakeClock
from kubevouch.testing.store_suite import watching
from processes import kubevouch

EVIL = ("../evil.key", "/tmp/evil.key", "pki/../../evil.key", "pki//evil.key", "pki/.hidden", "kubevouch.db.mark")
# What the system would refuse: a file where another's folder is, and names that are too long.
ODD = ("pki/etcd", "pki/ca.crt/ca.key", f"pki/{'a' * 300}", f"pki/{'a/' * 1500}a")
NOW = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
SECRETS = {"admin.conf": b"admin", "pki/ca.key": b"key", "pki/etcd/ca.key": b"etcd"}
PUBLIC = {"pki/ca.crt": b"certificate"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data directory whose store is at revision 11."""
    folder = tmp_path / "cluster"
    (folder / "pki/etcd").mkdir(parents=True)
    for name, content in (SECRETS | PUBLIC).items():
        (folder / name).write_bytes(content)
    (folder / "pki/.ca.key.1234.tmp").write_bytes(b"a write that was cut short")
    aio.run(_fill(folder / "kubevouch.db"))
    return folder


async def _fill(path: Path) -> None:
    store = await SQLiteStore.open(path, clock=FakeClock())
    for number in range(10):
        await store.create(f"/k/{number}", b"value")
    await store.close()


def spec(folder: Path) -> SQLiteSpec:
    return SQLiteSpec(folder / "kubevouch.db")


@pytest.fixture
def made(folder: Path, tmp_path: Path) -> Path:
    phase.backup(folder, spec(folder), tmp_path / "backup.tar", NOW)
    return tmp_path / "backup.tar"


def test_what_is_kept_comes_back_private(folder: Path, made: Path, tmp_path: Path) -> None:
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    done = phase.restore(made, tmp_path / "other", NOW)
    assert done.manifest.revision == 11 and done.manifest.created == "2030-01-01T00:00:00Z"
    assert stat.S_IMODE((tmp_path / "other").stat().st_mode) == 0o700
    for name, content in (SECRETS | PUBLIC).items():
        path = tmp_path / "other" / name
        assert path.read_bytes() == content
        assert stat.S_IMODE(path.stat().st_mode) == (0o600 if name in SECRETS else 0o644), name
    assert {path.name for path in (tmp_path / "other").iterdir()} == {
        "admin.conf", "pki", "kubevouch.db", "kubevouch.db.mark",
    }  # fmt: skip
    # Nothing of the work stays.
    assert {path.name for path in tmp_path.iterdir()} == {"cluster", "other", "backup.tar"}


def test_while_the_store_is_open_and_written(folder: Path, tmp_path: Path) -> None:
    """What was acknowledged before is in it."""

    async def scenario() -> Revision:
        store = await SQLiteStore.open(folder / "kubevouch.db", clock=FakeClock())
        acknowledged = await store.create("/k/late", b"value")
        # Another process, as SQLite's locks belong to processes.
        made = await asyncio.to_thread(kubevouch, "backup", "backup.tar", "--data-dir", folder, cwd=tmp_path)
        assert made.code == 0 and made.stderr.startswith("warning: "), made
        assert stat.S_IMODE((tmp_path / "backup.tar").stat().st_mode) == 0o600
        await store.create("/k/later", b"value")
        await store.close()
        return acknowledged

    acknowledged = aio.run(scenario())
    done = phase.restore(tmp_path / "backup.tar", tmp_path / "other", NOW)
    assert done.manifest.revision == acknowledged

    async def look() -> None:
        store = await SQLiteStore.open(tmp_path / "other/kubevouch.db", clock=FakeClock())
        assert [each.key for each in (await store.list("/k/l")).items] == ["/k/late"]
        await store.close()

    aio.run(look())


def test_no_revision_comes_twice_however_often_it_is_restored(made: Path, tmp_path: Path) -> None:
    async def written(folder: Path) -> Revision:
        store = await SQLiteStore.open(folder / "kubevouch.db", clock=FakeClock())
        with pytest.raises(Compacted):
            async with watching(store, "/k/", Revision(11)) as batches:
                await anext(batches)
        for number in range(5):
            newest = await store.create(f"/k/new-{number}", b"")
        await store.close()
        return newest

    phase.restore(made, tmp_path / "first", NOW)
    newest = aio.run(written(tmp_path / "first"))
    assert newest > 11 + 1_000_000_000
    again = phase.restore(made, tmp_path / "second", NOW + dt.timedelta(seconds=1))
    assert again.revision > newest


def test_nothing_is_overwritten(folder: Path, made: Path, tmp_path: Path) -> None:
    before = made.read_bytes()
    with pytest.raises(BackupError, match="there is a file"):
        phase.backup(folder, spec(folder), made, NOW)
    assert made.read_bytes() == before
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for there in (folder, tmp_path / "link"):
        with pytest.raises(BackupError, match="already"):
            phase.restore(made, there, NOW)


def test_what_cannot_be_copied(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BackupError, match="in memory"):
        phase.backup(folder, MemorySpec(), tmp_path / "backup.tar", NOW)
    with pytest.raises(BackupError, match="there is no"):
        phase.backup(tmp_path / "none", spec(tmp_path / "none"), tmp_path / "backup.tar", NOW)
    path = folder / "kubevouch.db"
    content = path.read_bytes()
    at = content.index(b"/k/7")
    path.write_bytes(content[:at] + b"/k/X" + content[at + 4 :])
    with pytest.raises(BackupError, match="is damaged"):
        phase.backup(folder, spec(folder), tmp_path / "backup.tar", NOW)
    assert {path.name for path in tmp_path.iterdir()} == {"cluster"}


# ------------------------------------------------------------------ archives that somebody else has made


def rewritten(made: Path, change: Callable[[dict[str, tuple[tarfile.TarInfo, bytes]]], None]) -> None:
    with tarfile.open(made) as archive:
        members = {info.name: (info, archive.extractfile(info).read()) for info in archive}  # type: ignore[union-attr]  # all are files
    change(members)
    with tarfile.open(made, "w") as archive:
        for info, content in members.values():
            archive.addfile(info, io.BytesIO(content))


def _other_bytes(members: dict[str, tuple[tarfile.TarInfo, bytes]]) -> None:
    members["pki/ca.key"] = (members["pki/ca.key"][0], b"eve")


def _one_more(members: dict[str, tuple[tarfile.TarInfo, bytes]]) -> None:
    members["more"] = (tarfile.TarInfo("pki/more.key"), b"")


def _one_less(members: dict[str, tuple[tarfile.TarInfo, bytes]]) -> None:
    del members["pki/ca.key"]


def _twice(members: dict[str, tuple[tarfile.TarInfo, bytes]]) -> None:
    members["again"] = members["pki/ca.key"]


def _a_link(members: dict[str, tuple[tarfile.TarInfo, bytes]]) -> None:
    info = members["pki/ca.key"][0]
    info.type, info.linkname, info.size = tarfile.SYMTYPE, "/etc/shadow", 0


def _a_device(members: dict[str, tuple[tarfile.TarInfo, bytes]]) -> None:
    info = members["pki/ca.key"][0]
    info.type, info.size = tarfile.CHRTYPE, 0


def _with_holes(members: dict[str, tuple[tarfile.TarInfo, bytes]]) -> None:
    """It would take 1 TiB of zeros."""
    info, _ = members["kubevouch.db"]
    info.size = 512
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(1 << 40)}
    members["kubevouch.db"] = (info, b"1\n0\n1\n".ljust(512, b"\0"))


def _large(members: dict[str, tuple[tarfile.TarInfo, bytes]]) -> None:
    info, content = members["manifest.json"]
    listed = content.replace(b'"size": 3,', b'"size": 1099511627776,')
    assert listed != content
    info.size = len(listed)
    members["manifest.json"] = (info, listed)


def _renamed(name: str) -> Callable[[dict[str, tuple[tarfile.TarInfo, bytes]]], None]:
    def change(members: dict[str, tuple[tarfile.TarInfo, bytes]]) -> None:
        info, content = members.pop("manifest.json")
        listed = content.replace(b'"pki/ca.key"', b'"%s"' % name.encode())
        info.size = len(listed)
        key, bytes_of = members.pop("pki/ca.key")
        key.name = name
        rest = dict(members)
        members.clear()
        members |= {"manifest.json": (info, listed), name: (key, bytes_of), **rest}

    return change


@pytest.mark.parametrize(
    "change",
    [
        _other_bytes, _one_more, _one_less, _twice, _a_link, _a_device, _with_holes, _large,
        *map(_renamed, EVIL), *map(_renamed, ODD),
    ],
)  # fmt: skip
def test_an_archive_that_is_not_what_was_written(
    made: Path, tmp_path: Path, change: Callable[[dict[str, tuple[tarfile.TarInfo, bytes]]], None]
) -> None:
    rewritten(made, change)
    with pytest.raises(BackupError, match="expected a whole backup"):
        phase.restore(made, tmp_path / "other", NOW)
    assert {path.name for path in tmp_path.iterdir()} == {"cluster", "backup.tar"}


@pytest.mark.parametrize("length", [0, 100, 512, 4000, 20_000])
def test_an_archive_that_was_cut(made: Path, tmp_path: Path, length: int) -> None:
    os.truncate(made, length)
    with pytest.raises(BackupError, match="expected a whole backup"):
        phase.restore(made, tmp_path / "other", NOW)
    assert not (tmp_path / "other").exists()


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for source in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(BackupError, match="got what is no file"):
            phase.restore(source, tmp_path / "other", NOW)
    assert {path.name for path in tmp_path.iterdir()} == {"pipe"}


def test_what_the_system_refuses_is_said_of_a_file_and_leaves_nothing(made: Path, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    former = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, hard))
    try:
        with pytest.raises(OSError, match=r"File too large: .*kubevouch\.db") as caught:
            phase.restore(made, tmp_path / "other", NOW)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, former)
    assert explain(caught.value) is not None
    assert {path.name for path in tmp_path.iterdir()} == {"cluster", "backup.tar"}


def test_the_ledger_comes_too_and_says_that_it_was_copied(folder: Path, tmp_path: Path) -> None:
    ledger_world.written(folder / "ledger.db", 1100, checkpoint_at=(500,))
    before = ledger_world.key_of(folder / "ledger.db")

    async def restored_twice() -> None:
        held = await SQLiteLedger.open(folder / "ledger.db", FakeClock(NOW))
        await held.append(Entry(kind=BEGUN, at=NOW))
        phase.backup(folder, spec(folder), tmp_path / "backup.tar", NOW)
        await held.append(ledger_world.entry(1101))
        await held.close()
        phase.restore(tmp_path / "backup.tar", tmp_path / "other", NOW)
        path = tmp_path / "other" / "ledger.db"
        assert stat.S_IMODE(keys.key_of(path).stat().st_mode) == stat.S_IMODE(path.stat().st_mode) == 0o600
        for _ in range(2):
            opened = await SQLiteLedger.open(path, FakeClock(NOW))
            await ledger.begin(opened, None, NOW)  # type: ignore[arg-type]  # it has begun
            await opened.close()

    aio.run(restored_twice())
    path = tmp_path / "other" / "ledger.db"
    assert ledger_world.verified(path, before).findings == []
    *_, last = read(path, Query(after=1098))
    assert (last.sequence, last.entry.kind) == (1101, "restored")
    assert last.entry.message.startswith("it goes on from a copy of 2030-01-01T00:00:00+00:00; what was written")


def test_a_damaged_ledger_is_not_backed_up(folder: Path, tmp_path: Path) -> None:
    ledger_world.written(folder / "ledger.db", 30)
    ledger_world.change(folder / "ledger.db", "DELETE FROM entry WHERE sequence = 7")
    with pytest.raises(BackupError, match="is damaged: entry 7: is missing"):
        phase.backup(folder, spec(folder), tmp_path / "backup.tar", NOW)
    assert not (tmp_path / "backup.tar").exists()
