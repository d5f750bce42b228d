"""``kubevouch recovery``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubevouch.cli import ui
from kubevouch.cli.cluster import connected, kubeconfig_option, rest_config_of
from kubevouch.cli.flags.node import node_argument
from kubevouch.cli.runner import run_async

if TYPE_CHECKING:
    import datetime as dt

    from kubevouch.client.https import HTTPSClient
    from kubevouch.client.rest_config import RESTConfig
    from kubevouch.records.node_recovery import Record


@click.group(cls=ui.Group)
def recovery() -> None:
    """Look at which nodes may come back after their certificate has ended, and decide about them."""


@recovery.command("list")
@ui.output_option
@kubeconfig_option
def list_(output: str, kubeconfig: Path | None) -> None:
    """List the nodes with a recovery key: how often they have used it, and who is locked, and why."""
    from kubevouch.util.clock import SystemClock

    found, troubles = run_async(_list(rest_config_of(kubeconfig)))
    for trouble in troubles:
        ui.warning(trouble)
    if output != "text":
        ui.document([_tree(each) for each in found], output)
    elif found:
        now = SystemClock().now()
        ui.lines(ui.table(("NODE", "KEY", "CHANGED", "USES", "LAST USE", "STATE"), [_row(each, now) for each in found]))
    else:
        ui.say("no node has registered a recovery key")


async def _list(config: RESTConfig) -> tuple[list[Record], list[str]]:
    from kubevouch.phases import node_recovery

    async with connected(config) as client:
        return await node_recovery.records(client)


def _row(record: Record, now: dt.datetime) -> tuple[str, ...]:
    from kubevouch.machinery.text.gotext import human_duration

    def ago(moment: dt.datetime) -> str:
        return f"{human_duration((now - moment).total_seconds())} ago"

    return (
        record.node,
        record.key[:16],
        ago(record.changed),
        str(len(record.uses)),
        ago(record.uses[-1]) if record.uses else "<never>",
        f"locked: {record.locked}" if record.locked else "ready",
    )


def _tree(record: Record) -> dict[str, Any]:
    from kubevouch.machinery.text.times import Time

    return {
        "node": record.node,
        "key": f"sha256:{record.key}",
        "changed": str(Time.of(record.changed)),
        "formerKeys": len(record.former),
        "uses": [str(Time.of(each)) for each in record.uses],
        "locked": record.locked,
        "lockedAt": "" if record.locked_at is None else str(Time.of(record.locked_at)),
    }


@recovery.command()
@node_argument
@kubeconfig_option
def allow(node_name: str, kubeconfig: Path | None) -> None:
    """Unlock NODE: the machine that holds the registered key may use it again.

    After an alarm, find out first which of the two machines that is.
    """
    from kubevouch.phases import node_recovery

    _run(kubeconfig, lambda client: node_recovery.allow(client, node_name))
    ui.say(f"node {node_name} may recover with its registered key")


@recovery.command()
@node_argument
@kubeconfig_option
def revoke(node_name: str, kubeconfig: Path | None) -> None:
    """Lock NODE: nobody gets a certificate for it with a recovery key.

    A certificate that has not ended is not touched by that.
    """
    from kubevouch.phases import node_recovery
    from kubevouch.util.clock import SystemClock

    _run(kubeconfig, lambda client: node_recovery.revoke(client, node_name, SystemClock()))
    ui.say(f"nobody recovers as node {node_name} until kubevouch recovery allow {node_name}")


@recovery.command()
@node_argument
@kubeconfig_option
def forget(node_name: str, kubeconfig: Path | None) -> None:
    """Forget the key of NODE, and its lock: the node's next request registers a key anew."""
    from kubevouch.phases import node_recovery

    _run(kubeconfig, lambda client: node_recovery.forget(client, node_name))
    ui.say(f"node {node_name} has no recovery key until its next request")


def _run(kubeconfig: Path | None, work: Callable[[HTTPSClient], Awaitable[object]]) -> None:
    async def whole() -> None:
        async with connected(rest_config_of(kubeconfig)) as client:
            await work(client)

    run_async(whole())
