"""The one voice in which every command speaks.

Results go to standard output; steps of a long run, warnings and errors go to standard error unless a command's result
*is* its steps. Colour only on a terminal or with ``FORCE_COLOR``, and never with ``NO_COLOR`` (https://no-color.org,
https://force-color.org).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import IO, Any

import click

from kubevouch.cli.exit_codes import ExitCode

_LABEL_WIDTH = 14


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


def styled(text: str, stream: IO[Any] | None = None, **style: Any) -> str:
    """``text`` with click's style where ``stream`` (standard output) shows colours."""
    return click.style(text, **style) if _colour(stream or sys.stdout) else text


def say(text: str = "") -> None:
    """A line of the result."""
    click.echo(text, color=True)


def field(label: str, value: str) -> None:
    """One ``label   value`` line of a summary."""
    say(f"  {styled(f'{label:<{_LABEL_WIDTH}}', dim=True)}   {value}")


def step(done: str, detail: str = "", *, err: bool = False) -> None:
    """A step that is done, as it is done. ``err``: to standard error, where the result is a document."""
    stream = sys.stderr if err else sys.stdout
    tail = f"   {styled(detail, stream, dim=True)}" if detail else ""
    click.echo(f"  {styled('✓', stream, fg='green')} {done}{tail}", err=err, color=True)


def waiting(text: str) -> None:
    """What a long run is waiting for, to standard error."""
    click.echo(f"  {styled('…', sys.stderr, dim=True)} {text}", err=True, color=True)


def warning(text: str) -> None:
    click.echo(f"{styled('warning:', sys.stderr, fg='yellow')} {one_line(text)}", err=True, color=True)


def error(text: str, hint: str = "") -> None:
    click.echo(f"{styled('error:', sys.stderr, fg='red', bold=True)} {one_line(text)}", err=True, color=True)
    if hint:
        click.echo(f"hint: {one_line(hint)}", err=True)


def one_line(text: str) -> str:
    """Text from elsewhere on one line, without control characters that could drive the terminal."""
    joined = " ".join(text.split())
    return "".join(char if char.isprintable() else "�" for char in joined)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns three spaces apart, as kubectl prints them."""
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "   ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


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

    from kubevouch.machinery import yamltext

    sys.stdout.write(json.dumps(tree, indent=2) + "\n" if output == "json" else yamltext.dumps(tree))
