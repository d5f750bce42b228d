"""Renders a terminal session into an SVG for the README: the same input gives the same bytes.

    svg_terminal.py --title "a node joins" < session.txt > docs/join.svg

The text may hold ANSI colours. A line that starts with "$ " is a command somebody typed and is set off from its output.
"""

import argparse
import io
import re
import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

PROMPT = "$ "

# Readers' own fixed-width fonts instead of rich's: a picture in a README must not load anything from elsewhere.
FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"

# Contrast of at least 4.5 to 1 between every colour but black and the background (WCAG 2.2, 1.4.3).
THEME = TerminalTheme(
    background=(22, 27, 34),
    foreground=(230, 237, 243),
    normal=[
        (72, 79, 88),
        (255, 123, 114),
        (63, 185, 80),
        (210, 153, 34),
        (88, 166, 255),
        (188, 140, 255),
        (57, 197, 207),
        (177, 186, 196),
    ],
    bright=[
        (139, 148, 158),
        (255, 161, 152),
        (86, 211, 100),
        (227, 179, 65),
        (121, 192, 255),
        (210, 168, 255),
        (86, 212, 221),
        (255, 255, 255),
    ],
)


class Exchange(NamedTuple):
    """One command of a session, as typed after `prompt`, and what it printed."""

    prompt: str
    command: str
    output: str


def session(exchanges: Iterable[Exchange]) -> Text:
    """The exchanges as one text, prompts dimmed and commands bold."""
    lines = Text()
    for prompt, command, output in exchanges:
        if command:
            lines.append(prompt, style="bright_black").append(f"{command}\n", style="bold")
        if output:
            lines.append(Text.from_ansi(output.rstrip("\n"))).append("\n")
    return lines


def parse(recording: str) -> list[Exchange]:
    """Splits plain text at its prompts. What comes before the first one belongs to no command."""
    exchanges: list[Exchange] = []
    for line in recording.splitlines(keepends=True):
        if line.startswith(PROMPT):
            exchanges.append(Exchange(PROMPT, line.removeprefix(PROMPT).rstrip("\n"), ""))
        else:
            before = exchanges.pop() if exchanges else Exchange("", "", "")
            exchanges.append(before._replace(output=before.output + line))
    return exchanges


def render(text: Text, *, title: str, width: int | None = None) -> str:
    """The SVG; `width` is in columns, and without it the longest line decides."""
    text.rstrip()
    columns = width or max((line.cell_len for line in text.split("\n")), default=1)
    # A fixed environment: the caller's terminal, COLUMNS and NO_COLOR do not reach the picture.
    console = Console(
        record=True, file=io.StringIO(), width=columns, force_terminal=True, color_system="truecolor", _environ={}
    )
    console.print(text, soft_wrap=width is None)
    svg = console.export_svg(title=title, theme=THEME)
    return re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL).replace("Fira Code, monospace", FONTS)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="render a terminal session, read from standard input, into an SVG")
    parser.add_argument("--title", required=True, help="shown in the window's title bar")
    parser.add_argument("--width", type=int, help="columns; longer lines wrap (default: as wide as the longest line)")
    options = parser.parse_args(arguments)
    sys.stdout.write(render(session(parse(sys.stdin.read())), title=options.title, width=options.width))
    return 0


if __name__ == "__main__":
    sys.exit(main())
