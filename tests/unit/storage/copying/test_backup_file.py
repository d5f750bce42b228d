"""storage/copying/backup_file.py: all of a store in one file that is whole or refused."""

from __future__ import annotations

import hashlib
import os
import stat
import struct
from pathlib import Path

import pytest

import aio
from kubevouch.phases import store_copy
from kubevouch.storage.copying import backup_file
from kubevouch.storage.copying.backup_file import BackupFile, NotWhole
from kubevouch.storage.copying.errors import CopyError
from kubevouch.storage.interface import MAX_VALUE_BYTES, Revision
from kubevouch.storage.snapshot import Record
from kubevouch.storage.sqlite import SQLiteStore
from kubevouch.storage.sqlite.place import SQLitePlace
from kubevouch.testing.clock import FakeClock

CLOCK = FakeClock()
WRITTEN = {"/registry/a": b"", "/registry/b": bytes(range(256)) * 40, "/registry/ü/\U0001f600": b"k8s:enc:aesgcm:v1:k:"}


async def _store(path: Path) -> None:
    store = await SQLiteStore.open(path, clock=CLOCK)
    for key, value in WRITTEN.items():
        await store.create(key, value)
    await store.create("/registry/events/e", b"e", ttl=3600)
    await store.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    async def scenario() -> None:
        await _store(tmp_path / "from.db")
        await store_copy.backup(SQLitePlace(tmp_path / "from.db"), tmp_path / "b.kvbackup", CLOCK, lambda _: None)

    aio.run(scenario())
    return tmp_path / "b.kvbackup"


def records(path: Path, prefix: str = "") -> list[Record]:
    async def scenario() -> list[Record]:
        async with BackupFile(path).snapshot(CLOCK) as snapshot:
            return [each async for batch in snapshot.batches(prefix) for each in batch]

    return aio.run(scenario())


def test_every_key_is_in_it_as_it_is_stored(file: Path) -> None:
    found = {each.key: each for each in records(file)}
    event = found.pop("/registry/events/e")
    assert (event.revision, event.value) == (5, b"e") and event.expires is not None
    assert {key: each.value for key, each in found.items()} == WRITTEN
    assert [each.expires for each in found.values()] == [None] * 3
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [each.key for each in records(file, "/registry/b")] == ["/registry/b"]


def test_it_is_read_as_its_description_says(file: Path) -> None:
    """By what the manual says of the format, not by this program."""
    content = file.read_bytes()
    assert content[:8] == b"kvbackup"
    at, kinds, keys = 8, "", []
    while at < len(content):
        size, _ = struct.unpack_from("<II", content, at)
        body = content[at + 8 : at + 8 + size]
        kinds += body[:1].decode()
        if body[:1] == b"R":
            revision, expires, length = struct.unpack_from("<QqH", body, 1)
            keys.append((body[19 : 19 + length].decode(), body[19 + length :], revision, expires))
        at += 8 + size
    assert kinds == "HRRRRE"
    assert keys[1] == ("/registry/b", WRITTEN["/registry/b"], 3, -1)


@pytest.mark.parametrize("target", ["new", "used"])
def test_it_is_restored_above_every_revision_that_anybody_may_have_seen(
    target: str, file: Path, tmp_path: Path
) -> None:
    async def scenario() -> None:
        place = SQLitePlace(tmp_path / "to.db")
        if target == "used":
            store = await place.open(CLOCK)
            await store.create("/registry/later", b"")
            await store.close()
        done = await store_copy.restore(
            BackupFile(file), place, CLOCK, lambda _: None, replace=target == "used", above=None
        )
        assert done.revision > CLOCK.now().timestamp() * 1_000_000
        store = await place.open(CLOCK)
        assert (await store.get("/registry/later")) is None
        kept = {each.key: each.value for each in (await store.list("/registry/")).items}
        assert WRITTEN.items() <= kept.items()
        await store.close()
        known = await store_copy.restore(
            BackupFile(file), SQLitePlace(tmp_path / "known.db"), CLOCK, lambda _: None, replace=False, above=1000
        )
        assert 1000 < known.revision < 1010

    aio.run(scenario())


def test_an_etcd_is_raised_no_further_than_writes_can() -> None:
    class Etcd(BackupFile):
        """A destination that is no file."""

    now = CLOCK.now()
    etcd: object = Etcd(Path("x"))
    assert store_copy.above_all(etcd, Revision(10), None, now) == 10 + store_copy.LEFT_OUT_IN_ETCD  # type: ignore[arg-type]  # only its kind is looked at
    assert store_copy.above_all(etcd, Revision(10), 500, now) == 500  # type: ignore[arg-type]  # as above
    assert store_copy.above_all(etcd, Revision(10), 5, now) == 10  # type: ignore[arg-type]  # as above


def test_no_byte_of_it_can_change_unseen(file: Path) -> None:
    content = file.read_bytes()
    for at in range(0, len(content), 97):
        file.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(NotWhole):
            records(file)
    for end in (*range(0, len(content), 501), len(content) - 1):
        file.write_bytes(content[:end])
        with pytest.raises(NotWhole):
            records(file)
    file.write_bytes(content + b"\x00")
    with pytest.raises(NotWhole, match="more behind its end"):
        records(file)


def test_frames_that_were_taken_out_or_put_in_are_missed(file: Path) -> None:
    content = file.read_bytes()
    frames, at = [], 8
    while at < len(content):
        (size,) = struct.unpack_from("<I", content, at)
        frames.append(content[at : at + 8 + size])
        at += 8 + size
    for wrong in (
        frames[:2] + frames[3:],
        [frames[0], frames[2], frames[1], *frames[3:]],
        frames[1:],
        frames[:1] + frames[:1] + frames[1:],
    ):
        file.write_bytes(b"kvbackup" + b"".join(wrong))
        with pytest.raises(NotWhole):
            records(file)


def test_a_length_does_not_have_the_reader_take_memory(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(backup_file, "MAX_FRAME_BYTES", 5000)
        with pytest.raises(NotWhole, match="frame 3"):  # the value of 10 KiB
            records(file)
    file.write_bytes(b"kvbackup" + struct.pack("<II", 0xFFFF_FFFF, 0) + b"H{}")
    with pytest.raises(NotWhole, match="frame 1"):
        records(file)
    assert backup_file.MAX_FRAME_BYTES > MAX_VALUE_BYTES


def test_a_newer_format_is_named(file: Path) -> None:
    import zlib

    body = b'H{"format":2,"kubevouch":"9.9","other":1}'
    file.write_bytes(b"kvbackup" + struct.pack("<II", len(body), zlib.crc32(body)) + body)
    with pytest.raises(NotWhole, match=r"format 2 by kubevouch 9\.9, where 1 is known"):
        records(file)


_HEAD = b'H{"format":1,"kubevouch":"1","created":"","store":"s","prefix":"/registry","revision":%d}'


@pytest.mark.parametrize(
    ("bodies", "told"),
    [
        ((_HEAD % 2**70,), "a revision that no store has, 1180591620717411303424"),
        ((_HEAD % (2**63 - 1),), "a revision that no store has"),
        ((_HEAD % -1,), "a revision that no store has, -1"),
        ((_HEAD % 9, struct.pack("<cQqH", b"R", 5, -1, 3) + b"a\x00b"), "expected text without NUL"),
        ((_HEAD % 9, struct.pack("<cQqH", b"R", 5, 2**63 - 1, 1) + b"a"), "a time that no calendar has"),
        ((_HEAD % 9, struct.pack("<cQqH", b"R", 5, -2, 1) + b"a"), "a time that no calendar has"),
        ((b'H{"format":1,"x":' + b"[" * 100_000,), "a frame that cannot be read"),
        ((b'H{"format":"' + b"9" * 100_000 + b'"}',), f"format {'9' * 40} by kubevouch None, where"),
    ],
)
def test_whole_files_with_content_that_nobody_has_written(file: Path, bodies: tuple[bytes, ...], told: str) -> None:
    """Checksums keep out accidents, not people."""
    import zlib

    content = b"kvbackup" + b"".join(struct.pack("<II", len(body), zlib.crc32(body)) + body for body in bodies)
    end = b'E{"keys":%d,"sha256":"%s"}' % (len(bodies) - 1, hashlib.sha256(content).hexdigest().encode())
    file.write_bytes(content + struct.pack("<II", len(end), zlib.crc32(end)) + end)
    with pytest.raises(NotWhole, match=told):
        records(file)


def test_a_file_is_never_overwritten_and_nothing_is_left_of_one_that_failed(file: Path, tmp_path: Path) -> None:
    before = file.read_bytes()
    with pytest.raises(CopyError, match="there is a file"):
        aio.run(_backup(tmp_path / "from.db", file))
    assert file.read_bytes() == before
    (tmp_path / "from.db").unlink()
    with pytest.raises(Exception, match="No such file"):
        aio.run(_backup(tmp_path / "from.db", tmp_path / "c.kvbackup"))
    assert not [name for name in os.listdir(tmp_path) if "c.kvbackup" in name]


async def _backup(store: Path, into: Path) -> None:
    await store_copy.backup(SQLitePlace(store), into, CLOCK, lambda _: None)
