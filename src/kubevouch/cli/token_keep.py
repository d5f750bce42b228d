"""``kubevouch token keep``."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubevouch.cli import names as names_of
from kubevouch.cli import ui
from kubevouch.cli.cluster import connected, kubeconfig_option, rest_config_of
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags.durations import DURATION
from kubevouch.cli.runner import run_async

if TYPE_CHECKING:
    from kubevouch.client.rest_config import RESTConfig
    from kubevouch.records.token_pools import TokenPool


@click.command()
@click.argument("text", metavar="TOKEN-OR-ID", shell_complete=names_of.tokens)
@click.option("--pool", default="", metavar="NAME", help="The pool whose machines are started with the token.")
@click.option(
    "--keeping",
    type=click.Choice(["until-nodes", "rotate", "renew"]),
    default="renew",
    show_default=True,
    help="Renew it until the pool has nodes that are ready; or rotate it once there are nodes; or renew it always.",
)
@click.option("--nodes", default="", metavar="LABELS", help="The labels of the pool's nodes, such as pool=web.")
@click.option("--ttl", type=DURATION, default="15m", show_default=True, help="Life of the token between two looks.")
@click.option("--end", is_flag=True, help="Keep the token no longer: it ends when its time has come.")
@kubeconfig_option
def keep(text: str, pool: str, keeping: str, nodes: str, ttl: dt.timedelta, end: bool, kubeconfig: Path | None) -> None:
    """Have a bootstrap token kept good, or followed by others, for a pool of machines.

    The token of a pool has the label bootstrap-token.kubevouch.io/pool. The token-rotation-controller keeps it.
    """
    from kubevouch.phases import bootstrap_token as phase
    from kubevouch.records import token_pools

    if end == bool(pool):
        raise ui.CLIError(
            "expected either --pool or --end", hint="kubevouch token keep abcdef --pool web", code=ExitCode.INVALID
        )
    try:
        token_id = phase.token_id_of(text)
        wanted = None if end else token_pools.parse(pool, keeping, nodes, ttl)
    except (phase.TokenPhaseError, token_pools.TokenPoolError) as err:
        raise ui.CLIError(str(err), code=ExitCode.INVALID) from err
    run_async(_keep(rest_config_of(kubeconfig), token_id, wanted))
    ui.say(f'bootstrap token "{token_id}" is kept no longer' if end else f'bootstrap token "{token_id}" is kept')


async def _keep(config: RESTConfig, token_id: str, pool: TokenPool | None) -> None:
    from kubevouch.phases import bootstrap_token as phase
    from kubevouch.phases import token_pools

    async with connected(config) as client:
        try:
            await token_pools.keep(client, token_id, pool)
        except phase.TokenPhaseError as err:
            raise ui.CLIError(str(err), hint=err.hint) from err
