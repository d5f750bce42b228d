"""What messages, hints and help point to is there: pages of the manual, commands and their flags."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click

import peers
from kubevouch.cli.commands import contexts
from kubevouch.cli.main import cli
from kubevouch.doctor.findings import PAGE, Code
from kubevouch.util.manual import manual_folder
from unit.harness.test_pages import anchors

SOURCE = peers.ROOT / "src" / "kubevouch"
# The first words of what is ours; Kubernetes' and cel-spec's files are pages too.
_PAGE = re.compile(r"(?:docs/)?(?:adr|howto|reference)/[\w/.-]+\.md(?:#[\w-]+)?|docs/[\w-]+\.md(?:#[\w-]+)?")
_COMMAND = re.compile(r"kubevouch (?=[a-z])([^;,.()`'\"\n]+)")


def texts(source: str) -> Iterator[str]:
    """Every text of a module; what is filled in later is an X."""
    tree = ast.parse(source)
    inside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside.update(id(part) for part in node.values)
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.value


def dead_pages(text: str) -> list[str]:
    """The pages named in ``text`` that are not in the manual, or have no such chapter."""
    dead = []
    for found in _PAGE.findall(text):
        path, _, anchor = found.removeprefix("docs/").partition("#")
        page = peers.ROOT / "docs" / path
        if not page.is_file() or (anchor and anchor not in anchors(page.read_text())):
            dead.append(found)
    return dead


def wrong_commands(text: str) -> list[str]:
    """What ``text`` names as a command of ours that has no such flag."""
    wrong = []
    for line in _COMMAND.findall(text):
        command: click.Command = cli
        ctx = click.Context(cli)
        words = line.split()
        if words[:2] in (["join", "status"], ["join", "phase"]):
            words[:2] = [f"join-{words[1]}"]
        while isinstance(command, click.Group) and words and (found := command.get_command(ctx, words[0])) is not None:
            command, words = found, words[1:]
        if command is cli:
            continue  # a sentence about kubevouch
        known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)} | {"--help"}
        wrong += [line for word in words if word.startswith("--") and word.partition("=")[0] not in known]
    return wrong


def test_what_a_module_names_is_there() -> None:
    sources = {str(path.relative_to(SOURCE)): path.read_text() for path in SOURCE.rglob("*.py")}
    dead = {name: dead_pages(source) for name, source in sources.items()}
    assert {name: pages for name, pages in dead.items() if pages} == {}
    wrong = {
        name: [each for text in texts(source) for each in wrong_commands(text)] for name, source in sources.items()
    }
    assert {name: lines for name, lines in wrong.items() if lines} == {}


def test_what_help_names_is_there() -> None:
    for ctx in contexts():
        options = [each.help or "" for each in ctx.command.params if isinstance(each, click.Option)]
        for text in (ctx.command.help or "", *options):
            # A person without a checkout has no docs/ and no howto/: pages are shown by `manual_folder()`.
            assert not _PAGE.search(text), ctx.command_path
            assert wrong_commands(text) == [], ctx.command_path


def test_every_finding_leads_to_its_chapter() -> None:
    chapters = anchors((manual_folder() / PAGE).read_text())
    for code in Code:
        page, _, anchor = code.found("seen").docs.partition("#")
        assert Path(page) == manual_folder() / PAGE
        assert anchor in chapters


def test_units_lead_to_the_manual() -> None:
    for unit in (peers.ROOT / "deploy").rglob("*"):
        assert not unit.is_file() or dead_pages(unit.read_text()) == [], unit


def test_what_leads_nowhere_is_found() -> None:
    assert dead_pages("see howto/nowhere.md, docs/install.md#nowhere and docs/howto/tokens.md#who-came") == [
        "howto/nowhere.md", "docs/install.md#nowhere",
    ]  # fmt: skip
    assert wrong_commands("try kubevouch token create --uzes 3; kubevouch up --no-token, or kubevouch says so") == [
        "token create --uzes 3"
    ]
    assert list(texts('a = f"kubevouch token {b} --c"')) == ["kubevouch token X --c"]
