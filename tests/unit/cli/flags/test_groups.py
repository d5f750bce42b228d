"""cli/flags/groups.py: the flags of up, those that matter first."""

from __future__ import annotations

import click
import pytest

from kubevouch.cli.flags.groups import REST, UpCommand
from kubevouch.cli.main import run
from kubevouch.cli.up import up

FLAGS = {max(each.opts, key=len) for each in up.params}


def test_ten_come_first_and_every_flag_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["up", "--help"]) == 0
    shown = capsys.readouterr().out
    flags = [line.split()[0].rstrip(",") for line in shown.splitlines() if line.startswith("  -")]
    assert flags[:10] == list(UpCommand.groups[0].flags)
    # Those with a short name begin with it.
    assert set(flags) >= FLAGS - {"--v"} and len(flags) == len(set(flags))
    assert shown.index("What matters first:") < shown.index("Audit:") < shown.index(f"{REST}:")


def test_no_group_names_a_flag_that_there_is_not() -> None:
    for group in UpCommand.groups:
        for name in group.flags:
            known = name in FLAGS or (name.endswith("-") and any(flag.startswith(name) for flag in FLAGS))
            assert known, f"{group.title}: {name}"


def test_what_no_group_takes_is_little() -> None:
    ctx = click.Context(up)
    rest = [name for each in up.get_params(ctx) if not any(g.takes(name := max(each.opts, key=len)) for g in up.groups)]
    assert len(rest) <= 12, "give the groups of up their share of these"
