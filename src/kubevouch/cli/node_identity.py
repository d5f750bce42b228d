"""``kubevouch node``, about machines that have proven what they are: the operator's word on whose a name is."""

from __future__ import annotations

import datetime as dt
import unicodedata
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kubevouch.cli import ui
from kubevouch.cli.cluster import connected, kubeconfig_option, rest_config_of
from kubevouch.cli.enforced import show_enforcement, verify_in_force
from kubevouch.cli.flags.durations import DURATION
from kubevouch.cli.flags.node import node_argument
from kubevouch.cli.runner import run_async

if TYPE_CHECKING:
    from kubevouch.api.kubevouch_v1alpha1.node_identities import NodeIdentity
    from kubevouch.client.interface import Client
    from kubevouch.phases.revocation_enforcement import InForce

T = TypeVar("T")

_COLUMNS = ("NODE", "PROVIDER", "STRENGTH", "LAST", "STATE", "IDENTITY")


@click.command()
@ui.output_option
@kubeconfig_option
def identities(output: str, kubeconfig: Path | None) -> None:
    """List which machine each name belongs to, by which proof, and whether it is banned."""
    from kubevouch.phases import node_identities as phase

    found = _asked(kubeconfig, phase.identities)
    if output != "text":
        ui.document([_tree(each) for each in found], output)
    elif found:
        ui.lines(ui.table(_COLUMNS, [_row(each) for each in found], whole=1))
    else:
        ui.say("no machine has proven what it is")


@click.command()
@node_argument
@ui.output_option
@kubeconfig_option
def identity(node_name: str, output: str, kubeconfig: Path | None) -> None:
    """Show what is known of the machine of NODE: each claim with who says so, and what happened to the name."""
    from kubevouch.phases import node_identities as phase

    found = _asked(kubeconfig, lambda client: phase.identity(client, node_name))
    if output != "text":
        ui.document(_tree(found), output)
        return
    status = found.status
    for label, value in (
        ("node", found.metadata.name),
        ("state", shown_state(found)),
        ("provider", status.provider),
        ("identity", status.identity),
        ("provider id", status.provider_id),
        ("strength", status.strength),
        ("key", status.key_fingerprint),
        ("first seen", " ".join(filter(None, (str(status.first_seen or ""), status.source_address, status.requester)))),
        ("last seen", str(status.last_seen or "")),
    ):
        if value:
            ui.field(label, value)
    if status.claims:
        ui.say("")
        ui.lines(claim_lines(found))
    if status.history:
        ui.say("")
        rows_of_history = [(str(each.at or ""), each.event, each.requester, each.message) for each in status.history]
        ui.lines(ui.table(("AT", "EVENT", "REQUESTER", "MESSAGE"), rows_of_history, whole=3))


@click.command()
@node_argument
@click.option("--why", default="", help="What others are told; in the object.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@kubeconfig_option
def ban(node_name: str, why: str, yes: bool, kubeconfig: Path | None) -> None:
    """Give the machine of NODE no certificate any more, under any name, and let those that it has count no more.

    It stays so until kubevouch node unban. kubevouch node forget is for a machine that may prove itself anew.
    """
    from kubevouch.phases import node_identities as phase
    from kubevouch.phases.revocation_enforcement import of_node
    from kubevouch.util.clock import SystemClock

    if not yes and not ui.confirmed(f"Ban the machine of node {node_name}?"):
        raise ui.CLIError("aborted; nothing was changed", hint="--yes does not ask")
    told: list[InForce] = []

    async def banned(client: Client) -> None:
        await phase.ban(client, node_name, why)
        told.extend(await of_node(client, node_name, SystemClock(), banned=True))

    _asked(kubeconfig, banned)
    refused = all(each.is_true for each in told)
    ui.step(f"the machine of node {node_name} is banned{', and its certificates count no more' if refused else ''}")
    show_enforcement(told)
    verify_in_force(told)


@click.command()
@node_argument
@kubeconfig_option
def unban(node_name: str, kubeconfig: Path | None) -> None:
    """Take a ban back: the machine of NODE may have certificates again, and those that it has count."""
    from kubevouch.phases import node_identities as phase

    _asked(kubeconfig, lambda client: phase.unban(client, node_name))
    ui.step(f"the machine of node {node_name} is no longer banned")


@click.command()
@node_argument
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@kubeconfig_option
def forget(node_name: str, yes: bool, kubeconfig: Path | None) -> None:
    """Let the name NODE go: the next machine that proves what it is may have it, the former one among them.

    Certificates that were issued count until they end; kubevouch node remove takes them back.
    """
    from kubevouch.phases import node_identities as phase

    if not yes and not ui.confirmed(f"Forget which machine node {node_name} is?"):
        raise ui.CLIError("aborted; nothing was changed", hint="--yes does not ask")
    _asked(kubeconfig, lambda client: phase.forget(client, node_name))
    ui.step(f"node {node_name} belongs to nobody")


@click.command("renew-now")
@node_argument
@kubeconfig_option
def renew_now(node_name: str, kubeconfig: Path | None) -> None:
    """Have the machine of NODE prove again what it is, and take another certificate, when its agent looks next."""
    from kubevouch.phases import node_identities as phase
    from kubevouch.util.clock import SystemClock

    _asked(kubeconfig, lambda client: phase.renew_now(client, node_name, SystemClock().now()))
    ui.step(f"node {node_name} is to renew now")


@click.command()
@node_argument
@click.option("--expect-new-hardware", is_flag=True, required=True, help="That this is meant: the former machine ends.")
@click.option("--identity", help="The one machine that may come; any if not given.")
@click.option("--within", type=DURATION, default="1h", show_default=True, help="How long it may take to come.")
@kubeconfig_option
def replace(
    node_name: str, expect_new_hardware: bool, identity: str | None, within: dt.timedelta, kubeconfig: Path | None
) -> None:
    """Let another machine take the name NODE, once: for a machine whose hardware was replaced."""
    from kubevouch.api.kubevouch_v1alpha1.node_identities import MAX_IDENTITY
    from kubevouch.phases import node_identities as phase
    from kubevouch.util.clock import SystemClock

    assert expect_new_hardware  # click requires it
    if within <= dt.timedelta():
        raise click.UsageError("got --within 0, expected the time that the other machine needs")
    if identity is not None and not is_an_identity(identity):
        raise click.UsageError(
            f"got --identity {identity[:64]!r}, expected the identity of one machine as its method proves it: "
            f"not blank, no control characters, {MAX_IDENTITY} octets at most"
        )
    until = SystemClock().now() + within
    _asked(kubeconfig, lambda client: phase.replace(client, node_name, until, identity or ""))
    who = "another machine" if identity is None else f"the machine {identity}"
    ui.step(f"{who} may take the name {node_name}", f"until {until:%Y-%m-%dT%H:%M:%SZ}")


COMMANDS = (identities, identity, ban, unban, forget, renew_now, replace)


def is_an_identity(text: str) -> bool:
    """Whether any method of attestation could name a machine so. A blank one, of a variable that is not set, would let
    any machine come."""
    from kubevouch.api.kubevouch_v1alpha1.node_identities import MAX_IDENTITY

    odd = any(unicodedata.category(each) in ("Cc", "Cs") for each in text)
    return bool(text.strip()) and not odd and len(text.encode()) <= MAX_IDENTITY


def _asked(kubeconfig: Path | None, ask: Callable[[Client], Awaitable[T]]) -> T:
    config = rest_config_of(kubeconfig)

    async def work() -> T:
        async with connected(config) as client:
            return await ask(client)

    return run_async(work())


def claim_lines(found: NodeIdentity) -> list[str]:
    """What is known of a machine, each claim with who says so and how much that is worth."""
    rows = [
        (each.name, each.value, each.source, each.strength + (" (tenant's word)" if each.tenant_controlled else ""))
        for each in found.status.claims
    ]
    return ui.table(("CLAIM", "VALUE", "SOURCE", "STRENGTH"), rows, whole=1) if rows else []


def _row(each: NodeIdentity) -> tuple[str, ...]:
    status = each.status
    last = str(status.last_seen or "")
    return (each.metadata.name, status.provider, status.strength, last, shown_state(each), status.identity)


def shown_state(each: NodeIdentity) -> str:
    """Banned, open for other hardware, claimed or free, as it is at this moment."""
    if each.spec.banned:
        return f"banned: {each.spec.banned_reason}" if each.spec.banned_reason else "banned"
    from kubevouch.policy.node_identities import expects_new_hardware
    from kubevouch.util.clock import SystemClock

    # The spec keeps what the operator once allowed, also after it was used.
    if each.spec.expect_new_hardware is not None and expects_new_hardware(each, SystemClock().now()):
        return f"other hardware until {each.spec.expect_new_hardware.until}"
    return "claimed" if each.status.identity else "free"


def _tree(each: NodeIdentity) -> dict[str, Any]:
    from kubevouch.machinery.codec import json_codec

    tree: dict[str, Any] = {"node": each.metadata.name, "state": shown_state(each)}
    return tree | {"spec": json_codec.to_builtins(each.spec), "status": json_codec.to_builtins(each.status)}
