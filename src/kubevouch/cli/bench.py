"""``kubevouch bench``: what an API server does for machines that come all at once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubevouch.cli import ui
from kubevouch.cli.cluster import connected, kubeconfig_option, rest_config_of
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags.durations import DURATION
from kubevouch.cli.runner import run_async

if TYPE_CHECKING:
    from kubevouch.client.rest_config import RESTConfig
    from kubevouch.phases.join_bench import Plan, Result

_FILE = click.Path(path_type=Path, dir_okay=False)
# Longer than any run; the token is deleted at its end, and ends by itself if nobody is left to do that.
_TOKEN_TTL = dt.timedelta(hours=6)
_REASONS = 3


@click.group(cls=ui.Group)
def bench() -> None:
    """Measure an API server from the side of its machines."""


@bench.command("join")
@kubeconfig_option
@click.option("--nodes", type=click.IntRange(1, 1_000_000), default=1000, show_default=True, help="Machines in all.")
@click.option(
    "--concurrency",
    type=click.IntRange(1, 50_000),
    default=64,
    show_default=True,
    help="Machines on their way at once.",
)
@click.option(
    "--timeout", type=DURATION, default="5m", show_default=True, help="How long one machine waits for its certificate."
)
@click.option("--csv", "csv_file", type=_FILE, help="Write a line for each machine there.")
@click.option("--svg", "svg_file", type=_FILE, help="Draw the run there.")
@click.option("--keep", is_flag=True, help="Leave the requests in the cluster.")
@ui.facts_option("joined", "joinsPerSecond", "request", "certificate", "join", "getNodesMeanwhile", "refused")
def join(
    kubeconfig: Path | None,
    nodes: int,
    concurrency: int,
    timeout: dt.timedelta,
    csv_file: Path | None,
    svg_file: Path | None,
    keep: bool,
    output: str,
) -> int:
    """Let machines join that do not exist, and measure how long each takes.

    Each has a P-256 key, a TLS connection, a request and a watch of its own, and a bootstrap token that is made for the
    run; meanwhile an operator lists nodes four times a second. Any API server will do whose controllers approve and
    sign such requests: kubevouch's, or Kubernetes' with kubeadm's bindings. The certificates are real and name nodes
    bench-...-0 and on; their keys are gone when the command ends. Ends with 1 if a machine got none.
    """
    from kubevouch.phases.join_bench import Plan
    from kubevouch.util.uuids import random_uuid

    for path in (csv_file, svg_file):
        _expect_folder(path)
    if timeout <= dt.timedelta():
        raise click.UsageError("got --timeout 0, expected a duration such as 5m")
    _allow_many_connections(concurrency)
    config = rest_config_of(kubeconfig)
    plan = Plan(f"bench-{random_uuid()[:8]}", nodes, concurrency, timeout.total_seconds())
    result = run_async(_run(config, plan, keep=keep))
    _tell(config.options.server, plan, result, output)
    _write(csv_file, svg_file, config.options.server, plan, result)
    return ExitCode.DONE if len(result.joined) == nodes else ExitCode.FAILED


def _expect_folder(path: Path | None) -> None:
    if path is not None and not path.parent.is_dir():
        raise ui.CLIError(f"got {path}, expected a file in a folder that is there", code=ExitCode.INVALID)


def _allow_many_connections(concurrency: int) -> None:
    """A descriptor for each machine on its way, and some."""
    import resource

    wanted = concurrency + 100
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise ui.CLIError(
            f"got --concurrency {concurrency}, but this process may open {hard} files",
            hint="raise the limit (ulimit -Hn), or give less",
            code=ExitCode.PREFLIGHT,
        )
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _run(config: RESTConfig, plan: Plan, *, keep: bool) -> Result:
    from kubevouch.phases import bootstrap_token, join_bench
    from kubevouch.util.clock import SystemClock

    clock = SystemClock()
    async with connected(config) as operator:
        try:
            async with join_bench.lent_token(operator, plan.run, clock, _TOKEN_TTL) as token:
                prepared = await join_bench.prepare(plan, _counted(f"of {plan.nodes} keys made"))
                try:
                    joined = _counted(f"of {plan.nodes} machines have joined")
                    return await join_bench.play(config, token, plan, prepared, clock, joined)
                finally:
                    _no_progress()
                    if not keep:
                        await join_bench.clear(operator, plan.run)
        except bootstrap_token.TokenPhaseError as err:
            raise ui.CLIError(str(err), hint=err.hint) from err
        finally:
            _no_progress()


def _counted(what: str) -> Callable[[int], None]:
    """Shows how far it has come, on a terminal."""
    if not ui.shows_progress():
        return lambda _number: None

    def show(number: int) -> None:
        if number % 10 == 0:
            ui.progress(number // 10, f"{number} {what}")

    return show


def _no_progress() -> None:
    if ui.shows_progress():
        ui.no_progress()


def _tell(server: str, plan: Plan, result: Result, output: str) -> None:
    from kubevouch.phases import join_bench_report as report

    tree = report.tree(plan, server, result)
    if output != "text":
        ui.document(tree, output)
        return
    ui.say(
        f"{len(result.joined)} of {plan.nodes} machines joined in {result.seconds:.1f} s: {result.rate:.0f} a second"
    )
    rows = [
        ["connection, request", *_cells(tree["request"])],
        ["until its certificate", *_cells(tree["certificate"])],
        ["one join", *_cells(tree["join"])],
        ["get nodes meanwhile", *_cells(tree["getNodesMeanwhile"])],
    ]
    ui.lines(ui.table(["MILLISECONDS", "MEDIAN", "90 %", "99 %", "LONGEST", "OF"], rows))
    if result.unanswered:
        ui.warning(f"{result.unanswered} lists of nodes were not answered meanwhile")
    ui.say(f"this command took {tree['clientCPUPerMachine']:.2f} ms of processor time a machine")
    for reason, count in result.refusals()[:_REASONS]:
        ui.warning(f"{count} without a certificate: {reason}")


def _cells(shown: dict[str, Any]) -> list[str]:
    return [*(f"{shown[name]:.1f}" for name in ("p50", "p90", "p99", "max")), str(shown["count"])]


def _write(csv_file: Path | None, svg_file: Path | None, server: str, plan: Plan, result: Result) -> None:
    from kubevouch.phases import join_bench_report as report
    from kubevouch.util.files import write_atomically

    try:
        if csv_file is not None:
            write_atomically(csv_file, report.table(result).encode(), mode=0o644)
        if svg_file is not None:
            write_atomically(svg_file, report.svg(plan, server, result).encode(), mode=0o644)
    except OSError as err:
        raise ui.CLIError(f"cannot write {err.filename}: {err.strerror}", hint="the result is above") from err
