"""``kubevouch controllers``."""

from __future__ import annotations

import asyncio
import datetime as dt
import signal
from typing import TYPE_CHECKING, Any

import click

from kubevouch.cli import ui
from kubevouch.cli.aiohttp_import import load_aiohttp
from kubevouch.cli.cluster import connected
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags import together
from kubevouch.cli.flags.approval import approval_flags, take_approval
from kubevouch.cli.flags.attached import (
    FILE,
    assume_off_option,
    attached_flags,
    cluster_flags,
    controllers_option,
    take_clusters,
    take_election,
    take_serving,
)
from kubevouch.cli.flags.cluster_api import cluster_api_flags, take_cluster_api
from kubevouch.cli.flags.durations import DURATION
from kubevouch.cli.flags.groups import FlagGroup, GroupedCommand
from kubevouch.cli.flags.identity import identity_flags, take_identity
from kubevouch.cli.flags.ledger import LedgerPlace
from kubevouch.cli.flags.signing import signing_flags, take_signing
from kubevouch.cli.runner import run_async
from kubevouch.util.collector import rare_collections

if TYPE_CHECKING:
    from kubevouch.standalone.attached.check import Report
    from kubevouch.standalone.attached.options import AttachedCluster, AttachedOptions


class ControllersGroup(ui.Group, GroupedCommand):
    """Runs controllers by itself; its commands are about that."""

    groups = (
        FlagGroup(
            "What matters first", (
                "--kubeconfig", "--cluster", "--context", "--controllers", "--assume-off", "--ledger", "--log-level",
            ),
        ),
        FlagGroup("Leader election", ("--leader-elect", "--leader-elect-")),
        FlagGroup(
            "Approving",
            (
                "--inventory-config", "--attestation-config",
                "--kubelet-serving-", "--no-kubelet-serving-approval", "--allow-name-takeover",
                "--lock-out-deleted-nodes", "--service-cluster-ip-range",
            ),
        ),
        FlagGroup(
            "Cluster API",
            ("--cluster-api", "--management-kubeconfig", "--bootstrap-token-ttl", "--replace-bootstrap-tokens"),
        ),
        FlagGroup("Signing", ("--signing-", "--cluster-signing-", "--pkcs11-", "--root-ca-file")),
        FlagGroup(
            "Health and metrics",
            (
                "--bind-address", "--secure-port", "--tls-", "--plain-http", "--authentication-kubeconfig",
                "--authorization-always-allow-paths",
            ),
        ),
    )  # fmt: skip

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        GroupedCommand.format_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)


run_flags = together(
    cluster_flags,
    controllers_option,
    assume_off_option,
    attached_flags,
    click.option(
        "--ledger",
        type=LedgerPlace(),
        metavar="FILE",
        help="File in which decisions and certificates are written down; cluster keeps them in the cluster's objects."
        "  [default: in memory, and lost with this process]",
    ),
    click.option("--root-ca-file", type=FILE, help="CA that the publishers of a CA publish."),
    click.option(
        "--node-monitor-grace-period",
        type=DURATION,
        default="50s",
        show_default=True,
        help="How long a node may be silent before its conditions are Unknown.",
    ),
    click.option(
        "--service-cluster-ip-range",
        default="10.96.0.0/12",
        show_default=True,
        help="Addresses of Services; no kubelet's certificate has one.",
    ),
    identity_flags,
    approval_flags,
    cluster_api_flags,
    signing_flags,
    click.option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        default="info",
        show_default=True,
        help="What to log to standard error.",
    ),
    click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="klog's text, or JSON.",
    ),
)
"""Of the run, and of the check, which looks at what that run would do."""


@click.group(cls=ControllersGroup, invoke_without_command=True)
@run_flags
@click.pass_context
def controllers(ctx: click.Context, /, **flags: Any) -> None:
    """Run controllers against clusters whose API servers run elsewhere.

    Without a list these are the controllers that kube-controller-manager has not; kubevouch controllers check says what
    would be in each other's way. Under kubernetes.io/* is signed only where csrsigning is named, and not at all while
    somebody else does: the start is refused with 2. Of several such processes one acts. Ends cleanly on SIGTERM or
    Control-C.
    """
    if ctx.invoked_subcommand is not None:
        _expect_no_flags(ctx)
        return
    with rare_collections():
        load_aiohttp()
        from kubevouch.standalone.attached.options import AttachedError, AttachedOptionsError

    options = _options(flags)
    try:
        run_async(_run(options))
    except AttachedOptionsError as err:
        raise ui.CLIError(str(err), hint=err.hint, code=ExitCode.INVALID) from err
    except AttachedError as err:
        raise ui.CLIError(str(err), hint=err.hint, code=ExitCode.PREFLIGHT) from err


def _expect_no_flags(ctx: click.Context) -> None:
    """A flag in front of a command would be that of a run, and look as if the command had it."""
    for parameter in ctx.command.params:
        if ctx.get_parameter_source(parameter.name or "") is click.core.ParameterSource.COMMANDLINE:
            raise ui.CLIError(
                f"got {parameter.opts[0]} before {ctx.invoked_subcommand}, expected it behind",
                hint=f"kubevouch controllers {ctx.invoked_subcommand} {parameter.opts[0]} …",
                code=ExitCode.INVALID,
            )


def _options(flags: dict[str, Any]) -> AttachedOptions:
    """What the flags say. Raises :class:`CLIError`."""
    from kubevouch.cli.cluster import rest_config_of
    from kubevouch.standalone.attached.options import AttachedOptions
    from kubevouch.util import logs
    from kubevouch.util.clock import SystemClock

    logs.configure(SystemClock(), level=flags.pop("log_level"), form=flags.pop("log_format"))
    authority = flags.pop("authentication_kubeconfig")
    grace: dt.timedelta = flags["node_monitor_grace_period"]
    if grace <= dt.timedelta():
        raise ui.CLIError("got no --node-monitor-grace-period, expected one such as 50s", code=ExitCode.INVALID)
    return AttachedOptions(
        clusters=take_clusters(flags),
        election=take_election(flags),
        serving=take_serving(flags),
        identity=take_identity(flags),
        signing=take_signing(flags),
        approval=take_approval(flags),
        cluster_api=take_cluster_api(flags),
        qps=flags.pop("kube_api_qps"),
        burst=flags.pop("kube_api_burst"),
        authority=None if authority is None else rest_config_of(authority),
        **flags,
    )


async def _run(options: AttachedOptions) -> None:
    from kubevouch.standalone.attached.process import running
    from kubevouch.util import systemd
    from kubevouch.util.clock import SystemClock

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with running(options, SystemClock()) as attached:
        for each in attached.clusters:
            ui.field(each.name or "cluster", each.server)
        ui.field("controllers", ", ".join(each.alias for each in attached.selected))
        if attached.port:
            scheme = "http" if options.serving.is_plain else "https"
            ui.field("health and metrics", f"{scheme}://{options.serving.bind_address}:{attached.port}")
        if options.ledger is None:
            ui.warning("the ledger is in memory and ends with this process; --ledger cluster or --ledger FILE keeps it")
        if options.election is None:
            ui.warning("there is no leader election: two of these processes would both act")
        systemd.notify(systemd.READY)
        await stop.wait()
        systemd.notify(systemd.STOPPING)
        ui.waiting("stopping")


@controllers.command()
@run_flags
@ui.facts_option(
    "server", "controllers", "signs", "signedElsewhere", "assumedOff", "findings", "switchOff", "missingRights",
    "missingKinds",
)  # fmt: skip
def check(output: str, **flags: Any) -> None:
    """Say what would be in the way of attached controllers, and which rights and kinds they lack.

    Takes the flags of the run, builds what it would build, and looks at each cluster for who approves and signs there
    now. Changes nothing. Ends with 2 if anything has to be done first.
    """
    from kubevouch.standalone.attached.options import AttachedError

    options = _options(flags)
    try:
        reports = run_async(_checked(options))
    except AttachedError as err:
        raise ui.CLIError(str(err), hint=err.hint, code=ExitCode.INVALID) from err
    trees = []
    for cluster, report in zip(options.clusters, reports, strict=True):
        trees.append(_tree(cluster, report))
        if output == "text":
            _tell(cluster, report)
    if output != "text":
        ui.document(trees[0] if len(trees) == 1 else trees, output)
    if not all(each.is_good for each in reports):
        raise click.exceptions.Exit(ExitCode.PREFLIGHT)


async def _checked(options: AttachedOptions) -> list[Report]:
    from kubevouch.standalone.attached.check import judge, look, server_time
    from kubevouch.standalone.attached.process import preparing
    from kubevouch.util.clock import SystemClock

    clock = SystemClock()
    reports = []
    async with preparing(options, clock) as prepared:
        intent = prepared.intent(options)
        for cluster in options.clusters:
            async with connected(cluster.config) as client:
                reports.append(judge(await look(client, intent, await server_time(client, clock)), intent))
    return reports


def findings_of(report: Report) -> list[dict[str, str]]:
    """As they are printed for programs."""
    return [
        {"level": str(each.level), "about": each.about, "message": each.message, "hint": each.hint}
        for each in report.findings
    ]


def _tree(cluster: AttachedCluster, report: Report) -> dict[str, Any]:
    return {
        "cluster": cluster.name,
        "server": cluster.config.options.server,
        "controllers": [each.alias for each in report.selected],
        "signs": list(report.signs),
        "signedElsewhere": list(report.contested),
        "assumedOff": list(report.assumed),
        "findings": findings_of(report),
        "switchOff": list(report.switch_off),
        "missingRights": list(report.lacking),
        "missingKinds": list(report.missing_kinds),
    }


_SHOWN_RIGHTS = 20


def _tell(cluster: AttachedCluster, report: Report) -> None:
    ui.field(cluster.name or "cluster", cluster.config.options.server)
    tell_report(report)


def tell_report(report: Report) -> None:
    """What a check has found, in lines."""
    ui.field("controllers", ", ".join(each.alias for each in report.selected))
    ui.field("signs", ", ".join(report.signs) or "nothing")
    marks = {"ok": "✓", "assumed": "·", "warning": "!", "error": "✗"}
    for each in report.findings:
        ui.say(f"  {marks[each.level]} {each.about}: {each.message}")
        if each.hint:
            ui.say(f"      {each.hint}")
    for right in report.lacking[:_SHOWN_RIGHTS]:
        ui.say(f"      missing: {right}")
    if len(report.lacking) > _SHOWN_RIGHTS:
        ui.say(f"      and {len(report.lacking) - _SHOWN_RIGHTS} more; -o json has them all")
    if report.switch_off:
        ui.say(f"  kube-controller-manager --controllers=*,{','.join(f'-{each}' for each in report.switch_off)}")
