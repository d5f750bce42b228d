"""``kubevouch node``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubevouch.cli import node_identity, ui
from kubevouch.cli.cluster import connected, kubeconfig_option, rest_config_of
from kubevouch.cli.enforced import IN_FORCE_KEYS, show_enforcement, verify_in_force
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags.node import node_argument
from kubevouch.cli.runner import run_async

if TYPE_CHECKING:
    from kubevouch.client.rest_config import RESTConfig
    from kubevouch.phases.node_removal import Removed
    from kubevouch.phases.revocation_enforcement import InForce
    from kubevouch.revocation.node_records import NodeRecord


@click.group(cls=ui.Group)
def node() -> None:
    """Take machines out of service, and say whose a node's name is."""


for _command in node_identity.COMMANDS:
    node.add_command(_command)


@node.command()
@node_argument
@click.option("--why", default="", help="What others are told; in the record and in the server's log.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@ui.facts_option("node", "lockedUntil", "nodeDeleted", "rejoin", *(f"inForce[].{each}" for each in IN_FORCE_KEYS))
@kubeconfig_option
def remove(node_name: str, why: str, yes: bool, output: str, kubeconfig: Path | None) -> None:
    """Delete the Node of NODE and lock its certificates out: an API server of kubevouch answers them with 401 at once.

    A kube-apiserver is asked whether it refuses them; where it does not, the exit code is 7. The machine comes back
    with a token for that very name, or after kubevouch node lift.
    """
    config = rest_config_of(kubeconfig)
    question = f"Lock node {node_name} out of {config.options.server} and delete its Node?"
    if not yes and not ui.confirmed(question):
        raise ui.CLIError("aborted; nothing was changed", hint="--yes does not ask")
    done, told = run_async(_remove(config, node_name, why))
    rejoin = f"kubevouch token create --node-name {node_name} --print-join-command"
    if output != "text":
        from kubevouch.machinery.text.times import Time

        tree = {"node": node_name, "lockedUntil": str(Time.of(done.until)), "nodeDeleted": done.node_deleted}
        ui.document(tree | {"rejoin": rejoin, "inForce": [each.tree() for each in told]}, output)
        verify_in_force(told)
        return
    if all(each.is_true for each in told):
        ui.step(f"certificates of node {node_name} locked out", f"until {done.until:%Y-%m-%d}")
    else:
        ui.say("  ", ui.styled("✗", fg="red"), f" stored, and not in force   lock-out of node {node_name}")
    show_enforcement(told)
    ui.step("Node deleted" if done.node_deleted else "there was no Node")
    ui.say(f"  it joins again with: {rejoin}")
    verify_in_force(told)


async def _remove(config: RESTConfig, node_name: str, why: str) -> tuple[Removed, list[InForce]]:
    from kubevouch.phases import node_removal
    from kubevouch.phases.revocation_enforcement import of_node
    from kubevouch.util.clock import SystemClock

    async with connected(config) as client:
        try:
            done = await node_removal.remove(client, node_name, why)
            return done, await of_node(client, node_name, SystemClock())
        except node_removal.NodeRemovalError as err:
            raise ui.CLIError(str(err), hint=err.hint) from err


@node.command()
@node_argument
@kubeconfig_option
def lift(node_name: str, kubeconfig: Path | None) -> None:
    """Let the certificates of NODE count again; its name is free for whoever has a token."""
    run_async(_lift(rest_config_of(kubeconfig), node_name))
    ui.say(f"node {node_name} is no longer locked out")


async def _lift(config: RESTConfig, node_name: str) -> None:
    from kubevouch.phases import node_removal
    from kubevouch.util.clock import SystemClock

    async with connected(config) as client:
        try:
            await node_removal.lift(client, node_name, SystemClock())
        except node_removal.NodeRemovalError as err:
            raise ui.CLIError(str(err), hint=err.hint, code=ExitCode.FAILED) from err


@node.command()
@ui.output_option
@kubeconfig_option
def lockouts(output: str, kubeconfig: Path | None) -> None:
    """List the nodes whose certificates are locked out: since when, until when, and why."""
    found = run_async(_lockouts(rest_config_of(kubeconfig)))
    if output != "text":
        ui.document([_tree(name, record) for name, record in found.items()], output)
    elif found:
        rows = [(*_tree(name, record).values(),) for name, record in found.items()]
        ui.lines(ui.table(("NODE", "SINCE", "UNTIL", "WHY"), rows))
    else:
        ui.say("no node is locked out")


async def _lockouts(config: RESTConfig) -> dict[str, NodeRecord]:
    from kubevouch.phases import node_removal
    from kubevouch.util.clock import SystemClock

    async with connected(config) as client:
        return await node_removal.lockouts(client, SystemClock())


def _tree(name: str, record: NodeRecord) -> dict[str, Any]:
    from kubevouch.machinery.text.times import Time

    def text(moment: Any) -> str:
        return "" if moment is None else str(Time.of(moment))

    return {"node": name, "since": text(record.locked), "until": text(record.until), "why": record.why}
