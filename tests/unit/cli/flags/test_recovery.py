"""The flags of ``kubevouch up`` for nodes whose certificate has ended."""

from __future__ import annotations

import datetime as dt
from typing import Any

import click
from click.testing import CliRunner, Result

from kubevouch.cli.flags.recovery import recovery_flags, take_recovery
from kubevouch.records.node_recovery import RecoveryPolicy


def parsed(*arguments: str) -> tuple[Result, list[RecoveryPolicy | None]]:
    found: list[RecoveryPolicy | None] = []

    @click.command()
    @recovery_flags
    def command(**flags: Any) -> None:
        found.append(take_recovery(flags))
        assert flags == {}

    return CliRunner().invoke(command, arguments), found


def test_it_is_off_unless_it_is_turned_on() -> None:
    assert parsed()[1] == [None]
    assert parsed("--node-recovery-count=7")[1] == [None]


def test_the_defaults_are_those_of_the_policy() -> None:
    assert parsed("--node-recovery")[1] == [RecoveryPolicy()]


def test_all_flags() -> None:
    hours = dt.timedelta(hours=1)
    arguments = ("--node-recovery-count=7", "--node-recovery-window=24h", "--node-recovery-max-age=48h")
    assert parsed("--node-recovery", *arguments)[1] == [RecoveryPolicy(7, 24 * hours, 48 * hours)]


def test_what_cannot_be_meant() -> None:
    for argument in ("--node-recovery-count=0", "--node-recovery-window=0", "--node-recovery-max-age=0"):
        result, found = parsed("--node-recovery", argument)
        assert result.exit_code == 2 and found == [], argument
