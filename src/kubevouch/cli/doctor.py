"""``kubevouch doctor``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubevouch.cli import ui
from kubevouch.cli.cluster import connected, kubeconfig_option, rest_config_of
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags.paths import FOLDER
from kubevouch.cli.flags.secret_input import take_tokens, token_file_option
from kubevouch.cli.runner import run_async

if TYPE_CHECKING:
    from kubevouch.client.rest_config import RESTConfig
    from kubevouch.doctor.findings import Report
    from kubevouch.doctor.join import JoinAttempt


@click.group(cls=ui.Group)
def doctor() -> None:
    """Say why a join or a renewal does not work. Nothing is changed.

    The exit code is 0 when nothing is wrong and 1 when there are findings.
    """


@doctor.command()
@click.argument("endpoint", metavar="HOST:PORT")
@click.option("--token", default="", help="Bootstrap token of the cluster; - is standard input.")
@token_file_option
@click.option("--discovery-token", default="", help="Token for discovery, if it is another one.")
@click.option("--tls-bootstrap-token", default="", help="Token for the certificate request, if it is another one.")
@click.option(
    "--discovery-token-ca-cert-hash",
    "hashes",
    multiple=True,
    metavar="sha256:HEX",
    help="Public key hash of the cluster's CA; may be given several times.",
)
@click.option(
    "--discovery-token-unsafe-skip-ca-verification", "unsafe_skip", is_flag=True, help="The join is meant to be so."
)
@click.option("--node-name", default="", help="Name of the node.  [default: this machine's host name]")
@click.option("--rootfs", type=FOLDER, help="Folder that stands before every path of this machine.")
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Kubeconfig of an operator, for an exact look at the token.",
)
@ui.output_option
def join(
    endpoint: str,
    token: str,
    token_file: str,
    discovery_token: str,
    tls_bootstrap_token: str,
    hashes: tuple[str, ...],
    unsafe_skip: bool,
    node_name: str,
    rootfs: Path | None,
    kubeconfig: Path | None,
    output: str,
) -> int:
    """Try a join up to the request, from this machine, with the same arguments."""
    import socket

    from kubevouch.doctor.join import JoinAttempt

    _quiet()
    listed = tuple(each for text in hashes for each in text.split(","))
    name = (node_name or socket.gethostname()).strip().lower()
    tokens = take_tokens(token, token_file, discovery_token, tls_bootstrap_token)
    discovery, request = tokens.discovery or tokens.token, tokens.tls_bootstrap or tokens.token
    if not discovery:
        raise ui.CLIError("got no token, expected --token or --discovery-token", code=ExitCode.INVALID)
    attempt = JoinAttempt(endpoint, discovery, listed, name, unsafe_skip, os.environ, request, rootfs or Path("/"))
    return _tell(run_async(_join(attempt, None if kubeconfig is None else rest_config_of(kubeconfig))), output)


@doctor.command()
@click.option("--rootfs", type=FOLDER, help="Folder that stands before every path.")
@click.option("--cert-dir", type=FOLDER, help="Where the pairs are kept.  [default: /var/lib/kubelet/pki]")
@click.option("--offline", is_flag=True, help="Look at files only; do not ask the API server.")
@ui.output_option
def node(rootfs: Path | None, cert_dir: Path | None, offline: bool, output: str) -> int:
    """Look at this node's kubeconfig and certificate, and ask the API server about them."""
    from kubevouch.doctor import node as phase
    from kubevouch.doctor.kubelets import KUBELET_PORT
    from kubevouch.util.clock import SystemClock

    _quiet()
    port = 0 if rootfs is not None else KUBELET_PORT
    visit = phase.NodeVisit(rootfs or Path("/"), cert_dir, offline, os.environ, port)
    return _tell(run_async(phase.examine(visit, SystemClock())), output)


@doctor.command()
@kubeconfig_option
@ui.output_option
def cluster(kubeconfig: Path | None, output: str) -> int:
    """Look at CA, cluster-info, tokens, rights, requests and the kubelets' certificates of a cluster."""
    from kubevouch.doctor import cluster as phase
    from kubevouch.util.clock import SystemClock

    _quiet()
    return _tell(run_async(phase.examine(rest_config_of(kubeconfig), SystemClock())), output)


# ------------------------------------------------------------------ work


async def _join(attempt: JoinAttempt, operator: RESTConfig | None) -> Report:
    from kubevouch.doctor import join as phase
    from kubevouch.util.clock import SystemClock

    if operator is None:
        return await phase.examine(attempt, SystemClock())
    async with connected(operator) as client:
        return await phase.examine(attempt, SystemClock(), client)


def _quiet() -> None:
    from kubevouch.util import logs
    from kubevouch.util.clock import SystemClock

    logs.configure(SystemClock(), level="error")


def _tell(report: Report, output: str) -> int:
    if output != "text":
        ui.document(report.tree(), output)
    else:
        _print(report)
    count = len(report.findings)
    if not count:
        return ExitCode.DONE
    raise ui.CLIError(f"{count} finding{'s' * (count != 1)}")


def _print(report: Report) -> None:
    for name, text in report.facts:
        ui.field(name, text)
    for finding in report.findings:
        ui.say("  ", ui.styled("✗", fg="red"), " ", ui.styled(finding.code.value.code, bold=True))
        ui.field("  cause", finding.cause)
        ui.field("  fix", finding.fix)
        ui.field("  docs", finding.docs)
    if not report.findings:
        ui.say("  ", ui.styled("✓", fg="green"), " nothing is wrong")
