"""The one voice in which every command speaks.

Results go to standard output; steps of a long run, warnings and errors go to standard error unless a command's result
*is* its steps. Colour only on a terminal or with ``FORCE_COLOR``, and never with ``NO_COLOR`` (https://no-color.org,
https://force-color.org).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import IO, Any, NamedTuple

import click

from kubevouch.cli.exit_codes import ExitCode
from kubevouch.util.printable import escaped, is_plain, json_escaped

_LABEL_WIDTH = 14
# More than any name that Kubernetes takes (253); user names and subjects have no such limit.
_CELL_WIDTH = 256


class CLIError(Exception):
    """Ends the command with one ``error:`` line; ``hint`` says what to do, on a second line."""

    def __init__(self, message: str, *, hint: str = "", code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.hint = hint
        self.code = code


def _colour(stream: IO[Any]) -> bool:
    # The convention leaves an empty value without meaning.
    if os.environ.get("NO_COLOR"):
        return False
    return "FORCE_COLOR" in os.environ or (stream.isatty() and os.environ.get("TERM") != "dumb")


class Styled(NamedTuple):
    """A piece of a line with click's style; see :func:`styled`."""

    text: str
    style: dict[str, Any]


Part = str | Styled


def styled(text: str, **style: Any) -> Styled:
    """``text`` with click's style, where what it is printed to shows colours."""
    return Styled(text, style)


def _line(parts: Sequence[Part], *, err: bool = False) -> None:
    """One line. Whatever is printed passes here, and what came from a cluster, a file or a person with it: a style is
    beside its text and never in it, so that no character of a text is one for the terminal.
    """
    stream = sys.stderr if err else sys.stdout
    coloured = _colour(stream)
    shown = [
        escaped(part)
        if isinstance(part, str)
        else click.style(escaped(part.text), **part.style)
        if coloured
        else escaped(part.text)
        for part in parts
    ]
    click.echo("".join(shown), err=err, color=True)


def say(*parts: Part) -> None:
    """A line of the result."""
    _line(parts)


def lines(texts: Iterable[str]) -> None:
    """Lines of the result, such as those of a :func:`table`, in one write."""
    click.echo("".join(f"{escaped(text)}\n" for text in texts), nl=False, color=True)


def field(label: str, value: str) -> None:
    """One ``label   value`` line of a summary."""
    say("  ", styled(f"{label:<{_LABEL_WIDTH}}", dim=True), f"   {value}")


def step(done: str, detail: str = "", *, err: bool = False) -> None:
    """A step that is done, as it is done. ``err``: to standard error, where the result is a document."""
    tail: list[Part] = ["   ", styled(one_line(detail), dim=True)] if detail else []
    _line(["  ", styled("✓", fg="green"), f" {done}", *tail], err=err)


def aside(text: str) -> None:
    """A line to standard error that is no result and no complaint."""
    _line([text], err=True)


def waiting(text: str) -> None:
    """What a long run is waiting for, to standard error."""
    _line(["  ", styled("…", dim=True), f" {one_line(text)}"], err=True)


def warning(text: str) -> None:
    _line([styled("warning:", fg="yellow"), f" {one_line(text)}"], err=True)


def error(text: str, hint: str = "") -> None:
    _line([styled("error:", fg="red", bold=True), f" {one_line(text)}"], err=True)
    if hint:
        _line([f"hint: {one_line(hint)}"], err=True)


def confirmed(question: str) -> bool:
    """Asks; no, if nobody is there to answer."""
    try:
        return click.confirm(question, default=False, err=True)
    except click.Abort:  # nobody is there to answer
        aside("")
        return False


def one_line(text: str) -> str:
    """A text of several lines as one; it is escaped when it is printed."""
    return " ".join(text.split())


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Columns three spaces apart, as kubectl prints them; a line for each row.

    A cell is escaped before it is measured, and cut off: one long name would widen the column in every row.
    """
    cells = [list(header), *([_cell(text) for text in row] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(header))]
    return ["   ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]


def _cell(text: str) -> str:
    shown = escaped(text[:_CELL_WIDTH])
    return shown if len(shown) <= _CELL_WIDTH and len(text) <= _CELL_WIDTH else f"{shown[: _CELL_WIDTH - 1]}…"


class Group(click.Group):
    """A group that lists its commands with their whole first sentence; click cuts it off at the end of the line."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = []
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                rows.append((name, " ".join((command.help or "").split("\n\n")[0].split())))
        with formatter.section("Commands"):
            formatter.write_dl(rows)


output_option = click.option(
    "-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True, help="Format."
)


def document(tree: Any, output: str) -> None:
    """A result for scripts: ``output`` is ``json`` or ``yaml``."""
    import json

    raw(json.dumps(tree, indent=2) + "\n" if output == "json" else yaml_text(tree))


def yaml_text(tree: Any) -> str:
    """``tree`` as YAML. The same as kubectl's, unless a text in it would drive the terminal."""
    from kubevouch.machinery.codec import yamltext

    text = yamltext.dumps(tree)
    return text if is_plain(text.replace("\n", "")) else yamltext.dumps(tree, ascii_only=True)


def raw(text: str) -> None:
    """A document or a script as it stands. What JSON leaves as it is and a terminal obeys becomes a JSON escape."""
    sys.stdout.write(json_escaped(text))
