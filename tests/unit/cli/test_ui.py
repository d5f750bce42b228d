"""cli/ui.py: what goes where, when it is coloured, and that text from elsewhere cannot drive the terminal."""

from __future__ import annotations

import json
import re

import click
import pytest
import yaml

from kubevouch.cli import ui
from kubevouch.util.printable import is_plain

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
    wide = ui.table(["A", "B"], [["n" * 1_000_000, "x"], ["\x1b" * 200, "x"], ["", "x"]])
    assert {len(line) for line in wide} == {260}
    assert wide[1].endswith("n…   x")


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
