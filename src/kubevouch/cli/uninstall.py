"""``kubevouch uninstall``."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubevouch.cli import ui
from kubevouch.cli.cluster import connected, kubeconfig_option, rest_config_of
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags.durations import DURATION
from kubevouch.cli.install import MARKS, expect_answer, expect_foreign, server_version
from kubevouch.cli.runner import run_async

if TYPE_CHECKING:
    from kubevouch.client.discovery import Discovered
    from kubevouch.client.https import HTTPSClient
    from kubevouch.client.rest_config import RESTConfig
    from kubevouch.standalone.attached.installation import Step
    from kubevouch.standalone.attached.uninstallation import Seen


@click.command()
@kubeconfig_option
@click.option("--namespace", default="kubevouch-system", show_default=True, help="Namespace of the pods.")
@click.option("--keep-crds", is_flag=True, help="Leave the definitions of kubevouch's kinds, and the objects of these.")
@click.option(
    "--delete-data",
    is_flag=True,
    help="Delete the definitions with their objects, namespaces with what people have put into them, and what "
    "controllers have recorded.",
)
@click.option("--dry-run", is_flag=True, help="Print the plan, and change nothing.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--timeout", type=DURATION, default="2m", show_default=True, help="How long to wait until all is gone.")
@ui.facts_option("server", "version", "objects", "restored", "issued", "removed")
def uninstall(
    kubeconfig: Path | None, output: str, namespace: str, keep_crds: bool, delete_data: bool, **flags: Any
) -> None:
    """Take out of a cluster what install has put there.

    What people have made stays, and is told: definitions with objects, namespaces with Secrets, what is recorded.
    Certificates that were issued go on until they end, and are listed; from then on nobody refuses those that are
    revoked.
    """
    if keep_crds and delete_data:
        raise ui.CLIError(
            "--keep-crds and --delete-data contradict each other", hint="give one of them", code=ExitCode.INVALID
        )
    expect_answer(yes=flags["yes"] or flags["dry_run"])
    config = rest_config_of(kubeconfig)
    run_async(_run(config, output, namespace, keep_crds=keep_crds, delete_data=delete_data, **flags))


async def _run(
    config: RESTConfig,
    output: str,
    namespace: str,
    *,
    keep_crds: bool,
    delete_data: bool,
    dry_run: bool,
    yes: bool,
    timeout: dt.timedelta,
) -> None:
    from kubevouch.client.discovery import discover
    from kubevouch.standalone.attached.manifest_parts import ManifestSettingsError
    from kubevouch.standalone.attached.uninstallation import default_settings, judge, look
    from kubevouch.util.clock import SystemClock

    try:
        settings = default_settings(namespace)
    except ManifestSettingsError as err:
        raise ui.CLIError(str(err), hint=err.hint, code=ExitCode.INVALID) from err
    async with connected(config) as client:
        version, _minor = await server_version(client)
        expect_foreign(version)
        found = await discover(client)
        seen = await look(client, found, settings, SystemClock().now())
        plan = judge(seen, keep_crds=keep_crds, delete_data=delete_data)
        tree = _tree(config, version, seen, plan)
        if output == "text":
            _show(config, version, seen, plan)
        removes = any(each.is_work for each in plan)
        if removes and not dry_run:
            if not yes and not ui.confirmed(f"Take this out of {config.options.server}?"):
                raise ui.CLIError("nothing was removed", code=ExitCode.PREFLIGHT)
            await _carry_out(client, found, seen, plan, timeout, err=output != "text")
            tree["removed"] = True
        if output != "text":
            ui.document(tree, output)


async def _carry_out(
    client: HTTPSClient, found: Discovered, seen: Seen, plan: Sequence[Step], timeout: dt.timedelta, *, err: bool
) -> None:
    """Raises :class:`CLIError`, :class:`APIStatusError`, ``TransportError``."""
    from kubevouch.api.catalog import CLUSTER_ROLE_BINDINGS
    from kubevouch.client.stored import find
    from kubevouch.standalone.attached.installation import remove, until
    from kubevouch.standalone.attached.uninstallation import pods_of
    from kubevouch.util.clock import SystemClock

    clock, seconds = SystemClock(), timeout.total_seconds()
    removed = [each for each in plan if each.is_work]
    pods = [each for each in removed if each.resource.group == "apps"]
    for step in pods:
        await remove(client, step)
        ui.step(step.told, "removed", err=err)

    async def ended() -> bool:
        return not await pods_of(client, found, {each.namespace for each in pods})

    # They give their Lease back, and write their last records, with the rights that go next.
    if not await until(ended, clock, seconds):
        left = await pods_of(client, found, {each.namespace for each in pods})
        raise ui.CLIError(f"pods go on after {timeout}: {', '.join(left)}", hint="kubevouch uninstall again goes on")
    for binding in seen.bindings:
        if await find(client, CLUSTER_ROLE_BINDINGS, binding.metadata.name) is None:
            await client.create(CLUSTER_ROLE_BINDINGS, binding)
            ui.step(f"ClusterRoleBinding {binding.metadata.name}", "put back", err=err)
    for step in removed:
        if step not in pods:
            await remove(client, step)
            ui.step(step.told, "removed", err=err)

    lasting = [each for each in removed if each.resource.kind in ("Namespace", "CustomResourceDefinition")]

    async def lasting_gone() -> bool:
        return all([await find(client, each.resource, each.name) is None for each in lasting])

    if not await until(lasting_gone, clock, seconds):
        raise ui.CLIError(
            f"not all is gone after {timeout}: {', '.join(each.told for each in lasting)}",
            hint="kubectl get namespace NAME -o yaml says what it waits for",
        )


def _show(config: RESTConfig, version: str, seen: Seen, plan: Sequence[Step]) -> None:
    ui.field("cluster", f"{config.options.server}, {version}")
    for each in plan:
        ui.say(f"  {MARKS[each.action]} {each.action:<10} {each.told}")
        if each.note:
            ui.say(f"      {each.note}")
    for binding in seen.bindings:
        ui.say(f"  + put back   ClusterRoleBinding {binding.metadata.name}")
    if not plan:
        ui.say("  nothing of kubevouch is here")
    if seen.issued:
        ui.say(f"  {len(seen.issued)} certificates are valid still; nobody refuses them from now on, revoked or not:")
        rows = [(f"{each.not_after:%Y-%m-%dT%H:%M:%SZ}", each.signer_name, each.common_name) for each in seen.issued]
        ui.lines(f"    {line}" for line in ui.table(("ENDS", "SIGNER", "NAME"), rows))


def _tree(config: RESTConfig, version: str, seen: Seen, plan: Sequence[Step]) -> dict[str, Any]:
    return {
        "server": config.options.server,
        "version": version,
        "objects": [
            {"action": str(each.action), "kind": each.resource.kind, "namespace": each.namespace, "name": each.name,
             "note": each.note}
            for each in plan
        ],
        "restored": [each.metadata.name for each in seen.bindings],
        "issued": [
            {"commonName": each.common_name, "signerName": each.signer_name,
             "notAfter": f"{each.not_after:%Y-%m-%dT%H:%M:%SZ}"}
            for each in seen.issued
        ],
        "removed": False,
    }  # fmt: skip
