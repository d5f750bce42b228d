"""What commands say that revoke something, and are not seen to have stopped anybody."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kubevouch.cli import ui
from kubevouch.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from kubevouch.phases.revocation_enforcement import InForce


IN_FORCE_KEYS = ("name", "status", "reason", "message")
"""Of what a document says of one revocation."""


def show_enforcement(told: Sequence[InForce]) -> None:
    """What a server that is not ours has answered; of ours there is nothing to ask."""
    for each in told:
        if not each.by_own_server:
            ui.say(f"    {ui.one_line(each.message)}")
            ui.say(f"    status of the object: {each.written}")


def verify_in_force(told: Sequence[InForce]) -> None:
    """Raises CLIError where something is stored, and not seen to be enforced."""
    for each in told:
        if not each.is_true:
            raise ui.CLIError(
                f"{each.name} is stored, and not in force ({each.reason}): its certificates may still be used",
                hint="kubevouch revoke webhook-config makes a kube-apiserver ask before each request; kubevouch revoke"
                f" show {each.name} asks again",
                code=ExitCode.NOT_ENFORCED,
            )
