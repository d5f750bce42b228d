"""The one voice in which every command speaks.

Results go to standard output; steps of a long run, warnings and errors go to standard error unless a command's result
*is* its steps. Colour only on a terminal or with ``FORCE_COLOR``, and never with ``NO_COLOR`` (https://no-color.org,
https://force-color.org).
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import IO, Any, NamedTuple, TypeVar

import click

from kubevouch.cli.exit_codes import ExitCode
from kubevouch.util.printable import escaped, is_plain, json_escaped, printed_width, shortened

_LABEL_WIDTH = 14
# More than any name that Kubernetes takes (253); user names and subjects have no such limit.
_CELL_WIDTH = 256
_GAP = "   "
F = TypeVar("F", bound=Callable[..., Any])
_NARROWEST = 20  # columns in which words are worth wrapping


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
    texts = list(texts)
    shown = texts if is_plain("".join(texts)) else map(escaped, texts)
    click.echo("".join(f"{text}\n" for text in shown), nl=False, color=True)


def field(label: str, value: str) -> None:
    """One ``label   value`` line of a summary."""
    say("  ", styled(f"{label:<{_LABEL_WIDTH}}", dim=True), f"   {value}")


def prose(label: str, value: str, columns: int | None = None) -> None:
    """As :func:`field`; on a terminal too narrow for it the value goes on below itself. Not for what is copied."""
    first, *rest = wrapped(value, _LABEL_WIDTH + 5, columns)
    field(label, first)
    for line in rest:
        say(" " * (_LABEL_WIDTH + 5), line)


def wrapped(text: str, indent: int, columns: int | None = None) -> list[str]:
    """Lines of whole words behind ``indent`` columns; at least one. ``columns`` as in :func:`table`."""
    room = (_terminal_columns() if columns is None else columns) - indent
    if room < _NARROWEST:
        return [text]
    shown = escaped(text)
    # A name is broken only where it has no line that holds it.
    broken = any(len(word) > room for word in shown.split())
    return textwrap.wrap(shown, room, break_on_hyphens=broken) or [""]


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


def shows_progress() -> bool:
    """Whether standard error is a terminal on which a line can be taken back."""
    return sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"


_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


def progress(turn: int, text: str) -> None:
    """A line that stays until :func:`no_progress`; only where :func:`shows_progress`."""
    sys.stderr.write(f"\r\x1b[K  {_FRAMES[turn % len(_FRAMES)]} {escaped(text)}")
    sys.stderr.flush()


def no_progress() -> None:
    """Takes the line away, so that another can be printed."""
    sys.stderr.write("\r\x1b[K")
    sys.stderr.flush()


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


def table(
    header: Sequence[str], rows: Iterable[Sequence[str]], *, whole: int = 0, columns: int | None = None
) -> list[str]:
    """Columns three spaces apart, as kubectl prints them; a line for each row.

    A cell is escaped before it is measured. On a terminal no line is wider than it: the widest cells are cut in the
    middle, where a name says least. Into a file or a pipe nothing is cut, but a cell of more than 256 characters stands
    out of its column instead of widening it in every row.

    Args:
        whole: how many columns on the left are cut last, because they are there to be copied.
        columns: the width of the terminal, 0 for none; by default that of standard output.
    """
    room = _terminal_columns() if columns is None else columns
    cells = [tuple(header), *(tuple(row) for row in rows)]
    # At once, as a rule: there may be tens of thousands of rows.
    plain = _is_plain_ascii("".join(map("".join, cells)))
    if not plain:
        cells = [tuple(map(escaped, line)) for line in cells]
    measure = len if plain else printed_width
    widths = [min(max(map(measure, column)), _CELL_WIDTH) for column in zip(*cells, strict=True)]
    if room:
        widths = _fitted(widths, room - len(_GAP) * (len(widths) - 1), whole)
        cells = [tuple(map(shortened, line, widths)) for line in cells]
        plain = False
    if plain:
        form = _GAP.join(f"{{:<{width}}}" for width in widths)
        return [form.format(*line).rstrip() for line in cells]
    return [_GAP.join(map(_padded, line, widths)).rstrip() for line in cells]


def _is_plain_ascii(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _padded(cell: str, width: int) -> str:
    return cell + " " * (width - printed_width(cell))


def _terminal_columns() -> int:
    """How wide standard output is; 0 if it is no terminal, or one that does not know."""
    return shutil.get_terminal_size((0, 0)).columns if sys.stdout.isatty() else 0


def _fitted(widths: Sequence[int], room: int, whole: int) -> list[int]:
    """``widths`` with the largest lowered to one limit, so that they fit into ``room``; at least one each."""
    kept = sum(widths[:whole])
    if whole and room - kept >= len(widths) - whole:
        return [*widths[:whole], *_fitted(widths[whole:], room - kept, 0)]
    fitted, left = list(widths), room
    # From the narrowest on: what is narrower than its share leaves the rest to the others.
    for number, at in enumerate(sorted(range(len(widths)), key=widths.__getitem__)):
        fitted[at] = max(min(widths[at], left // (len(widths) - number)), 1)
        left -= fitted[at]
    return fitted


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


def facts_option(*keys: str) -> Callable[[F], F]:
    """:data:`output_option` for a command with few results: its help, and so the reference, names the document's keys.

    The keys are stable; a document may get more of them.
    """
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["text", "json", "yaml"]),
        default="text",
        show_default=True,
        help=f"Format; a document has the keys {', '.join(keys)}.",
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


def octets(content: bytes) -> None:
    """A result that is no text, as it is. Raises CLIError: a terminal would obey it."""
    if sys.stdout.isatty():
        raise CLIError("got a terminal, expected a file or a pipe for bytes", code=ExitCode.INVALID)
    sys.stdout.buffer.write(content)
