"""ledger/verification.py: whatever is changed, taken out, swapped, cut or written anew is found, and where."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import ledger_world as world
from kubevouch.ledger import chain, checkpoints, entries, keys, opening, proofs, reading, schema, terms
from kubevouch.ledger.checkpoints import HEAD, checkpoint_of
from kubevouch.ledger.interface import LedgerDamaged
from kubevouch.ledger.proofs import Frontier
from kubevouch.ledger.verification import MOST_FINDINGS

SIZE = 1100
"""A full segment, and some that are in none."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world.written(tmp_path_factory.mktemp("whole") / "ledger.db", SIZE, checkpoint_at=(300, 1050))


@pytest.fixture
def ledger(whole: Path, tmp_path: Path) -> Path:
    return world.copied(whole, tmp_path / "ledger.db")


def test_a_whole_ledger_has_no_findings(whole: Path) -> None:
    report = world.verified(whole)
    assert report.findings == [] and report.size == SIZE
    assert report.checkpoints == 3


@pytest.mark.parametrize("sequence", [0, 1, 500, 1023, 1024, SIZE - 1])
@pytest.mark.parametrize("column", ["kind", "at", "not_after", "link", "terms", "body"])
def test_a_changed_entry_is_found_where_it_is(ledger: Path, column: str, sequence: int) -> None:
    if column == "not_after" and sequence % 3 != 2:
        sequence = sequence // 3 * 3 + 2 if sequence < SIZE - 1 else sequence - 2
    with closing(sqlite3.connect(ledger)) as connection, connection:
        value = connection.execute(f"SELECT {column} FROM entry WHERE sequence = ?", (sequence,)).fetchone()[0]
        if isinstance(value, bytes):
            value = value[:-1] + bytes([value[-1] ^ 1])
        else:
            value = "denied" if isinstance(value, str) else value + 1
        connection.execute(f"UPDATE entry SET {column} = ? WHERE sequence = ?", (value, sequence))
    findings = world.verified(ledger).findings
    assert findings and findings[0].startswith(f"entry {sequence}:")


@pytest.mark.parametrize(
    ("statement", "finding"),
    [
        ("DELETE FROM entry WHERE sequence = 0", "entry 0: is missing"),
        ("DELETE FROM entry WHERE sequence = 500", "entry 500: is missing"),
        ("DELETE FROM entry WHERE sequence BETWEEN 500 AND 502", "entries 500 to 502: are missing"),
        (f"DELETE FROM entry WHERE sequence = {SIZE - 1}", f"entry {SIZE - 1}: is missing; the head"),
        ("DELETE FROM entry WHERE sequence >= 1060", "entries 1060 to 1099: are missing; the head"),
        ("DELETE FROM entry", "entries 0 to 299: are missing; the checkpoint of 2026-01-01T00:05:00Z is about 300"),
        (
            "UPDATE entry SET body = (SELECT body FROM entry WHERE sequence = 701) WHERE sequence = 700",
            "entry 700: it, or what stands before it, is not what was written",
        ),
        (
            "UPDATE entry SET sequence = CASE sequence WHEN 700 THEN -1 ELSE 700 END WHERE sequence IN (700, 9000)",
            "entries 0 to -2: are missing",
        ),
        (
            "INSERT INTO entry SELECT 1100, kind, at, not_after, link, terms, body FROM entry WHERE sequence = 3",
            "entry 1100:",
        ),
        ("UPDATE node SET hash = zeroblob(32) WHERE level = 9 AND position = 1", "tree node 9/1"),
        ("DELETE FROM node WHERE level = 8 AND position = 0", "tree node 8/0"),
        ("INSERT INTO node VALUES (12, 0, zeroblob(32))", "tree: it has nodes of no entries"),
        ("UPDATE segment SET kinds = 'issued'", "index of entries 0 to 1023: it has other times"),
        ("UPDATE segment SET first_end = first_end + 1", "index of entries 0 to 1023: it has other times"),
        ("DELETE FROM segment", "index of entries 0 to 1023: it has other times"),
        ("DELETE FROM posting WHERE bucket = 7", "index of entries 0 to 1023: it does not lead"),
        ("UPDATE posting SET places = substr(places, 11)", "index of entries 0 to 1023: it does not lead"),
        ("INSERT INTO posting VALUES (7, 1, x'00')", "index: it has entries behind 1099"),
        ("DELETE FROM checkpoint WHERE size = 300", "head: it is not about the 1 checkpoints that are there"),
        ("UPDATE checkpoint SET note = replace(note, 'checkpoint', 'checkpoynt')", "head: it is not about the 2"),
        ("UPDATE checkpoint SET size = 301 WHERE size = 300", "checkpoint 301: it is one of"),
        ("UPDATE meta SET value = value || ' ' WHERE name = 'head'", "head: got text that is no signed note"),
        ("DELETE FROM meta WHERE name = 'head'", "head: got text that is no signed note"),
        ("UPDATE meta SET value = value || '0' WHERE name = 'origin'", "head: this is no head of this ledger"),
    ],
)  # fmt: skip
def test_what_is_taken_out_swapped_or_put_in_is_found(ledger: Path, statement: str, finding: str) -> None:
    world.change(ledger, statement)
    findings = world.verified(ledger).findings
    assert any(each.startswith(finding) for each in findings), findings


def test_two_entries_that_change_places_are_found(ledger: Path) -> None:
    for mine, other in ((700, -1), (701, 700), (-1, 701)):
        world.change(ledger, f"UPDATE entry SET sequence = {other} WHERE sequence = {mine}")
    assert world.verified(ledger).findings[0].startswith("entry 700:")


def rewritten(
    ledger: Path, key: Ed25519PrivateKey | None, change: Callable[[int, bytes], bytes], size: int = SIZE
) -> None:
    """As one does who knows the form: every hash is made anew, and signed with ``key`` if one has it."""
    with closing(sqlite3.connect(ledger, isolation_level=None)) as connection:
        origin = reading.meta(connection, schema.ORIGIN, ledger)
        rows = connection.execute("SELECT sequence, body FROM entry ORDER BY sequence").fetchall()
        connection.execute("DELETE FROM node")
        connection.execute("DELETE FROM entry WHERE sequence >= ?", (size,))
        link, frontier = chain.beginning(origin), Frontier()
        for sequence, body in rows[:size]:
            body = change(sequence, body)
            leaf = proofs.leaf_hash(body)
            link = chain.link(link, leaf)
            entry = entries.decode(body)
            connection.execute(
                "UPDATE entry SET kind = ?, at = ?, not_after = ?, link = ?, terms = ?, body = ? WHERE sequence = ?",
                (*reading.columns_of(entry), link, terms.packed(entries.terms_of(entry)), body, sequence),
            )
            for node, made in frontier.append(leaf):
                if node[0] >= schema.NODE_LEVEL:
                    connection.execute("INSERT INTO node VALUES (?, ?, ?)", (*node, made))
        if key is not None:
            notes = [note for (note,) in connection.execute("SELECT note FROM checkpoint ORDER BY size")]
            head = checkpoint_of(origin, size, frontier.root(), HEAD, world.NOW, checkpoints.summary(notes))
            connection.execute(
                "UPDATE meta SET value = ? WHERE name = 'head'", (checkpoints.sign(head.text(), origin, key),)
            )


def another_digest(sequence: int, body: bytes) -> bytes:
    """What no index tells of."""
    return body.replace(b'"digest":"', b'"digest":"0') if sequence == 700 else body


def test_a_ledger_that_was_written_anew_without_the_key_is_found(ledger: Path) -> None:
    rewritten(ledger, None, another_digest)
    findings = world.verified(ledger).findings
    assert findings == [
        "entries 300 to 1049: some are not those of the checkpoint of 2026-01-01T00:17:30Z, which is about 1050",
        "entries 300 to 1099: some are not those of the head, which is about 1100",
    ]


def test_who_has_the_key_is_found_by_the_checkpoints(ledger: Path) -> None:
    rewritten(ledger, keys.read_key(ledger), another_digest)
    assert world.verified(ledger).findings == [
        "entries 300 to 1049: some are not those of the checkpoint of 2026-01-01T00:17:30Z, which is about 1050"
    ]


def test_another_key_in_the_file_is_found_by_who_knows_the_key(ledger: Path) -> None:
    known, another = world.key_of(ledger), Ed25519PrivateKey.from_private_bytes(bytes(32))
    world.change(ledger, "DELETE FROM checkpoint")
    rewritten(ledger, another, another_digest)
    theirs = str(checkpoints.verifier_key(known.name, another))
    world.change(ledger, "UPDATE meta SET value = ? WHERE name = 'key'", values=(theirs,))
    assert world.verified(ledger).findings == [], "nothing in the file tells"
    findings = world.verified(ledger, known).findings
    assert [each.partition(":")[0] for each in findings] == ["key", "head"]


def test_a_ledger_that_was_cut_back_is_found_by_a_checkpoint_elsewhere(ledger: Path, tmp_path: Path) -> None:
    """An older copy is whole in itself."""
    key = world.key_of(ledger)
    with closing(opening.connect_to_read(ledger)) as connection:
        note = reading.one(connection, "SELECT note FROM checkpoint WHERE size = 1050")
        kept = checkpoints.verified(note, key)
        head = reading.meta(connection, schema.HEAD, ledger)
    rewritten(ledger, keys.read_key(ledger), lambda _, body: body, size=1024)
    world.change(ledger, "DELETE FROM checkpoint WHERE size = 1050")
    rewritten(ledger, keys.read_key(ledger), lambda _, body: body, size=1024)
    assert world.verified(ledger).findings == []
    (finding,) = world.verified(ledger, key, (kept,)).findings
    assert finding.startswith("entries 1024 to 1049: are missing; the checkpoint of 2026-01-01T00:17:30Z that was kept")
    # Nor does a checkpoint that was published pass for the head of a ledger that was cut back to it.
    world.change(ledger, "UPDATE meta SET value = ? WHERE name = 'head'", values=(note,))
    assert "head: this is no head of this ledger" in world.verified(ledger, key).findings
    assert head != note


def test_any_octet_that_is_flipped_is_found(tmp_path: Path) -> None:
    """Of a file, in every page: unless SQLite has nothing there."""
    whole = world.written(tmp_path / "ledger.db", 40, checkpoint_at=(20,))
    key, original = world.key_of(whole), whole.read_bytes()
    rows = list(world.contents(whole))
    unused = 0
    for at in range(100, len(original), 199):
        changed = bytearray(original)
        changed[at] ^= 0x10
        whole.write_bytes(changed)
        if found_by(whole, key):
            continue
        assert list(world.contents(whole)) == rows, f"octet {at}"
        unused += 1
    assert unused < len(original) // 199


def found_by(path: Path, key: checkpoints.VerifierKey) -> bool:
    try:
        return bool(world.verified(path, key).findings)
    except LedgerDamaged:
        return True


def test_findings_end(ledger: Path) -> None:
    world.change(ledger, "UPDATE entry SET link = zeroblob(32)")
    findings = world.verified(ledger).findings
    assert len(findings) == MOST_FINDINGS + 1 and findings[-1] == "and more"
