"""``kubevouch install``."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubevouch.cli import ui
from kubevouch.cli.cluster import connected, kubeconfig_option, rest_config_of
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags.durations import DURATION
from kubevouch.cli.flags.manifests import expect_parts, manifest_flags, take_settings
from kubevouch.cli.runner import run_async

if TYPE_CHECKING:
    from kubevouch.client.https import HTTPSClient
    from kubevouch.client.interface import Client
    from kubevouch.client.rest_config import RESTConfig
    from kubevouch.standalone.attached.check import Report
    from kubevouch.standalone.attached.installation import Step, Workload
    from kubevouch.standalone.attached.manifests import Program

MARKS = {
    "create": "+", "change": "~", "unchanged": "=", "remove": "-", "keep": "!", "not served": "!", "conflict": "✗",
}  # fmt: skip
_SHOWN_REASONS = 3


@click.command()
@manifest_flags
@kubeconfig_option
@click.option("--dry-run", is_flag=True, help="Print the plan, which the server has checked, and change nothing.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--force-conflicts", is_flag=True, help="Take over fields that somebody else has set otherwise.")
@click.option("--no-wait", is_flag=True, help="Do not wait for the pods.")
@click.option("--timeout", type=DURATION, default="5m", show_default=True, help="How long to wait for the pods.")
@ui.facts_option("server", "version", "objects", "applied", "workloads", "checks")
def install(parts: tuple[str, ...], kubeconfig: Path | None, output: str, **flags: Any) -> None:
    """Put the controllers into a cluster that exists, and look whether they work.

    Parts and flags are those of kubevouch manifests; the server's version says what is left out. The plan comes first.
    It is carried out by server-side apply as the field manager kubevouch. Installing again changes what is different,
    and takes away what a former version of the same parts had.
    """
    parts = expect_parts(parts)
    config = rest_config_of(kubeconfig)
    run_async(_Installation(config, parts, output, flags).run())


class _Installation:
    def __init__(self, config: RESTConfig, parts: tuple[str, ...], output: str, flags: dict[str, Any]) -> None:
        self.config, self.parts, self.output = config, parts, output
        self.dry_run: bool = flags.pop("dry_run")
        self.yes: bool = flags.pop("yes")
        self.force: bool = flags.pop("force_conflicts")
        self.waits = not flags.pop("no_wait")
        self.timeout: dt.timedelta = flags.pop("timeout")
        self.flags = flags
        self.tree: dict[str, Any] = {"server": config.options.server, "applied": False, "workloads": [], "checks": []}
        # Before the cluster is asked, so that a bad flag is told without it.
        self.settings = take_settings(flags, None)
        expect_answer(yes=self.yes or self.dry_run)

    async def run(self) -> None:
        try:
            await self._run()
        finally:
            if self.output != "text" and "objects" in self.tree:
                ui.document(self.tree, self.output)

    async def _run(self) -> None:
        from msgspec.structs import replace

        from kubevouch.cli.controllers import findings_of
        from kubevouch.client.discovery import discover
        from kubevouch.standalone.attached import installation, manifest_parts
        from kubevouch.util.clock import SystemClock

        clock = SystemClock()
        async with connected(self.config) as client:
            version, minor = await server_version(client)
            expect_foreign(version)
            found = await discover(client)
            ports = tuple(sorted({*self.settings.api_server_ports, *await installation.api_server_ports(client)}))
            settings = replace(self.settings, kube_version=minor, api_server_ports=ports)
            components = manifest_parts.chosen(self.parts)
            trees = manifest_parts.trees(self.parts, settings)
            plan = await installation.plan_of(client, found, trees, components, force=self.force)
            self.tree |= {"version": version, "objects": [_told(each) for each in plan]}
            self._show(version, plan)
            programs = settings.programs if "controllers" in components else ()
            await self._expect_no_conflict(client, plan, programs)
            if self.dry_run:
                return
            if any(each.is_work for each in plan):
                if not self.yes and not ui.confirmed(f"Apply this to {self.config.options.server}?"):
                    raise ui.CLIError("nothing was applied", code=ExitCode.PREFLIGHT)
                await installation.carry_out(client, plan, clock, self._done, force=self.force)
                self.tree["applied"] = True
            if programs and any(each.signs for each in programs):
                await self._expect_secret(client, settings.namespace, settings.ca_secret)
            problem = await self._wait(client, plan) if self.waits else None
            for program in programs:
                report = await self._check(client, program)
                self.tree["checks"].append(
                    {"program": program.name, "good": report.is_good, "findings": findings_of(report)}
                )
                if not report.is_good:
                    problem = problem or ui.CLIError(
                        "it is applied, and something is in its way",
                        hint="see the ✗ above, or kubevouch controllers check",
                    )
            if problem is not None:
                raise problem

    # -------------------------------------------------------------- before

    def _show(self, version: str, plan: Sequence[Step]) -> None:
        if self.output != "text":
            return
        ui.field("cluster", f"{self.config.options.server}, {version}")
        same = [each for each in plan if each.action == "unchanged"]
        for each in plan:
            if each.action != "unchanged":
                ui.say(f"  {MARKS[each.action]} {each.action:<10} {each.told}")
                if each.note:
                    ui.say(f"      {each.note}")
        if same:
            ui.say(f"  = {len(same)} unchanged")
        if not any(each.is_work for each in plan):
            ui.say("  nothing to change")

    async def _expect_no_conflict(self, client: HTTPSClient, plan: Sequence[Step], programs: Sequence[Program]) -> None:
        """Raises :class:`CLIError`."""
        conflicts = [each for each in plan if each.action == "conflict"]
        if conflicts:
            raise ui.CLIError(
                f"somebody else has set fields of {len(conflicts)} objects otherwise; the first is "
                f"{conflicts[0].told}: {conflicts[0].note}",
                hint="--force-conflicts takes them over",
                code=ExitCode.PREFLIGHT,
            )
        for program in programs:
            report = await self._check(client, program, tells=False)
            # The rights are those of the accounts, and the kinds come with the plan.
            for each in report.findings:
                if each.level == "error" and each.about != "rights":
                    raise ui.CLIError(f"{each.about}: {each.message}", hint=each.hint, code=ExitCode.PREFLIGHT)

    # -------------------------------------------------------------- after

    def _done(self, step: Step) -> None:
        ui.step(step.told, "removed" if step.action == "remove" else "", err=self.output != "text")

    async def _expect_secret(self, client: Client, namespace: str, name: str) -> None:
        """Raises :class:`CLIError`."""
        answer = await client.raw("GET", f"/api/v1/namespaces/{namespace}/secrets/{name}")
        if answer.status == 404:
            raise ui.CLIError(
                f"it is applied, and the pods that sign wait for the Secret {namespace}/{name}",
                hint=f"kubectl -n {namespace} create secret tls {name} --cert=ca.crt --key=ca.key; then install again",
            )

    async def _wait(self, client: Client, plan: Sequence[Step]) -> ui.CLIError | None:
        """What is the matter if the pods do not get ready."""
        from kubevouch.client.pager import list_all
        from kubevouch.standalone.attached import installation
        from kubevouch.util.clock import SystemClock

        pods = [each for each in plan if each.resource.kind == "Deployment" and each.tree]
        if not pods:
            return None
        if any(each.action == "not served" for each in pods):
            return ui.CLIError(
                "it is applied, and nothing runs it: this server has no Deployments",
                hint="run kubevouch controllers beside it, with --leader-elect-resource-namespace and a kubeconfig",
            )
        nodes = await list_all(client, installation.NODES)
        if not nodes.items:
            return ui.CLIError(
                "it is applied, and no pod can run: this cluster has no nodes",
                hint="kubevouch install again waits for the pods once there are nodes; --no-wait does not look",
            )
        seen: list[Workload] = []

        async def are_ready() -> bool:
            seen[:] = await installation.workloads_of(client, plan)
            return all(each.is_ready for each in seen)

        if self.output == "text":
            ui.waiting("waiting for the pods")
        is_ready = await installation.until(are_ready, SystemClock(), self.timeout.total_seconds(), every=1.0)
        self.tree["workloads"] = [
            {"name": each.told, "wanted": each.wanted, "ready": each.ready, "why": list(each.why)} for each in seen
        ]
        for each in seen:
            if each.is_ready and self.output == "text":
                ui.step(f"Deployment {each.told}", f"{each.ready} of {each.wanted} pods are ready")
        if is_ready:
            return None
        waiting = next(each for each in seen if not each.is_ready)
        why = "; ".join(waiting.why[:_SHOWN_REASONS]) or "nothing says why"
        return ui.CLIError(
            f"it is applied, and of {waiting.told} {waiting.ready} of {waiting.wanted} pods are ready after "
            f"{self.timeout}: {why}",
            hint=f"kubectl -n {waiting.told.partition('/')[0]} describe pods",
        )

    async def _check(self, client: HTTPSClient, program: Program, *, tells: bool = True) -> Report:
        from kubevouch.cli.controllers import tell_report
        from kubevouch.controllers.catalog import select_attached
        from kubevouch.standalone.attached.check import Intent, judge, look
        from kubevouch.standalone.attached.options import IN_CLUSTER
        from kubevouch.util.clock import SystemClock

        intent = Intent(select_attached(program.controllers), program.controllers, program.signs, ledger=IN_CLUSTER)
        report = judge(await look(client, intent, client.server_now(SystemClock())), intent)
        if tells and self.output == "text":
            tell_report(report)
        return report


def expect_answer(*, yes: bool) -> None:
    """Somebody can be asked, or need not be. Raises :class:`CLIError`."""
    if not yes and not sys.stdin.isatty():
        raise ui.CLIError(
            "got no terminal on which to ask, expected --yes or --dry-run",
            hint="--dry-run prints the plan; --yes carries it out",
            code=ExitCode.INVALID,
        )


async def server_version(client: Client) -> tuple[str, int | None]:
    """What the server calls itself, and its minor version. Raises :class:`CLIError`, ``TransportError``."""
    import json

    answer = await client.raw("GET", "/version")
    try:
        told = json.loads(answer.body) if answer.status == 200 else {}
        emulated = str(told.get("emulationMinor") or "")
        version, minor = str(told["gitVersion"]), emulated or str(told["minor"])
        if emulated and emulated != str(told["minor"]):
            version += f", as 1.{emulated}"
        # Some clouds write 33+.
        return version, int("".join(each for each in minor[:4] if each in "0123456789"))
    except (ValueError, KeyError, TypeError) as err:
        raise ui.CLIError(
            f"the server says {answer.status} to /version, and not which Kubernetes it is",
            hint="kubevouch manifests prints what to apply",
            code=ExitCode.PREFLIGHT,
        ) from err


def expect_foreign(version: str) -> None:
    """``kubevouch up`` has all this in itself, and makes it again. Raises :class:`CLIError`."""
    if "kubevouch" in version:
        raise ui.CLIError(
            f"got a server of our own, {version}, expected a Kubernetes cluster",
            hint="kubevouch up and kubevouch serve run the controllers themselves",
            code=ExitCode.PREFLIGHT,
        )


def _told(step: Step) -> dict[str, Any]:
    return {
        "action": str(step.action), "apiVersion": step.resource.api_version, "kind": step.resource.kind,
        "namespace": step.namespace, "name": step.name, "note": step.note,
    }  # fmt: skip
