"""ledger/beside.py: who reads a ledger beside its writer sees when what was seen before is not there any more."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest

import ledger_world as world
from asynctest import async_test
from kubevouch.ledger import chain, entries, opening, proofs
from kubevouch.ledger.beside import KEPT_SECONDS, LedgerBeside
from kubevouch.ledger.entries import Query
from kubevouch.ledger.file import Encoded
from kubevouch.ledger.interface import LedgerDamaged, LedgerUnavailable
from kubevouch.testing.clock import FakeClock
from kubevouch.testing.logs import capture_logs


def add(path: Path, begin: int, end: int) -> None:
    with closing(opening.open_ledger(path, world.NOW)) as file:
        file.append([Encoded.of(each) for each in map(world.entry, range(begin, end))], world.NOW)


@async_test
async def test_entries_are_found_while_they_are_written(tmp_path: Path) -> None:
    path = world.written(tmp_path / "ledger.db", 3)
    ledger = LedgerBeside(path, None, FakeClock())
    await ledger.look()
    with closing(opening.open_ledger(path, world.NOW)) as file:
        file.append([Encoded.of(world.entry(3))], world.NOW)
        await ledger.look()
        assert [each.sequence for each in await ledger.find(Query())] == [0, 1, 2, 3]
    await ledger.close()


@async_test
async def test_what_was_seen_is_remembered_by_the_next_process(tmp_path: Path) -> None:
    path, state, clock = world.written(tmp_path / "ledger.db", 3), tmp_path / "seen.json", FakeClock()
    ledger = LedgerBeside(path, state, clock)
    with capture_logs() as logs:
        await ledger.look()
    assert [line["event"] for line in logs] == ["the ledger is seen for the first time"]
    add(path, 3, 6)
    await ledger.look()
    assert b'"size":3' in state.read_bytes()
    clock.advance(KEPT_SECONDS)
    await ledger.look()
    assert b'"size":6' in state.read_bytes()
    add(path, 6, 7)
    await ledger.look()
    await ledger.close()
    assert b'"size":7' in state.read_bytes()
    with capture_logs() as logs:
        later = LedgerBeside(path, state, clock)
        await later.look()
        await later.close()
    assert not logs


@async_test
async def test_a_state_that_is_deleted_or_cannot_be_written(tmp_path: Path) -> None:
    path, folder, clock = world.written(tmp_path / "ledger.db", 3), tmp_path / "state", FakeClock()
    folder.mkdir()
    state = folder / "seen.json"
    ledger = LedgerBeside(path, state, clock)
    await ledger.look()
    state.unlink()
    clock.advance(KEPT_SECONDS)
    await ledger.look()
    assert b'"size":3' in state.read_bytes()
    shutil.rmtree(folder)
    clock.advance(KEPT_SECONDS)
    with pytest.raises(LedgerUnavailable, match="expected to write down what was seen of the ledger"):
        await ledger.look()
    with capture_logs() as logs:
        await ledger.close()
    assert [line["event"] for line in logs] == ["what was seen of the ledger is not kept"]


def rewrite(path: Path) -> None:
    """As who has the file and knows how it is made: another entry, and the chain anew."""
    with closing(opening.open_ledger(path, world.NOW)) as file:
        connection = file.connection
        body = entries.encode(world.entry(500))
        connection.execute("UPDATE entry SET body = ? WHERE sequence = 1", (body,))
        link = chain.beginning(file.origin)
        for sequence, each in connection.execute("SELECT sequence, body FROM entry ORDER BY sequence").fetchall():
            link = chain.link(link, proofs.leaf_hash(each))
            connection.execute("UPDATE entry SET link = ? WHERE sequence = ?", (link, sequence))


def cut(path: Path) -> None:
    world.change(path, "DELETE FROM entry WHERE sequence >= 4")


def replace(path: Path) -> None:
    path.unlink()
    for each in path.parent.glob("ledger.db*"):
        each.unlink()
    world.written(path, 6)


def unchained(path: Path) -> None:
    world.change(path, "UPDATE entry SET link = zeroblob(32) WHERE sequence = 6")


@pytest.mark.parametrize(
    ("meddle", "why"),
    [
        (rewrite, "other entries among the first 6 than were seen before"),
        (cut, "fewer than the 6 entries that were seen before"),
        (replace, r"a ledger with the origin kubevouch.io/ledger/\w+, where kubevouch.io/ledger/\w+ was seen before"),
        (unchained, "an entry 6 that does not follow the one before it"),
    ],
)
@async_test
async def test_what_was_seen_and_is_not_there_any_more(tmp_path: Path, meddle: object, why: str) -> None:
    path = world.written(tmp_path / "ledger.db", 6)
    ledger = LedgerBeside(path, tmp_path / "seen.json", FakeClock())
    await ledger.look()
    await ledger.close()
    if meddle is unchained:
        add(path, 6, 7)
    assert callable(meddle)
    meddle(path)
    later = LedgerBeside(path, tmp_path / "seen.json", FakeClock())
    with pytest.raises(LedgerDamaged, match=why):
        await later.look()
    await later.close()


@async_test
async def test_a_state_that_is_none_and_a_ledger_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "seen.json").write_text("{}")
    with pytest.raises(LedgerDamaged, match="no record of what was seen"):
        LedgerBeside(tmp_path / "ledger.db", tmp_path / "seen.json", FakeClock())
    ledger = LedgerBeside(tmp_path / "ledger.db", None, FakeClock())
    with pytest.raises(LedgerUnavailable):
        await ledger.look()
    world.written(tmp_path / "ledger.db", 0)
    await ledger.look()
    add(tmp_path / "ledger.db", 0, 2)
    await ledger.look()
    await ledger.close()
