"""cli/ui.py: what goes where, when it is coloured, and that text from elsewhere cannot drive the terminal."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import termios

import click
import pytest
import yaml

from kubevouch.cli import ui
from kubevouch.util.printable import is_plain, printed_width

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


def test_results_and_complaints_go_apart(capsys: Captured) -> None:
    ui.say("result")
    ui.field("kubeconfig", "a.conf")
    ui.step("key made", "P-256")
    ui.step("done")
    ui.step("beside a document", err=True)
    ui.waiting("for approval")
    ui.warning("careful")
    ui.error("it failed", "do this")
    ui.error("it failed")
    captured = capsys.readouterr()
    assert captured.out == "result\n  kubeconfig       a.conf\n  ✓ key made   P-256\n  ✓ done\n"
    aside = "  ✓ beside a document\n  … for approval\n"
    assert captured.err == f"{aside}warning: careful\nerror: it failed\nhint: do this\nerror: it failed\n"


@pytest.mark.parametrize(
    ("environment", "coloured"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": ""}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "0"}, False),
        ({"NO_COLOR": "1"}, False),
    ],
)
def test_colour_is_for_terminals_and_those_who_ask(
    environment: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    ui.error("x")
    assert ("\x1b[" in capsys.readouterr().err) is coloured


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        (" two\nlines\r\n and\ttabs ", "two lines and tabs"),
        ("ä ✓", "ä ✓"),
        ("", ""),
    ],
)
def test_one_line(text: str, shown: str) -> None:
    assert ui.one_line(text) == shown


def test_what_a_server_says_cannot_drive_the_terminal(capsys: Captured) -> None:
    ui.warning("a\x1b]0;title\x07b")
    ui.error("a\x1b[2Jb", "c\x1b[2Jd")
    ui.waiting("w\x9b")
    ui.aside("two\nlines")
    assert capsys.readouterr().err == (
        "warning: a\\x1b]0;title\\x07b\nerror: a\\x1b[2Jb\nhint: c\\x1b[2Jd\n  … w\\x9b\ntwo\\nlines\n"
    )


def test_a_result_cannot_either(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    ui.say("a\nb", ui.styled("\x1b[31m", fg="red"), "[red]")
    ui.field("l\r", "v\u202e")
    ui.lines(["\udc80"])
    red, dim, end = "\x1b[31m", "\x1b[2m", "\x1b[0m"
    assert capsys.readouterr().out == (
        f"a\\nb{red}\\x1b[31m{end}[red]\n  {dim}{'l' + chr(92) + 'r':<15}{end}   v\\u202e\n\\udc80\n"
    )


def test_columns_are_three_apart_and_end_without_blanks() -> None:
    assert ui.table(["NAME", "AGE"], [["a", "5m"], ["longer", ""]]) == ["NAME     AGE", "a        5m", "longer"]
    assert ui.table(["NAME"], []) == ["NAME"]


def test_a_cell_is_escaped_before_it_is_measured_and_has_a_limit() -> None:
    assert ui.table(["A", "B"], [["\x1b\n", "x"]]) == ["A        B", r"\x1b\n   x"]
    assert ui.table(["A", "B"], [["n" * 253, "x"]])[1] == f"{'n' * 253}   x"
    # One long cell does not widen the others' column, and nothing of it is lost.
    wide = ui.table(["A", "B"], [["n" * 1_000_000, "x"], ["\x1b" * 200, "x"], ["", "x"]])
    assert [len(line) for line in wide] == [260, 1_000_004, 804, 260]
    assert wide[1] == "n" * 1_000_000 + "   x"


NAMES = [
    "node-csr-rBl_XGhoRkUMKElUOIUD5IF42ZVLpLQosWjdL1x_OSE",
    "system:bootstrap:edh3jq",
    "Approved",
    "字" * 40,
    "\x1b" * 9,
]


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
def test_no_line_is_wider_than_the_terminal(columns: int) -> None:
    header = ("NAME", "REQUESTED BY", "STATE", "ASKS FOR", "AGE", "MARKS")
    rows = [[*NAMES, "5m"], [*reversed(NAMES), "5m"], ["a", "b", "c", "d", "e", "f"]]
    for line in ui.table(header, rows, columns=columns):
        assert printed_width(line) <= columns
    assert max(map(printed_width, ui.table(header, rows, columns=80))) > 75  # and the room is used


def test_the_widest_cells_are_cut_in_the_middle_first() -> None:
    header, rows = ("NAME", "STATE", "AGE"), [["0123456789abcdefghij", "Issued", "5m"]]
    assert ui.table(header, rows, columns=26)[1] == "01234…fghij   Issued   5m"
    assert ui.table(header, rows, columns=32)[1] == "01234567…cdefghij   Issued   5m"
    assert ui.table(header, rows, columns=35)[1] == "0123456789abcdefghij   Issued   5m"
    assert ui.table(header, rows, columns=0)[1] == "0123456789abcdefghij   Issued   5m"
    # What is there to be copied gives way last; then nothing is saved at any price.
    tall = [["abcdef.0123456789abcdef", "signing,authentication", "22h"]]
    assert ui.table(header, tall, whole=1, columns=40)[1] == "abcdef.0123456789abcdef   sign…ion   22h"
    assert ui.table(header, tall, whole=1, columns=20)[1] == "abc…ef   si…on   22h"
    assert ui.table(header, tall, columns=3)[1] == "…   …   …"


def test_only_a_terminal_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command as a person and as a script runs it: on a terminal of 60 columns, and into a pipe."""
    code = "from kubevouch.cli import ui; ui.lines(ui.table(('NAME',), [['n' * 100], ['m']]))"
    outer, inner = os.openpty()
    termios.tcsetwinsize(inner, (24, 60))
    environment = {**os.environ, "COLUMNS": ""}
    try:
        subprocess.run([sys.executable, "-c", code], stdout=inner, env=environment, check=True)
        assert os.read(outer, 4096).decode().splitlines() == ["NAME", f"{'n' * 30}…{'n' * 29}", "m"]
    finally:
        os.close(outer)
        os.close(inner)
    piped = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment, check=True)
    assert piped.stdout.decode().splitlines() == ["NAME", "n" * 100, "m"]


def test_documents_for_scripts(capsys: Captured) -> None:
    tree = {"a": [1, "x"], "b": None}
    ui.document(tree, "json")
    assert json.loads(capsys.readouterr().out) == tree
    ui.document(tree, "yaml")
    assert yaml.safe_load(capsys.readouterr().out) == tree


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_a_document_means_what_it_meant_and_shows_nothing_else(form: str, capsys: Captured) -> None:
    tree = {"a\x1b": ["\x9b31m", "\u202e\u200b", "tag\U000e0041", "two\nlines\x07", "\x7f", "ä"]}
    ui.document(tree, form)
    out = capsys.readouterr().out
    assert (json.loads if form == "json" else yaml.safe_load)(out) == tree
    assert is_plain(out.replace("\n", ""))
    ui.document(["ä"], "yaml")
    assert capsys.readouterr().out == "- ä\n"


def test_a_group_lists_its_commands_with_their_whole_first_paragraph() -> None:
    @click.group(cls=ui.Group)
    def group() -> None:
        """A group."""

    @group.command()
    def first() -> None:
        """Do what takes so many words that they do not fit into one line of a terminal, none of which is cut off.

        More of it.
        """

    @group.command(hidden=True)
    def second() -> None:
        """Nothing."""

    commands = group.get_help(click.Context(group)).partition("Commands:")[2]
    assert " ".join(commands.split()) == f"first {re.sub(' +', ' ', first.help or '').split(chr(10))[0]}"
