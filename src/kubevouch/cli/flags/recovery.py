"""The flags of ``kubevouch up`` for nodes whose certificate has ended."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import click

from kubevouch.cli.flags import together
from kubevouch.cli.flags.durations import DURATION

if TYPE_CHECKING:
    from kubevouch.records.node_recovery import RecoveryPolicy

_FLAGS = (
    click.option(
        "--node-recovery",
        is_flag=True,
        help="Let a node whose certificate has ended get another one with its recovery key.",
    ),
    click.option(
        "--node-recovery-count",
        type=click.IntRange(1, 1000),
        default=3,
        show_default=True,
        help="How often a node may do so within the window.",
    ),
    click.option("--node-recovery-window", type=DURATION, default="720h", show_default=True, help="The window."),
    click.option(
        "--node-recovery-max-age",
        type=DURATION,
        default="9600h",
        show_default=True,
        help="For how long its certificate may have ended.",
    ),
)


recovery_flags = together(*_FLAGS)


def take_recovery(flags: dict[str, Any]) -> RecoveryPolicy | None:
    """What the flags allow, None for nothing; takes them out of ``flags``. Raises ``click.UsageError``."""
    from kubevouch.records.node_recovery import RecoveryPolicy

    allowed = flags.pop("node_recovery")
    policy = RecoveryPolicy(
        flags.pop("node_recovery_count"), flags.pop("node_recovery_window"), flags.pop("node_recovery_max_age")
    )
    if min(policy.window, policy.max_age) <= dt.timedelta():
        raise click.UsageError("got a duration of zero for node recovery, expected more")
    return policy if allowed else None
