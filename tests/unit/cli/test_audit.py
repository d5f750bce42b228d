"""``kubevouch audit``: that the ledger is whole, and what is in it, shown to who has no ledger."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

import ledger_world as world
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.main import run
from kubevouch.ledger import keys, opening
from kubevouch.ledger.file import Encoded
from kubevouch.storage.sqlite.mark import mark_of

SIZE = 1100
SERIAL = world.entry(503).serial


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world.written(tmp_path_factory.mktemp("ledger") / "ledger.db", SIZE, checkpoint_at=(300, 1050))


@pytest.fixture
def ledger(whole: Path, tmp_path: Path) -> Path:
    return world.copied(whole, tmp_path / "ledger.db")


class Auditor:
    def __init__(self, ledger: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.ledger = ledger
        self._capsys = capsys
        self.errors = ""
        self.key = str(world.key_of(ledger))

    def __call__(self, *arguments: object, code: int = ExitCode.DONE, beside: bool = True) -> str:
        chosen = ("--ledger", self.ledger) if beside else ()
        assert run(["audit", *map(str, (*arguments, *chosen))]) == code, self._capsys.readouterr().err
        printed = self._capsys.readouterr()
        self.errors = printed.err
        return printed.out


@pytest.fixture
def audit(ledger: Path, capsys: pytest.CaptureFixture[str]) -> Auditor:
    return Auditor(ledger, capsys)


def test_a_whole_ledger(audit: Auditor) -> None:
    assert audit("verify") == f"whole: {SIZE} entries, 3 checkpoints\n"
    assert audit.errors == "a checkpoint kept elsewhere shows more: --checkpoint\n"
    tree = json.loads(audit("verify", "-o", "json"))
    assert tree == {
        "whole": True, "entries": SIZE, "checkpoints": 3, "findings": [], "key": audit.key,
        "keySource": str(keys.key_of(audit.ledger)),
    }  # fmt: skip


def test_what_was_lost_with_the_log_is_told_by_the_mark(audit: Auditor) -> None:
    with closing(opening.open_ledger(audit.ledger, world.NOW)) as file:
        whole = audit.ledger.read_bytes()
        file.append([Encoded.of(each) for each in map(world.entry, range(SIZE, SIZE + 6))], world.NOW)
    audit.ledger.write_bytes(whole)
    mark = mark_of(audit.ledger)
    finding = f"  mark: {SIZE + 6} entries were acknowledged, 6 are lost at the end\n"
    assert audit("verify", code=ExitCode.FAILED) == finding
    mark.write_bytes(b"?" * 1024)
    assert "cannot be read" in audit("verify", code=ExitCode.FAILED)
    mark.unlink()
    audit("verify")
    assert "no mark beside the file" in audit.errors


def test_an_entry_that_is_nested_deeply_is_a_finding(audit: Auditor) -> None:
    body = b'{"trace":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    world.change(audit.ledger, "UPDATE entry SET body = ? WHERE sequence = 500", values=(body,))
    assert "  entry 500: it cannot be read (" in audit("verify", code=ExitCode.FAILED)


def test_a_change_is_told_with_its_place(audit: Auditor) -> None:
    world.change(audit.ledger, "UPDATE entry SET body = CAST(replace(body, 'csr-167', 'csr-168') AS BLOB)")
    assert "  entry 501: it, or what stands before it, is not what was written\n" in audit(
        "verify", code=ExitCode.FAILED
    )
    assert "is not what was written: " in audit.errors
    tree = json.loads(audit("verify", "-o", "json", code=ExitCode.FAILED))
    assert tree["whole"] is False and tree["findings"][0].startswith("entry 501")


def test_who_has_only_the_file_is_told_whose_word_it_is(audit: Auditor, tmp_path: Path) -> None:
    keys.key_of(audit.ledger).unlink()
    audit("verify")
    assert "told by the file itself" in audit.errors
    file = tmp_path / "key"
    file.write_text(f"{audit.key}\n")
    for given in (audit.key, file):
        audit("verify", "--key", given)
        assert "told by the file itself" not in audit.errors


def test_a_checkpoint_that_was_kept_is_compared(audit: Auditor, tmp_path: Path) -> None:
    note = audit("checkpoint")
    assert audit.errors == f"its key is {audit.key}\n"
    assert json.loads(audit("checkpoint", "-o", "json")) == {"checkpoint": note, "key": audit.key}
    kept = tmp_path / "kept"
    # As kubectl -o jsonpath prints it: the last newline is gone.
    kept.write_text(note.rstrip("\n"))
    assert audit("verify", "--checkpoint", kept) == f"whole: {SIZE} entries, 4 checkpoints\n"
    assert audit.errors == ""
    kept.write_text(note.replace("\n1050\n", "\n1051\n"))
    audit("verify", "--checkpoint", kept, code=ExitCode.FAILED)
    assert "the signature of" in audit.errors
    kept.write_bytes(b"\xff")
    audit("verify", "--checkpoint", kept, code=ExitCode.FAILED)
    assert "no text" in audit.errors


def test_an_entry_is_proven_to_who_has_no_ledger(audit: Auditor, tmp_path: Path) -> None:
    proof = tmp_path / "a.tlog-proof"
    proof.write_text(audit("prove", SERIAL.upper()))
    assert audit("verify", "--proof", proof, "--key", audit.key, beside=False) == (
        f"proven: entry 503 of 1050: issued {SERIAL} system:node:n167\n"
    )
    tree = json.loads(audit("verify", "--proof", proof, "--key", audit.key, "-o", "json", beside=False))
    assert tree["whole"] is True
    audit("verify", "--proof", proof, beside=False, code=ExitCode.INVALID)
    assert "--proof needs --key" in audit.errors
    text = proof.read_text()
    lines = text.splitlines()
    for wrong in (
        text.replace("index 503", "index 504"),
        text.replace("index 503", "index 0503"),
        text.replace(lines[1], f"{lines[1][:-8]}AAAA{lines[1][-4:]}"),
        text.replace(lines[4], lines[3]),
        text.replace(lines[4] + "\n", ""),
        text.replace("\n1050\n", "\n1051\n"),
        text.replace("\n\n", "\n"),
        text.replace("tlog-proof@v1", "tlog-proof@v2"),
        text.replace("extra ", "extra !"),
        "",
    ):
        proof.write_text(wrong)
        audit("verify", "--proof", proof, "--key", audit.key, beside=False, code=ExitCode.FAILED)
        assert "proves nothing: " in audit.errors
    audit("prove", "abc", code=ExitCode.FAILED)
    assert "no certificate with the serial number abc is in" in audit.errors


def test_the_newest_entries_are_proven_by_the_head(audit: Auditor, tmp_path: Path) -> None:
    proof = tmp_path / "a.tlog-proof"
    proof.write_text(audit("prove", world.entry(1097).serial))
    assert "entry 1097 of 1100" in audit("verify", "--proof", proof, "--key", audit.key, beside=False)


def test_that_the_ledger_went_on_is_proven(audit: Auditor, tmp_path: Path, whole: Path) -> None:
    kept, proof = tmp_path / "kept", tmp_path / "proof"
    kept.write_text(audit("checkpoint"))
    proof.write_text(audit("prove", "--since", kept))
    asked = ("verify", "--proof", proof, "--key", audit.key)
    assert audit(*asked, "--checkpoint", kept, beside=False) == (
        "proven: the ledger of 1050 entries went on to 1100, and nothing in it was changed\n"
    )
    audit(*asked, beside=False, code=ExitCode.FAILED)
    assert "give this checkpoint with --checkpoint" in audit.errors
    text = proof.read_text()
    for wrong in (text.replace("old 1050", "old 1049"), text.replace(text.splitlines()[1], text.splitlines()[2])):
        proof.write_text(wrong)
        audit(*asked, "--checkpoint", kept, beside=False, code=ExitCode.FAILED)
        assert "proves nothing" in audit.errors
    younger = world.written(tmp_path / "young" / "ledger.db", 9)
    audit("prove", "--since", kept, "--ledger", younger, beside=False, code=ExitCode.FAILED)
    assert "has not signed" in audit.errors


@pytest.mark.parametrize("arguments", [(), (SERIAL, "--since", __file__)])
def test_one_thing_is_proven_at_a_time(audit: Auditor, arguments: tuple[str, ...]) -> None:
    audit("prove", *arguments, code=ExitCode.INVALID)
    assert "expected one of them" in audit.errors


@pytest.mark.parametrize("serial", ["nosuch", "", "0x", ":"])
def test_a_serial_number_has_hexadecimal_digits(audit: Auditor, serial: str) -> None:
    audit("prove", serial, code=ExitCode.INVALID)
    assert f"got {serial!r}, expected a serial number in hexadecimal digits" in audit.errors


def test_what_is_missing_is_told(audit: Auditor, tmp_path: Path) -> None:
    world.change(audit.ledger, "DELETE FROM checkpoint")
    audit("checkpoint", code=ExitCode.FAILED)
    assert "has no checkpoint yet" in audit.errors
    audit("verify", "--key", "a+b", code=ExitCode.FAILED)
    assert "expected the key of a ledger" in audit.errors
    audit("verify", "--ledger", tmp_path / "none", beside=False, code=ExitCode.INVALID)
    assert "there is no ledger at" in audit.errors
