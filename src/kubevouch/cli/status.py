"""``kubevouch status``."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
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
    """Say on one screen how a cluster stands: server, controllers, nodes, requests, tokens, what expires.

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
        show(found, clock.now())
    return EXIT_CODES[found.severity.name]


def show(found: ClusterStatus, now: dt.datetime, columns: int | None = None) -> None:
    """Print it for an operator; ``columns`` as in ``ui.table``."""
    from kubevouch.doctor.status import Severity, severity_of
    from kubevouch.machinery.text.gotext import human_duration

    for label, text in _lines(found):
        ui.prose(label, text, columns)
    label = "expires"
    for name, moment in sorted(found.ends.items(), key=lambda item: item[1]):
        left = (moment - now).total_seconds()
        days = f"{int(left // 86400)} days" if left >= 2 * 86400 else human_duration(abs(left))
        when = f"in {days}" if left > 0 else f"EXPIRED {human_duration(-left)} ago"
        ui.prose(label, f"{when}: {name}, {moment:%Y-%m-%d %H:%M} UTC", columns)
        label = ""
    for finding in sorted(dict.fromkeys(found.findings), key=lambda each: -severity_of(each.code)):
        soon = severity_of(finding.code) is Severity.SOON
        mark = ui.styled("!", fg="yellow", bold=True) if soon else ui.styled("✗", fg="red")
        ui.say("  ", mark, " ", ui.styled(finding.code.value.code, bold=True))
        for line in ui.wrapped(ui.one_line(finding.cause), 4, columns):
            ui.say("    ", line)
    if found.severity is Severity.WELL:
        ui.say("  ", ui.styled("✓", fg="green"), " all is well")
    elif found.findings:
        ui.say("  kubevouch doctor cluster says what to do")


def _missing(found: ClusterStatus) -> str:
    if "data-directory" in found.failing:
        return (
            "the server's data directory was deleted, moved or made read-only; nothing is written or signed; read the"
            " server's log before you stop it"
        )
    return ", ".join(found.failing) or "kubectl get --raw /readyz?verbose says what is missing"


def _lines(found: ClusterStatus) -> Iterator[tuple[str, str]]:
    """What was learnt, and what was not and why."""
    from kubevouch.machinery.text.gotext import human_duration

    ready = {True: "ready", False: f"NOT READY ({_missing(found)})"}
    state = found.unknown.get("server") or ("" if found.ready is None else ready[found.ready])
    yield "server", ", ".join(filter(None, (found.server, found.version, state)))
    texts: dict[str, str] = {}
    if found.controllers is not None:
        busy = [f"{name} ({depth})" for name, depth in found.controllers.items() if depth]
        work = f"work waits for {', '.join(busy)}" if busy else "no work waits for them"
        texts["controllers"] = (
            f"{len(found.controllers)} running in the server, {work}" if found.controllers else "none in the server"
        )
    if found.nodes is not None:
        total, ready_ones = found.nodes
        texts["nodes"] = (
            f"{total} registered, {ready_ones} Ready"
            if total
            else "none registered (a kubelet registers its Node when it starts)"
        )
    if found.locks_deleted_nodes is not None:
        texts["deleted nodes"] = (
            "locked out: their certificates are refused"
            if found.locks_deleted_nodes
            else "keep their certificates until these end, and renew them (kubevouch up --lock-out-deleted-nodes)"
        )
    if found.undecided is not None:
        oldest = human_duration(found.oldest_request.total_seconds())
        texts["requests"] = (
            f"{found.undecided} waiting to be approved or denied, the oldest for {oldest} (kubevouch csr review)"
            if found.undecided
            else "none waiting to be approved or denied"
        )
    if found.tokens is not None:
        texts["tokens"] = (
            f"{found.tokens} valid" if found.tokens else "none valid: no machine can join (kubevouch token create)"
        )
    if found.ledger_damage:
        texts["ledger"] = f"DAMAGED: {found.ledger_damage}"
    elif found.ledger is not None:
        texts["ledger"] = f"in the cluster, {found.ledger} entries, whole (kubevouch issued list --ledger cluster)"
    for name in ("controllers", "nodes", "deleted nodes", "requests", "tokens", "ledger"):
        if name in texts:
            yield name, texts[name]
        elif name in found.unknown:
            yield name, f"not known: the server {found.unknown[name]}"
