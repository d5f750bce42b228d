"""cli/ui.py: what goes where, when it is coloured, and that text from elsewhere cannot drive the terminal."""

from __future__ import annotations

import json
import re

import click
import pytest
import yaml

from kubevouch.cli import ui

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
        ("\x1b[31mred\x07", "�[31mred�"),
        ("right\u202eleft", "right�left"),
        ("ä ✓", "ä ✓"),
        ("", ""),
    ],
)
def test_one_line(text: str, shown: str) -> None:
    assert ui.one_line(text) == shown


def test_what_a_server_says_cannot_drive_the_terminal(capsys: Captured) -> None:
    ui.warning("a\x1b]0;title\x07b")
    ui.error("a\x1b[2Jb", "c\x1b[2Jd")
    assert "\x1b" not in capsys.readouterr().err


def test_columns_are_three_apart_and_end_without_blanks() -> None:
    assert ui.table(["NAME", "AGE"], [["a", "5m"], ["longer", ""]]) == "NAME     AGE\na        5m\nlonger"
    assert ui.table(["NAME"], []) == "NAME"


def test_documents_for_scripts(capsys: Captured) -> None:
    tree = {"a": [1, "x"], "b": None}
    ui.document(tree, "json")
    assert json.loads(capsys.readouterr().out) == tree
    ui.document(tree, "yaml")
    assert yaml.safe_load(capsys.readouterr().out) == tree


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
