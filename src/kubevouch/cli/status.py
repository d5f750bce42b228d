"""``kubevouch status``."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubevouch.cli import ui
from kubevouch.cli.cluster import kubeconfig_option, rest_config_of
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.runner import run_async

if TYPE_CHECKING:
    from kubevouch.doctor.status import ClusterStatus


EXIT_CODES = {
    "WELL": ExitCode.DONE,
    "SOON": ExitCode.FAILED,
    "NOW": ExitCode.PREFLIGHT,
    "NO_ANSWER": ExitCode.NO_ANSWER,
    "NOT_TRUSTED": ExitCode.NOT_TRUSTED,
}
"""By the name of the severity."""


@click.command()
@kubeconfig_option
@ui.output_option
def status(kubeconfig: Path | None, output: str) -> int:
    """Say on one screen how a cluster stands: server, controllers, CA, machines, what waits and what ends.

    The exit code is 0 if all is well, 1 if somebody has to do something soon, 2 if something does not work now, 4 if
    the server does not answer and 5 if it is not the one that the kubeconfig trusts. kubevouch doctor cluster says what
    to do about each finding.
    """
    from kubevouch.doctor.status import look
    from kubevouch.util import logs
    from kubevouch.util.clock import SystemClock

    clock = SystemClock()
    logs.configure(clock, level="error")
    found = run_async(look(rest_config_of(kubeconfig), clock))
    if output != "text":
        ui.document(found.tree(), output)
    else:
        _print(found, clock.now())
    return EXIT_CODES[found.severity.name]


def _print(found: ClusterStatus, now: dt.datetime) -> None:
    from kubevouch.doctor.status import Severity, severity_of
    from kubevouch.machinery.text.gotext import human_duration

    state = {True: "ready", False: "not ready", None: "not asked"}[found.ready]
    ui.field("server", " ".join(filter(None, (found.server, found.version, state))))
    if found.controllers is not None:
        busy = [f"{name} ({depth})" for name, depth in found.controllers.items() if depth]
        waits = f"; with work that waits: {', '.join(busy)}" if busy else ", no work waits"
        ui.field("controllers", f"{len(found.controllers)} run here{waits}" if found.controllers else "none run here")
    if found.nodes is not None:
        ui.field("machines", f"{found.nodes[0]}, {found.nodes[1]} of them ready")
    if found.undecided is not None:
        oldest = f", the oldest for {human_duration(found.oldest_request.total_seconds())}" if found.undecided else ""
        ui.field("waiting", f"{found.undecided} undecided request{'s' * (found.undecided != 1)}{oldest}")
    if found.tokens is not None:
        ui.field("tokens", f"{found.tokens} that hold{'s' * (found.tokens == 1)}")
    for name, moment in sorted(found.ends.items(), key=lambda item: item[1]):
        left = (moment - now).total_seconds()
        days = f"in {int(left // 86400)} days" if left >= 2 * 86400 else f"in {human_duration(max(left, 0))}"
        ui.field("ends", f"{name} {days if left > 0 else 'has ended'}, {moment:%Y-%m-%d %H:%M} UTC")
    for finding in sorted(found.findings, key=lambda each: -severity_of(each.code)):
        soon = severity_of(finding.code) is Severity.SOON
        mark = ui.styled("!", fg="yellow", bold=True) if soon else ui.styled("✗", fg="red")
        ui.say("  ", mark, " ", ui.styled(finding.code.value.code, bold=True), f" {ui.one_line(finding.cause)}")
    if found.severity is Severity.WELL:
        ui.say("  ", ui.styled("✓", fg="green"), " all is well")
    elif found.findings:
        ui.say("  kubevouch doctor cluster says what to do")
