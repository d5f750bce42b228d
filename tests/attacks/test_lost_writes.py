"""Damage to a store's files takes no acknowledged write away in silence, and no revision is given out twice.

SQLite reads its log up to the first bad frame and drops the rest without a word. Each test takes the files as a kill -9
leaves them, damages them, and opens them: what was acknowledged is there, or the store refuses to open.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

import aio
from kubevouch.storage.interface import Revision, StoreDamaged, StoreUnavailable
from kubevouch.storage.sqlite import SQLiteStore
from kubevouch.storage.sqlite.mark import Noted, mark_of, read_mark, write_mark
from kubevouch.testing.clock import FakeClock

SUFFIXES = ("", "-wal", ".mark")
WRITES = 40
FRAME = 24 + 8192
ACKNOWLEDGED = Revision(WRITES + 1)
# `make fuzz` looks at many more places.
PLACES = int(os.environ.get("KUBEVOUCH_DAMAGED_PLACES", "16"))


def value(number: int) -> bytes:
    return f"value {number} ".encode() * 300


def files_of(path: Path) -> dict[str, bytes]:
    return {suffix: Path(f"{path}{suffix}").read_bytes() for suffix in SUFFIXES}


def lay(path: Path, files: dict[str, bytes]) -> Path:
    for suffix, content in files.items():
        Path(f"{path}{suffix}").write_bytes(content)
    return path


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What a kill -9 leaves after 40 acknowledged writes, each in a commit of its own, none of them in the file yet."""
    path = tmp_path_factory.mktemp("killed") / "store.db"

    async def scenario() -> dict[str, bytes]:
        store = await SQLiteStore.open(path, clock=FakeClock())
        for number in range(WRITES):
            await store.create(f"/{number:03}", value(number))
        left = files_of(path)
        await store.close()
        return left

    return aio.run(scenario())


def opened(path: Path) -> Revision:
    """Opens the store, and looks whether all is there that was acknowledged; returns the next revision it gives."""

    async def scenario() -> Revision:
        store = await SQLiteStore.open(path, clock=FakeClock())
        try:
            assert await store.revision() >= ACKNOWLEDGED
            items = (await store.list("/")).items
            assert [(item.key, item.value) for item in items] == [(f"/{n:03}", value(n)) for n in range(WRITES)]
            return await store.create("/next", b"")
        finally:
            await store.close()

    return aio.run(scenario())


def assert_refused(path: Path, reason: str) -> None:
    before = {file: file.read_bytes() for file in path.parent.iterdir() if not file.name.endswith(("-shm", ".lock"))}
    with pytest.raises(StoreDamaged, match=reason) as caught:
        opened(path)
    assert str(path) in str(caught.value)
    assert "restore" in str(caught.value)
    assert {file: file.read_bytes() for file in before} == before


def flipped(content: bytes, at: int, bit: int = 0) -> bytes:
    return content[:at] + bytes([content[at] ^ (1 << bit)]) + content[at + 1 :]


def test_what_a_kill_leaves_is_whole(killed: dict[str, bytes], tmp_path: Path) -> None:
    assert len(killed["-wal"]) > 2 * WRITES * FRAME
    assert opened(lay(tmp_path / "store.db", killed)) == ACKNOWLEDGED + 1


def places(length: int, seed: int) -> Iterator[tuple[int, int]]:
    choice = random.Random(seed)
    for _ in range(PLACES):
        yield choice.randrange(length), choice.randrange(8)


def test_a_flipped_bit_anywhere_in_the_log(killed: dict[str, bytes], tmp_path: Path) -> None:
    """In a frame, in the header of a frame, in the header of the log."""
    log = killed["-wal"]
    chosen = [(at, 3) for at in range(0, 32, 5)]
    chosen += [(32 + number * FRAME + at, 1) for number in (0, 7, len(log) // FRAME - 1) for at in (2, 5, 9, 17, 30)]
    for turn, (at, bit) in enumerate([*chosen, *places(len(log), 1)]):
        folder = tmp_path / str(turn)
        folder.mkdir()
        assert_refused(lay(folder / "store.db", killed | {"-wal": flipped(log, at, bit)}), "lost to damage|damaged at")
        shutil.rmtree(folder)


def test_a_flipped_bit_before_the_last_commit_is_found_without_the_mark_s_help(
    killed: dict[str, bytes], tmp_path: Path
) -> None:
    """After a power cut the mark may be some seconds old; here it is as old as the store."""
    old = killed | {".mark": _mark_at(killed[".mark"], Revision(1))}
    assert opened(lay(tmp_path / "whole.db", old)) == ACKNOWLEDGED + 1
    log = old["-wal"]
    frames = (len(log) - 32) // FRAME
    choice = random.Random(5)
    for turn, number in enumerate(choice.sample(range(frames - 10), 12)):
        at = 32 + number * FRAME + choice.randrange(FRAME)
        damaged = lay(tmp_path / f"{turn}.db", old | {"-wal": flipped(log, at)})
        with pytest.raises(StoreDamaged, match=r"damaged at frame .*, with commits behind it"):
            opened(damaged)
    for at in range(32):
        with pytest.raises(StoreDamaged, match="with commits behind it"):
            opened(lay(tmp_path / f"header-{at}.db", old | {"-wal": flipped(log, at)}))


def _mark_at(mark: bytes, revision: Revision) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        mark_of(path).write_bytes(mark)
        noted = read_mark(path)
        assert noted is not None
        write_mark(path, Noted(noted.identity, revision))
        return mark_of(path).read_bytes()


@pytest.mark.parametrize("kept", [0, 0.3, 0.9])
def test_a_log_that_was_cut_off(killed: dict[str, bytes], tmp_path: Path, kept: float) -> None:
    log = killed["-wal"]
    assert_refused(lay(tmp_path / "store.db", killed | {"-wal": log[: int(len(log) * kept)]}), "lost to damage")


def test_a_log_that_is_gone(killed: dict[str, bytes], tmp_path: Path) -> None:
    path = lay(tmp_path / "store.db", killed)
    (tmp_path / "store.db-wal").unlink()
    assert_refused(path, "lost to damage, or this is an older copy")


def test_a_torn_commit_that_nobody_was_told_of_is_no_damage(killed: dict[str, bytes], tmp_path: Path) -> None:
    """A power cut in the middle of a commit leaves any part of its frames, in any order."""
    log = killed["-wal"]
    commits = [at for at in range(32, len(log), FRAME) if log[at + 4 : at + 8] != bytes(4)]
    begin = commits[-2] + FRAME
    before = killed | {".mark": _mark_at(killed[".mark"], Revision(ACKNOWLEDGED - 1))}
    choice = random.Random(9)
    for turn in range(PLACES // 4):
        torn = bytearray(log)
        for at in range(begin // 512 * 512 + 512, len(torn), 512):
            if choice.random() < 0.5:
                torn[at : at + 512] = bytes(min(512, len(torn) - at))
        path = lay(tmp_path / f"{turn}.db", before | {"-wal": bytes(torn)})

        async def scenario(path: Path = path) -> None:
            store = await SQLiteStore.open(path, clock=FakeClock())
            assert ACKNOWLEDGED - 1 <= await store.revision() <= ACKNOWLEDGED
            await store.close()

        aio.run(scenario())


def test_leftovers_of_a_commit_that_failed_are_no_damage(tmp_path: Path) -> None:
    """Frames of a transaction that was rolled back lie behind the last commit and look like one that was lost."""
    path = tmp_path / "store.db"

    async def scenario() -> dict[str, bytes]:
        store = await SQLiteStore.open(path, clock=FakeClock())

        def fail(connection: sqlite3.Connection) -> None:
            connection.execute("PRAGMA cache_size = 1")
            connection.execute("BEGIN IMMEDIATE")
            for number in range(20):
                connection.execute("INSERT INTO meta VALUES (?, 1)", (f"{number}" * 3000,))
            raise StoreUnavailable("on purpose")

        await store.create("/a", b"1")
        with pytest.raises(StoreUnavailable):
            await store._call(fail)
        await store.create("/b", b"2")
        left = files_of(path)
        await store.close()
        return left

    left = aio.run(scenario())
    assert len(left["-wal"]) > 20 * FRAME

    async def again() -> None:
        store = await SQLiteStore.open(lay(tmp_path / "again.db", left), clock=FakeClock())
        assert await store.revision() == 3
        await store.close()

    aio.run(again())


def test_a_flipped_bit_in_the_mark_alone_changes_nothing(killed: dict[str, bytes], tmp_path: Path) -> None:
    for turn, (at, bit) in enumerate(places(1024, 2)):
        path = lay(tmp_path / f"{turn}.db", killed | {".mark": flipped(killed[".mark"], at, bit)})
        assert opened(path) == ACKNOWLEDGED + 1


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda mark: flipped(flipped(mark, 9), 521), "a mark .* that cannot be read"),
        (lambda mark: mark[:700], "a mark .* that cannot be read"),
        (lambda mark: b"", "a mark .* that cannot be read"),
        (None, "no mark"),
    ],
)
def test_a_mark_that_says_nothing(
    killed: dict[str, bytes], tmp_path: Path, spoil: Callable[[bytes], bytes] | None, reason: str
) -> None:
    path = lay(tmp_path / "store.db", killed)
    mark = tmp_path / "store.db.mark"
    if spoil is None:
        mark.unlink()
    else:
        mark.write_bytes(spoil(killed[".mark"]))
    assert_refused(path, reason)


def test_an_older_copy_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def written(count: int) -> None:
        store = await SQLiteStore.open(path, clock=FakeClock())
        for _ in range(count):
            await store.create(f"/{await store.revision():03}", b"")
        await store.close()

    aio.run(written(5))
    backup = path.read_bytes()
    aio.run(written(7))
    path.write_bytes(backup)
    assert_refused(path, "got revision 6 as the newest, where 13 was acknowledged: 7 lost .* or this is an older copy")


def test_the_log_and_the_mark_of_another_store(killed: dict[str, bytes], tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def other() -> None:
        store = await SQLiteStore.open(path, clock=FakeClock())
        for number in range(WRITES):
            await store.create(f"/{number:03}", value(number))
        await store.close()

    aio.run(other())
    own = path.read_bytes()
    assert_refused(lay(path, {"": own, "-wal": killed["-wal"]}), "mark .* of another store|malformed|SQLite's check")
    (tmp_path / "store.db-wal").unlink()
    assert_refused(lay(path, {"": own, ".mark": killed[".mark"]}), "mark .* of another store")


COLUMNS = {
    "deleted": "UPDATE version SET deleted = 1 WHERE key = '/007'",
    "deleted in both": "UPDATE version SET deleted = 1 WHERE revision = 9;"
    "UPDATE current SET deleted = 1 WHERE key = '/007'",
    "expires": "UPDATE version SET expires = 5 WHERE key = '/007'",
    "current deleted": "UPDATE current SET deleted = 1 WHERE key = '/007'",
    "current expires": "UPDATE current SET expires = 5 WHERE key = '/007'",
    "current revision": "UPDATE current SET revision = revision - 1 WHERE key = '/007'",
    "current key": "UPDATE current SET key = '/07' WHERE key = '/007'",
    "current gone": "DELETE FROM current WHERE key = '/007'",
    "version gone": "DELETE FROM version WHERE key = '/007'",
}


@pytest.mark.parametrize("statements", COLUMNS.values(), ids=COLUMNS.keys())
def test_no_column_of_a_row_can_take_an_object_away(killed: dict[str, bytes], tmp_path: Path, statements: str) -> None:
    """As a flipped bit in a page that SQLite's structure does not show."""
    path = lay(tmp_path / "store.db", killed)
    opened(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(statements)

    async def scenario() -> None:
        store = await SQLiteStore.open(path, clock=FakeClock())
        try:
            await store.get("/007")
        finally:
            await store.close()

    with pytest.raises(StoreDamaged, match=r"two accounts of /0|wrong checksum at revision 9"):
        aio.run(scenario())


def test_a_store_from_before_the_mark_gets_one(killed: dict[str, bytes], tmp_path: Path) -> None:
    path = lay(tmp_path / "store.db", killed)
    opened(path)
    _turned_back(path)
    assert opened_again(path) == ACKNOWLEDGED + 1
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)
    _turned_back(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE version SET checksum = checksum + 1 WHERE revision = 20")
    with pytest.raises(StoreDamaged, match="wrong checksum at revision 20"):
        opened_again(path)


def opened_again(path: Path) -> Revision:
    async def scenario() -> Revision:
        store = await SQLiteStore.open(path, clock=FakeClock())
        try:
            assert len((await store.list("/")).items) == WRITES + 1
            return await store.revision()
        finally:
            await store.close()

    return aio.run(scenario())


def _turned_back(path: Path) -> None:
    """As the layout before left a store: checksums over key and value, no identity, no mark."""
    Path(f"{path}.mark").unlink()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        rows = connection.execute("SELECT revision, key, value FROM version").fetchall()
        for revision, key, content in rows:
            crc = zlib.crc32(content or b"", zlib.crc32(key.encode(), revision))
            connection.execute("UPDATE version SET checksum = ? WHERE revision = ?", (crc, revision))
        connection.execute("DELETE FROM meta WHERE name = 'identity'")
        connection.execute("UPDATE meta SET value = 1 WHERE name = 'layout'")
        connection.execute("PRAGMA user_version = 1")
