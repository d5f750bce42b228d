"""``kubevouch join status``: on the cluster's side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubevouch.cli import names, ui
from kubevouch.cli.cluster import connected, kubeconfig_option, rest_config_of
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.runner import run_async

if TYPE_CHECKING:
    from kubevouch.client.rest_config import RESTConfig
    from kubevouch.reviews.join_status import JoinStatus


@click.command("join-status")
@click.argument("name", shell_complete=names.nodes)
@kubeconfig_option
@ui.output_option
def join_status(name: str, kubeconfig: Path | None, output: str) -> int:
    """Say how far the machine NAME has come on its way into the cluster, and why not further.

    With the operator's kubeconfig. The exit code is 1 when it takes somebody's hand to go on.
    """
    found = run_async(_look(rest_config_of(kubeconfig), name))
    if output != "text":
        ui.document(found.tree(), output)
    else:
        _print(found)
    return ExitCode.FAILED if found.stuck else ExitCode.DONE


async def _look(config: RESTConfig, name: str) -> JoinStatus:
    from kubevouch.reviews import join_status as phase
    from kubevouch.util.clock import SystemClock

    async with connected(config) as client:
        return await phase.look(client, name.strip().lower(), now=SystemClock().now())


def _print(found: JoinStatus) -> None:
    from kubevouch.reviews.join_status import Progress

    steps = [each for each in Progress if each is not Progress.NOTHING]
    reached = 0 if found.progress is Progress.NOTHING else steps.index(found.progress) + 1
    for each in steps[:reached]:
        ui.step(each.value)
    if found.stuck:
        ui.say("  ", ui.styled("✗", fg="red"), f" {ui.one_line(found.reason)}")
    else:
        ui.say(f"  {ui.one_line(found.reason)}")
    if found.request:
        ui.field("request", f"{found.request} of {found.requester}")
    if found.token:
        ui.field("token", found.token)
