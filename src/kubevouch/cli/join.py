"""``kubevouch join``."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubevouch.cli import ui
from kubevouch.cli.durations import DURATION
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.runner import run_async

if TYPE_CHECKING:
    from kubevouch.agent.interface import AgentError, Step
    from kubevouch.phases.join import Joined, JoinOptions


class Terminal:
    """Prints each step as it is done."""

    def done(self, step: Step, detail: str = "") -> None:
        ui.step(step.value, ui.one_line(detail))

    def waiting(self, why: str) -> None:
        ui.waiting(ui.one_line(why))

    def warning(self, text: str) -> None:
        ui.warning(text)


@click.command()
@click.argument("endpoint", metavar="HOST:PORT")
@click.option("--token", required=True, help="Bootstrap token of the cluster.")
@click.option(
    "--discovery-token-ca-cert-hash",
    "hashes",
    multiple=True,
    metavar="sha256:HEX",
    help="Public key hash of the cluster's CA; may be given several times.",
)
@click.option(
    "--discovery-token-unsafe-skip-ca-verification",
    "unsafe_skip",
    is_flag=True,
    help="Trust whoever knows the token, without a hash.",
)
@click.option("--node-name", default="", help="Name of the node.  [default: this machine's host name]")
@click.option(
    "--rootfs",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder that stands before every path that is written.",
)
@click.option(
    "--timeout",
    type=DURATION,
    default="5m",
    show_default=True,
    help="How long to try discovery, and then how long to wait for the certificate.",
)
def join(
    endpoint: str,
    token: str,
    hashes: tuple[str, ...],
    unsafe_skip: bool,
    node_name: str,
    rootfs: Path | None,
    timeout: dt.timedelta,
) -> None:
    """Let this machine join the cluster whose API server is at HOST:PORT.

    The cluster is proven by the token and the hash before anything is believed; the machine's key never leaves it. It
    is safe to run again at any point.
    """
    import socket

    from kubevouch.agent.discovery import token_discovery
    from kubevouch.agent.interface import SettingsError
    from kubevouch.phases.join import JoinOptions, verify_node_name
    from kubevouch.util import logs
    from kubevouch.util.clock import SystemClock

    logs.configure(SystemClock(), level="error")
    if timeout <= dt.timedelta():
        raise ui.CLIError("got a --timeout of nothing, expected a duration such as 5m", code=ExitCode.INVALID)
    # kubeadm takes several hashes in one flag, too.
    listed = [each for text in hashes for each in text.split(",")]
    try:
        discovery = token_discovery(
            endpoint, token, listed, unsafe_skip_ca_verification=unsafe_skip, timeout=timeout.total_seconds()
        )
        name = verify_node_name(node_name or socket.gethostname())
    except SettingsError as err:
        raise ui.CLIError(str(err), hint=err.hint, code=ExitCode.INVALID) from err
    options = JoinOptions(discovery, name, rootfs, timeout.total_seconds())
    joined = run_async(_join(options))
    ui.say()
    already = "this machine has joined before" if joined.already else "this machine has joined"
    ui.say(f"{already} as system:node:{name}, with a certificate until {joined.not_after:%Y-%m-%d %H:%M:%S} UTC")
    ui.say(f"  kubectl --kubeconfig {_shown(joined.kubelet_conf)} auth whoami")


async def _join(options: JoinOptions) -> Joined:
    from kubevouch.agent.interface import AgentError
    from kubevouch.phases import join as phase
    from kubevouch.util.clock import SystemClock

    try:
        return await phase.join(options, SystemClock(), Terminal())
    except phase.JoinError as err:
        raise ui.CLIError(str(err), hint=err.hint, code=ExitCode.PREFLIGHT) from err
    except AgentError as err:
        raise ui.CLIError(str(err), hint=err.hint, code=_code(err)) from err


def _code(err: AgentError) -> ExitCode:
    from kubevouch.agent import interface

    codes = {
        interface.SettingsError: ExitCode.INVALID,
        interface.NoClusterError: ExitCode.NO_ANSWER,
        interface.NotIssuedError: ExitCode.NO_ANSWER,
        interface.NotTrustedError: ExitCode.NOT_TRUSTED,
        interface.WrongCertificateError: ExitCode.NOT_TRUSTED,
        interface.RequestDeniedError: ExitCode.REFUSED,
    }
    return codes.get(type(err), ExitCode.FAILED)


def _shown(path: Path) -> str:
    """So that it can be pasted: a relative path begins with ``./``."""
    return str(path) if path.is_absolute() or path.parts[:1] == ("..",) else f"./{path}"
