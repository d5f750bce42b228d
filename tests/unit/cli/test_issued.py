"""``kubevouch issued``: what is in the ledger, for people and for programs."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

import ledger_world as world
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.issued import KINDS
from kubevouch.cli.main import run
from kubevouch.ledger import entries
from kubevouch.ledger.entries import DISCARDED, ISSUED, REVOKED, Entry
from kubevouch.ledger.file import Encoded
from kubevouch.ledger.opening import open_ledger
from kubevouch.util.clock import SystemClock

NOW = SystemClock().now()
DAY = dt.timedelta(days=1)


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world.written(tmp_path_factory.mktemp("ledger") / "ledger.db", 1800)


def written(path: Path, *made: Entry) -> Path:
    with closing(open_ledger(path, world.NOW)) as file:
        file.append([Encoded.of(each) for each in made], world.NOW)
    return path


class Terminal:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.errors = ""

    def __call__(self, *arguments: object, code: int = ExitCode.DONE) -> str:
        assert run([str(each) for each in arguments]) == code
        printed = self._capsys.readouterr()
        self.errors = printed.err
        return printed.out

    def tree(self, *arguments: object) -> Any:
        return json.loads(self(*arguments, "-o", "json"))


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(capsys)


def test_a_list_is_of_certificates_the_newest_first(ledger: Path, say: Terminal) -> None:
    printed = say("issued", "list", "--ledger", ledger, "--limit", 2).splitlines()
    assert printed[0].split() == ["SERIAL", "SUBJECT", "SIGNER", "REQUESTER", "ISSUED", "ENDS"]
    assert [line.split()[1] for line in printed[1:]] == ["system:node:n599", "system:node:n598"]
    assert say.errors == "there are more: --before 1796\n"
    further = say("issued", "list", "--data-dir", ledger.parent, "--limit", 1, "--before", 1796)
    assert further.splitlines()[1].split()[1] == "system:node:n597"


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        ((), 100), (("--limit", "1000"), 600), (("--node", "n7"), 1), (("--name", "N7.example.com"), 1),
        (("--name", "N7.example.com", "--kind", "all"), 1), (("--node", "n7", "--kind", "all"), 3),
        (("--node", "n7", "--kind", "approved", "--kind", "intended"), 2), (("--requester", "nobody"), 0),
        (("--token", "abcdef", "--limit", "7"), 7), (("--signer", "example.com/s", "--request", "csr-9"), 1),
        (("--serial", world.entry(23).serial.upper()), 1), (("--key", world.entry(23).key), 1),
        (("--since", "2026-01-01T00:29:00Z"), 20), (("--until", "2026-01-01T00:00:03Z"), 1), (("--since", "1h"), 0),
    ],
)  # fmt: skip
def test_what_is_asked_for_is_found(ledger: Path, say: Terminal, filters: tuple[str, ...], count: int) -> None:
    tree = say.tree("issued", "list", "--ledger", ledger, *filters)
    assert len(tree["entries"]) == count
    assert tree["more"] is (not filters or filters[-1] == "7")


def test_colons_in_a_serial_number_do_not_matter(tmp_path: Path, say: Terminal) -> None:
    made = Entry(kind=ISSUED, at=NOW, serial="a0b", subject="x", not_after=NOW + DAY)
    path = written(tmp_path / "ledger.db", made)
    for text in ("a0b", "0A:0B", "00:0a:0b", "0xA0B"):
        assert say.tree("issued", "show", text, "--ledger", path)["standing"] == "valid"


def test_all_that_is_known_of_a_certificate(ledger: Path, say: Terminal) -> None:
    serial = world.entry(23).serial
    printed = say("issued", "show", serial, "--ledger", ledger)
    assert printed.splitlines()[0] == f"{serial} is valid" or printed.splitlines()[0] == f"{serial} is expired"
    labels = [line.split()[0] for line in printed.splitlines()[1:] if line]
    assert [each for each in labels if each in world.KINDS] == ["approved", "intended", "issued"]
    tree = say.tree("issued", "show", serial, "--ledger", ledger)
    assert [each["sequence"] for each in tree["entries"]] == [21, 22, 23]
    say("issued", "show", "abc", "--ledger", ledger, code=ExitCode.FAILED)
    assert "no certificate with the serial number abc is in" in say.errors


@pytest.mark.parametrize(
    ("kind", "ends", "standing"),
    [(ISSUED, DAY, "valid"), (ISSUED, -DAY, "expired"), (REVOKED, DAY, "revoked"), (DISCARDED, DAY, "discarded")],
)
def test_how_a_certificate_stands(tmp_path: Path, say: Terminal, kind: str, ends: dt.timedelta, standing: str) -> None:
    issued = Entry(kind=ISSUED, at=NOW, serial="ab", not_after=NOW + ends)
    path = written(tmp_path / "ledger.db", issued, msgspec.structs.replace(issued, kind=kind))
    assert say.tree("issued", "show", "ab", "--ledger", path)["standing"] == standing


def test_who_has_renewed_is_not_about_to_end(tmp_path: Path, say: Terminal) -> None:
    def issued(subject: str, days: int, *names: str, signer: str = "s") -> Entry:
        return Entry(kind=ISSUED, at=NOW, serial=f"{days:x}", subject=subject, signer=signer, names=names,
                     not_after=NOW + days * DAY)  # fmt: skip

    path = written(
        tmp_path / "ledger.db",
        issued("renewed", 3), issued("renewed", 90), issued("renewed", 400),
        issued("alone", 5), issued("alone", -5),
        issued("other signer", 2), issued("other signer", 90, signer="t"),
        issued("fewer names", 4, "a", "b"), issued("fewer names", 91, "a"),
        issued("later", 31),
        issued("", 6), issued("", 92),
    )  # fmt: skip
    tree = say.tree("issued", "expiring", "--ledger", path)
    assert [each.get("subject", "") for each in tree["entries"]] == ["other signer", "fewer names", "alone", ""]
    assert len(say.tree("issued", "expiring", "--within", "400d", "--ledger", path)["entries"]) == 9
    assert say("issued", "expiring", "--within", "1h", "--ledger", path) == "none\n"


def test_an_export_is_for_programs(ledger: Path, say: Terminal) -> None:
    lines = [json.loads(line) for line in say("issued", "export", "--ledger", ledger).splitlines()]
    assert [each["sequence"] for each in lines] == list(range(2, 1800, 3))
    assert lines[7]["serial"] == world.entry(23).serial and lines[7]["notAfter"].endswith("Z")
    more = say("issued", "export", "--ledger", ledger, "--after", 1700, "--kind", "all", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(more)))
    assert len(rows) == 99 and rows[-1]["sequence"] == "1799" and rows[-1]["names"] == "N599.example.com"


def test_every_kind_that_is_written_can_be_asked_for() -> None:
    kinds = {
        value for name, value in vars(entries).items() if name.isupper() and name[0] != "_" and isinstance(value, str)
    }
    assert {*kinds, "all"} == {*KINDS}


@pytest.mark.parametrize("arguments", [("show", "zz"), ("list", "--serial", "zz"), ("list", "--key", "zz")])
def test_what_is_looked_for_has_hexadecimal_digits(ledger: Path, say: Terminal, arguments: tuple[str, ...]) -> None:
    say("issued", *arguments, "--ledger", ledger, code=ExitCode.INVALID)
    assert "got 'zz', expected " in say.errors and "in hexadecimal digits" in say.errors


def test_an_export_of_a_kind_that_there_is_not(ledger: Path, say: Terminal) -> None:
    assert say("issued", "export", "--ledger", ledger, "--kind", "bogus", code=ExitCode.INVALID) == ""
    assert "'bogus' is not one of 'approved'" in say.errors


def test_without_a_ledger_in_the_usual_place_the_hint_names_the_flags(
    tmp_path: Path, say: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubevouch.standalone.options.default_data_dir", lambda: tmp_path)
    say("issued", "list", code=ExitCode.INVALID)
    assert f"error: there is no ledger at {tmp_path / 'ledger.db'}" in say.errors
    assert "--data-dir DIR" in say.errors and "--ledger FILE" in say.errors


@pytest.mark.parametrize("name", ['=HYPERLINK("x")', "+1", "-1", "@x"])
def test_no_name_is_a_formula_to_a_spreadsheet(tmp_path: Path, say: Terminal, name: str) -> None:
    path = written(tmp_path / "ledger.db", Entry(kind=ISSUED, at=NOW, subject=name, serial="a"))
    (row,) = csv.DictReader(io.StringIO(say("issued", "list", "--ledger", path, "-o", "csv")))
    assert row["subject"] == f"'{name}"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--data-dir", "/nonexistent"), ExitCode.INVALID, "there is no ledger at /nonexistent/ledger.db"),
        (("--ledger", "/"), ExitCode.INVALID, "is a directory"),
        (("--kind", "bogus", "--ledger", __file__), ExitCode.INVALID, "'bogus' is not one of 'approved', 'denied'"),
        (("--data-dir", "/", "--ledger", "/x"), ExitCode.INVALID, "got --ledger and --data-dir, expected one of them"),
        (("--ledger", __file__), ExitCode.FAILED, "that does not begin as SQLite's do"),
        (("--limit", "0"), ExitCode.INVALID, "--limit"),
        (("--since", "yesterday"), ExitCode.INVALID, "expected a time such as 30d"),
        (("--since", "2026-13-01"), ExitCode.INVALID, "expected a time such as 30d"),
        (("--since", "999999d", "--ledger", __file__), ExitCode.INVALID, "before the first year"),
    ],
)
def test_what_cannot_be_meant_is_told(say: Terminal, arguments: tuple[str, ...], code: ExitCode, message: str) -> None:
    assert say("issued", "list", *arguments, code=code) == ""
    assert message in say.errors and "Traceback" not in say.errors
