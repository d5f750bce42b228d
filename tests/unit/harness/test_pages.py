"""The pages of the manual: links lead somewhere, commands are what the program takes, and none is left out."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import peers
from kubevouch.cli.commands import contexts
from kubevouch.cli.main import cli

DOCS = peers.ROOT / "docs"
PAGES = sorted([*peers.ROOT.glob("*.md"), *DOCS.rglob("*.md")])
HOW_TOS = [DOCS / "tutorial.md", *sorted((DOCS / "howto").glob("*.md")), *sorted((DOCS / "attestation").rglob("*.md"))]
# Shows how commands are used in general.
TYPED = [page for page in PAGES if page != DOCS / "reference" / "cli.md"]

_CODE = re.compile(r"^(?P<fence>`{3,}).*?^(?P=fence)$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_COMMAND = re.compile(
    r"^(?:\$ )?(?:[A-Z_]+=\S+ )*(?:kubevouch|kubectl vouch)(?: |$)|(?<=[<$]\()kubevouch(?= )|(?<=\| )kubevouch(?= )"
)


def title(page: Path) -> str:
    return str(page.relative_to(peers.ROOT))


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found: dict[str, int] = {}
    for heading in re.findall(r"^#{1,6} +(.+?) *$", _CODE.sub("", text), re.MULTILINE):
        plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        found[slug] = found.get(slug, -1) + 1
    return {slug if number == 0 else f"{slug}-{number}" for slug, last in found.items() for number in range(last + 1)}


def links(text: str) -> list[str]:
    prose = re.sub(r"`[^`\n]*`", "", _CODE.sub("", text))
    return [match["target"] for match in _LINK.finditer(prose)]


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in links(page.read_text()):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        other = (page.parent / path).resolve() if path else page
        assert other.exists(), target
        assert other.is_relative_to(peers.ROOT), target
        if anchor:
            assert anchor in anchors(other.read_text()), target


def test_every_page_is_in_the_index() -> None:
    listed = {(DOCS / target.partition("#")[0]).resolve() for target in links((DOCS / "README.md").read_text())}
    decisions = set((DOCS / "adr").glob("0*.md"))
    assert set(DOCS.rglob("*.md")) - decisions - {DOCS / "README.md"} <= listed
    assert "docs/README.md" in links((peers.ROOT / "README.md").read_text())
    assert decisions == {DOCS / "adr" / target for target in links((DOCS / "adr" / "README.md").read_text())}


def test_every_page_of_the_index_is_in_the_sidebar() -> None:
    contents = runpy.run_path(str(DOCS / "conf.py"))["contents"]
    listed = [page for _, page in contents((DOCS / "README.md").read_text())]
    decisions = set((DOCS / "adr").glob("0*.md"))
    assert {DOCS / f"{page}.md" for page in listed} == set(DOCS.rglob("*.md")) - decisions - {DOCS / "README.md"}
    assert len(listed) == len(set(listed))
    of_adrs = contents((DOCS / "adr" / "README.md").read_text())
    assert {DOCS / "adr" / f"{page}.md" for _, page in of_adrs} == decisions


def test_an_item_says_under_which_heading_a_page_is() -> None:
    contents = runpy.run_path(str(DOCS / "conf.py"))["contents"]
    index = "[a](a.md), [b](b.md#c)\n\n## One\n\n- [c](x/c.md)\n- [b](b.md), [no](../d.md), [no](https://e/f.md)\n"
    assert contents(index) == [("", "a"), ("One", "x/c"), ("One", "b")]


def test_the_manual_is_in_what_is_installed(tmp_path: Path) -> None:
    """Messages lead to its pages, on machines that may reach no other."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path], cwd=peers.ROOT, check=True,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path)
    code = "from kubevouch.doctor.findings import Code; print(Code.CLOCK_OFF.found('x').docs)"
    docs = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)}, check=True,
        stdout=subprocess.PIPE, text=True,
    ).stdout.strip()  # fmt: skip
    page, _, anchor = docs.partition("#")
    assert Path(page).is_relative_to(tmp_path)
    assert anchor in anchors(Path(page).read_text())


# ------------------------------------------------------------------ commands


def leaves() -> Iterator[tuple[str, ...]]:
    """Every command that does something, as it is typed."""
    for ctx in contexts():
        words = ctx.command_path.split()[1:]
        if words and (not isinstance(ctx.command, click.Group) or ctx.command.invoke_without_command):
            yield tuple(words)


@pytest.mark.parametrize("words", sorted(leaves()), ids=" ".join)
def test_every_command_is_in_the_tutorial_or_a_how_to(words: tuple[str, ...]) -> None:
    wanted = re.compile(rf"\bkubevouch {re.escape(' '.join(words))}(?![\w-])")
    assert any(wanted.search(page.read_text()) for page in HOW_TOS)


def code_lines(text: str) -> list[str]:
    """The lines of a page's code blocks, fenced or indented; a line that goes on is one."""
    lines: list[str] = []
    fence = ""
    goes_on = False
    for line in text.splitlines():
        opening = re.match(r"\s*(`{3,})", line)
        if opening and (not fence or opening[1] == fence):
            fence = "" if fence else opening[1]
            continue
        if not fence and not line.startswith("    "):
            goes_on = False
            continue
        if goes_on:
            lines[-1] += " " + line.strip()
        else:
            lines.append(line.strip())
        goes_on = line.endswith("\\")
        lines[-1] = lines[-1].removesuffix("\\")
    return lines


def commands(text: str) -> list[list[str]]:
    """The arguments of every kubevouch that is typed in a page's code blocks."""
    found = []
    for line in code_lines(text):
        for match in _COMMAND.finditer(line):
            lexer = shlex.shlex(line[match.end() :], posix=True, punctuation_chars="();<>|&")
            lexer.whitespace_split, lexer.commenters = True, "#"
            words: list[str] = []
            for word in lexer:
                if word and word[0] in "();<>|&":
                    break
                words.append(word)
            found.append(words)
    return found


def check(arguments: list[str]) -> None:
    """Raises click.UsageError for what the program would not take. Of values only choices are looked at.

    A bare ``…`` stands for any arguments.
    """
    ctx = click.Context(cli, info_name="kubevouch")
    rest = list(arguments)
    while isinstance(ctx.command, click.Group):
        options, rest, _ = ctx.command.make_parser(ctx).parse_args(rest)
        if not rest:
            if "help" not in options and "version" not in options and not ctx.command.invoke_without_command:
                raise click.UsageError("a command is missing")
            return
        name, command, rest = ctx.command.resolve_command(ctx, rest)
        assert command is not None  # resolve_command raises
        ctx = click.Context(command, info_name=name, parent=ctx)
    options, left, _ = ctx.command.make_parser(ctx).parse_args(rest)
    if left and any(each != "…" for each in left):
        raise click.UsageError(f"got unexpected arguments {left}")
    for parameter in ctx.command.params:
        value = options.get(str(parameter.name))
        given = [value] if isinstance(value, str) else value if isinstance(value, list | tuple) else []
        if parameter.required and not given and "…" not in rest:
            raise click.MissingParameter(ctx=ctx, param=parameter)
        if isinstance(parameter.type, click.Choice) and isinstance(value, str):
            parameter.type.convert(value, parameter, ctx)


@pytest.mark.parametrize("page", [page for page in TYPED if commands(page.read_text())], ids=title)
def test_every_command_line_is_one_that_the_program_takes(page: Path) -> None:
    for arguments in commands(page.read_text()):
        try:
            check(arguments)
        except click.UsageError as err:
            pytest.fail(f"kubevouch {shlex.join(arguments)}: {err.format_message()}", pytrace=False)


@pytest.mark.parametrize(
    "line",
    [
        "$ kubevouch tokens list", "kubevouch token create --tll 1h", "kubevouch token show", "kubevouch csr",
        "source <(kubevouch completion ksh)", "kubevouch csr list one two   # a comment", "kubevouch token list -o x",
        "kubevouch ca rotate start \\\n        --accept",
    ],
)  # fmt: skip
def test_a_wrong_line_is_found(line: str) -> None:
    (arguments,) = commands(f"A page\n\n    {line}\n")
    with pytest.raises(click.UsageError):
        check(arguments)


def test_a_dead_link_is_found() -> None:
    text = "# One `two`: three\n\n[a](b.md#c), `[no](link)`\n\n```\n# no heading [no](link)\n```\n\n## One\n\n## One\n"
    assert links(text) == ["b.md#c"]
    assert anchors(text) == {"one-two-three", "one", "one-1"}
