"""docs/reference/settings.md: every setting of the programs that run, its default, Kubernetes' default, and why."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click

from kubevouch.cli.commands import contexts

FILE = Path(__file__).resolve().parents[1] / "docs" / "settings.toml"
PROGRAMS = ("up", "serve", "controllers", "agent", "sign")
_SAID = re.compile(r"\[default: +(.+?)\]")
_NOTHING = "none"


class SettingsError(Exception):
    """The file and the commands do not say the same."""


class Counterpart(NamedTuple):
    """A setting of a program of Kubernetes."""

    program: str
    default: str
    why: str = ""


class Setting(NamedTuple):
    """A flag, the commands that have it, and its default in each."""

    flag: str
    defaults: dict[str, str]

    @property
    def default(self) -> str:
        different = dict.fromkeys(self.defaults.values())
        if len(different) == 1:
            return next(iter(different))
        return "; ".join(f"{default} (`{command}`)" for command, default in self.defaults.items())


def counterparts() -> dict[str, Counterpart]:
    tree = tomllib.loads(FILE.read_text())
    found = {
        flag: Counterpart(program, default)
        for program, flags in tree.items()
        if program != "other"
        for flag, default in flags.items()
    }
    for each in tree["other"]:
        if each["flag"] in found:
            raise SettingsError(f"{each['flag']} is there twice")
        found[each["flag"]] = Counterpart(each["of"], each["kubernetes"], each["why"])
    return found


def settings() -> dict[str, Setting]:
    found: dict[str, Setting] = {}
    for ctx in contexts():
        command = ctx.command_path.partition(" ")[2]
        if command in PROGRAMS:
            for option in ctx.command.params:
                if isinstance(option, click.Option) and not option.hidden and option.name != "help":
                    flag = option.opts[0]
                    found.setdefault(flag, Setting(flag, {})).defaults[command] = default_of(option)
    return found


def default_of(option: click.Option) -> str:
    """As a person would write it."""
    if said := _SAID.search(" ".join((option.help or "").split())):
        return said[1]
    default = option.default
    if option.is_flag or isinstance(default, bool):
        return str(bool(default) if isinstance(default, bool) else False).lower()
    if isinstance(default, (tuple, list)):
        return ",".join(map(str, default)) or _NOTHING
    if isinstance(default, (str, int, float, Path)) and str(default):
        return f"{default:g}" if isinstance(default, float) else str(default)
    return _NOTHING


def page(made: str) -> str:
    """Raises SettingsError: a default differs from Kubernetes' for no reason that is given, or a flag is gone."""
    known, ours = counterparts(), settings()
    if gone := known.keys() - ours.keys():
        raise SettingsError(f"got {', '.join(sorted(gone))} in {FILE.name}, expected flags that there are")
    lines = [
        "# Settings",
        made,
        "Each flag of the programs that run, with its default, the default of Kubernetes' program that has it, and why",
        "ours is another. *None* is no value: nothing is read. [The commands](cli.md) say what each flag does.",
        "",
        "| setting | of | default | Kubernetes | its default | why |",
        "|---|---|---|---|---|---|",
        *_rows(known, ours),
    ]
    return "\n".join([*lines[:2], "", *lines[2:], ""])


def _rows(known: dict[str, Counterpart], ours: dict[str, Setting]) -> Iterator[str]:
    for flag, setting in sorted(ours.items(), key=lambda item: item[0].lstrip("-")):
        other = known.get(flag)
        if other is not None and not other.why and other.default not in setting.defaults.values():
            raise SettingsError(
                f"{flag}: got {setting.default}, expected {other.default} as in {other.program}, or a reason there"
            )
        theirs = ("–", "–", "") if other is None else (other.program, other.default, other.why)
        cells = (f"`{flag}`", ", ".join(setting.defaults), setting.default, *theirs)
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
