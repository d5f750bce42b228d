"""ledger/opening.py: one writer, no file of others, nothing that was cut or lost, and what others may read."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import ledger_world as world
from kubevouch.ledger import keys, opening
from kubevouch.ledger.entries import Query
from kubevouch.ledger.file import Encoded
from kubevouch.ledger.interface import LedgerDamaged, LedgerError, LedgerInUse, LedgerUnavailable
from kubevouch.ledger.opening import copy_ledger, open_ledger
from kubevouch.ledger.store import read
from kubevouch.storage.sqlite.files import create_if_missing


def reopened(path: Path) -> int:
    with closing(open_ledger(path, world.NOW)) as file:
        return file.size


def test_a_ledger_is_made_private_and_found_again(tmp_path: Path) -> None:
    path = world.written(tmp_path / "folder" / "ledger.db", 5)
    assert reopened(path) == 5
    modes = {each.name: each.stat().st_mode & 0o777 for each in path.parent.iterdir()}
    assert set(modes) == {"ledger.db", "ledger.db.lock", "ledger.db.mark", "ledger.key"}
    assert modes["ledger.db"] == modes["ledger.key"] == 0o600


def test_a_commit_is_synced(tmp_path: Path) -> None:
    with closing(open_ledger(tmp_path / "ledger.db", world.NOW)) as file:
        assert file.connection.execute("PRAGMA synchronous").fetchone() == (2,), "FULL"


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with closing(open_ledger(path, world.NOW)), pytest.raises(LedgerInUse, match=f"process {os.getpid()} has open"):
        open_ledger(path, world.NOW)
    assert reopened(path) == 0


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def cut_to_nothing(path: Path) -> None:
    os.truncate(path, 0)


def of_another_program(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (a)")


def a_store(path: Path) -> None:
    path.unlink()
    path.with_name("ledger.db.mark").unlink()
    create_if_missing(path)


def text(path: Path) -> None:
    path.write_text("x" * 5000)


def gone(path: Path) -> None:
    path.unlink()


def without_mark(path: Path) -> None:
    path.with_name("ledger.db.mark").unlink()


def without_key(path: Path) -> None:
    keys.key_of(path).unlink()


def with_another_key(path: Path) -> None:
    keys.key_of(path).unlink()
    keys.make_key(path)


def with_a_key_for_all(path: Path) -> None:
    keys.key_of(path).chmod(0o644)


def with_no_key_in_its_file(path: Path) -> None:
    keys.key_of(path).write_text("secret")


def an_older_one(path: Path) -> None:
    world.change(path, "DELETE FROM entry WHERE sequence >= 30")


def another_body_at_the_end(path: Path) -> None:
    world.change(path, "UPDATE entry SET body = CAST(body || ' ' AS BLOB) WHERE sequence = 39")


def another_head(path: Path) -> None:
    world.change(path, "UPDATE meta SET value = replace(value, 'head', 'heed') WHERE name = 'head'")


def with_a_trigger(path: Path) -> None:
    world.change(path, "CREATE TRIGGER t AFTER INSERT ON entry BEGIN DELETE FROM entry WHERE sequence = 0; END")


def of_a_later_version(path: Path) -> None:
    world.change(path, "PRAGMA user_version = 2")


@pytest.mark.parametrize(
    ("damage", "got"),
    [
        (cut, "that was cut"),
        (cut_to_nothing, "a file of 0 bytes that does not begin as SQLite's do"),
        (of_another_program, "an SQLite file of another program"),
        (a_store, r"an SQLite file of another program \(application id 0x6b766f75\)"),
        (text, "a file of 5000 bytes that does not begin"),
        (gone, "no file, but a mark of one with 40 entries"),
        (without_mark, "no mark that says how far"),
        (without_key, "got no key at .*, expected that of the ledger; restore it from a backup"),
        (with_another_key, "a key at .* that is not this ledger's"),
        (with_a_key_for_all, "got the mode 0644, expected 0600"),
        (with_no_key_in_its_file, "got no private key in PEM"),
        (an_older_one, "30 entries where 40 were acknowledged: 10 are lost"),
        (another_body_at_the_end, "40 entries where 40 others were committed"),
        (another_head, "a head that its key has not signed"),
        (with_a_trigger, "other tables, views or triggers"),
        (of_a_later_version, "layout 2, which a later kubevouch has made"),
    ],
)
def test_what_is_not_the_ledger_is_refused_and_left_as_it_is(
    tmp_path: Path, damage: Callable[[Path], None], got: str
) -> None:
    path = world.written(tmp_path / "ledger.db", 40)
    damage(path)
    before = path.read_bytes() if path.exists() else None
    for _ in range(2):
        with pytest.raises((LedgerDamaged, LedgerUnavailable), match=got):
            open_ledger(path, world.NOW)
    assert before == (path.read_bytes() if path.exists() else None)


def test_a_log_that_is_lost_is_told(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    file = open_ledger(path, world.NOW)
    file.append([Encoded.of(each) for each in map(world.entry, range(5))], world.NOW)
    folder = tmp_path / "killed"
    folder.mkdir()
    # What is left when the process is killed, without the log.
    for each in (path, path.with_name("ledger.db.mark"), keys.key_of(path)):
        (folder / each.name).write_bytes(each.read_bytes())
    (folder / "ledger.key").chmod(0o600)
    with pytest.raises(LedgerDamaged, match="0 entries where 5 were acknowledged"):
        open_ledger(folder / "ledger.db", world.NOW)
    # With the log all are there.
    (folder / "ledger.db-wal").write_bytes(path.with_name("ledger.db-wal").read_bytes())
    file.close()
    assert reopened(folder / "ledger.db") == 5


def test_a_group_may_be_allowed_to_read(tmp_path: Path) -> None:
    path = world.written(tmp_path / "ledger.db", 5)
    path.chmod(0o666)
    with closing(open_ledger(path, world.NOW)) as file:
        file.append([Encoded.of(world.entry(5))], world.NOW)
        assert {each.stat().st_mode & 0o777 for each in tmp_path.glob("ledger.db*") if "-" in each.name} == {0o640}
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_copy_goes_on_where_it_was_made(tmp_path: Path) -> None:
    path, into = tmp_path / "ledger.db", tmp_path / "copies" / "ledger.db"
    into.parent.mkdir()
    with closing(open_ledger(path, world.NOW)) as file:
        file.append([Encoded.of(each) for each in map(world.entry, range(5))], world.NOW)
        assert copy_ledger(path, into, world.NOW) == 5
        file.append([Encoded.of(world.entry(5))], world.NOW)
    keys.key_of(into).write_bytes(keys.key_of(path).read_bytes())
    keys.key_of(into).chmod(0o600)
    assert into.stat().st_mode & 0o777 == 0o600
    assert world.verified(into).findings == []
    # Opened once, it is a ledger with a mark like any other.
    assert reopened(into) == reopened(into) == 5
    into.with_name("ledger.db.mark").unlink()
    with pytest.raises(LedgerDamaged, match="no mark"):
        open_ledger(into, world.NOW)


def test_reading_changes_nothing(tmp_path: Path) -> None:
    path = world.written(tmp_path / "ledger.db", 40)
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    assert len(read(path, Query())) == 40 and world.verified(path).findings == []
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == before
    with closing(opening.connect_to_read(path)) as connection, pytest.raises(sqlite3.OperationalError):
        connection.execute("DELETE FROM entry")


@pytest.mark.parametrize("make", [lambda path: None, text, lambda path: path.mkdir()])
def test_there_is_nothing_to_read(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "ledger.db")
    with pytest.raises(LedgerError):
        read(tmp_path / "ledger.db", Query())


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LedgerUnavailable, match="expected files that this user may write"):
        open_ledger(tmp_path / "file" / "ledger.db", world.NOW)
