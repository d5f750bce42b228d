"""The argument NODE: the name of a machine that is in the cluster, or was."""

from __future__ import annotations

import click


def _named(_ctx: click.Context, param: click.Parameter, value: str) -> str:
    from kubevouch.agent.interface import SettingsError
    from kubevouch.phases.join import verify_node_name

    try:
        return verify_node_name(value)
    except SettingsError as err:
        raise click.BadParameter(str(err), param=param) from err


node_argument = click.argument("node_name", metavar="NODE", callback=_named)
