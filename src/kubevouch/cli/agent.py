"""``kubevouch agent``: keep this machine's certificates fresh, and look at how they stand."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubevouch.cli import ui
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags.attestation import attestation_options, take_attestation
from kubevouch.cli.flags.durations import DURATION
from kubevouch.cli.flags.key_file import key_file_option, load_key
from kubevouch.cli.flags.paths import FOLDER
from kubevouch.cli.flags.secret_input import take_token
from kubevouch.cli.runner import run_async

if TYPE_CHECKING:
    import datetime as dt

    from kubevouch.agent.options import AgentOptions

_FILE = click.Path(path_type=Path, dir_okay=False)
# As agent.options has them: help must not load the agent.
_SOCKET = Path("/run/kubevouch/agent.sock")
_HEALTHZ = "127.0.0.1:10451"
_socket = click.option(
    "--socket",
    "socket_path",
    type=_FILE,
    default=_SOCKET,
    show_default=True,
    help="Where a running agent is spoken to.",
)


@click.group(cls=ui.Group, invoke_without_command=True)
@click.option(
    "--kubeconfig",
    type=_FILE,
    default=Path("/etc/kubernetes/kubelet.conf"),
    show_default=True,
    help="The node's kubeconfig; written if it is missing.",
)
@click.option(
    "--bootstrap-kubeconfig",
    type=_FILE,
    help="What to begin with.  [default: the systemd credential of that name, else "
    "/etc/kubernetes/bootstrap-kubelet.conf]",
)
@click.option(
    "--cert-dir",
    type=FOLDER,
    default=Path("/var/lib/kubelet/pki"),
    show_default=True,
    help="Where the pairs are kept.",
)
@click.option("--node-name", default="", help="Name of the node.  [default: the certificate's, else the host name]")
@click.option(
    "--server", "servers", multiple=True, metavar="URL", help="Another API server of this cluster; several times."
)
@click.option(
    "--key-algorithm", default="", help="kubeadm's encryptionAlgorithm.  [default: ECDSA-P256, or that of --key-file]"
)
@key_file_option
@click.option("--lifetime", type=DURATION, help="Ask for certificates of this life.  [default: the signer's]")
@click.option("--serving", is_flag=True, help="Keep the kubelet's serving certificate, too.")
@click.option(
    "--serve-self-signed",
    is_flag=True,
    help="With --serving: put a self-signed pair there until a certificate is issued. It proves nothing to anybody.",
)
@click.option(
    "--address", "addresses", multiple=True, help="Name or IP address for the serving certificate; several times."
)
@click.option("--config", type=_FILE, help="AgentConfiguration: hooks, and certificates of other programs.")
@click.option(
    "--healthz-address", default=_HEALTHZ, show_default=True, help="Where /healthz and /metrics are; empty for nowhere."
)
@click.option(
    "--discover",
    "--rediscover",
    default="",
    metavar="HOST:PORT[,HOST:PORT...]|PATH|URL",
    help="Find the cluster here with a token when there is no kubeconfig yet, and again when its CA was replaced; or "
    "again by this discovery file.",
)
@click.option(
    "--token-file", default="", metavar="FILE|-", help="For --discover.  [default: the systemd credential `token`]"
)
@click.option("--discovery-token-ca-cert-hash", "hashes", multiple=True, metavar="sha256:HEX", help="For --discover.")
@click.option(
    "--refresh-interval",
    type=DURATION,
    default="10m",
    show_default=True,
    help="Look at cluster-info so often; ten times as often while the CA changes.",
)
@click.option(
    "--recovery/--no-recovery",
    default=True,
    show_default=True,
    help="Keep a recovery key where the cluster allows recovery; none with --attest, which is the way back then.",
)
@attestation_options("--attest")
@_socket
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Of the log."
)
@click.pass_context
def agent(ctx: click.Context, /, log_format: Any, **flags: Any) -> None:
    """Keep this machine's certificates fresh, for as long as it runs.

    Begins with a bootstrap kubeconfig if there is no good credential, rotates between 70 and 90 % of a certificate's
    life, and never gives up a pair that works. With --attest it proves each time what the machine is.
    """
    if ctx.invoked_subcommand is not None:
        return
    from kubevouch.agent.interface import AgentError, SettingsError
    from kubevouch.util import logs
    from kubevouch.util.clock import SystemClock

    logs.configure(SystemClock(), form=log_format)
    try:
        run_async(_run(_options(**flags)))
    except SettingsError as err:
        raise ui.CLIError(str(err), hint=err.hint, code=ExitCode.INVALID) from err
    except AgentError as err:
        raise ui.CLIError(str(err), hint=err.hint) from err


def _options(
    kubeconfig: Path,
    bootstrap_kubeconfig: Path | None,
    cert_dir: Path,
    node_name: str,
    servers: tuple[str, ...],
    key_algorithm: str,
    key_file: Path | None,
    lifetime: dt.timedelta | None,
    serving: bool,
    serve_self_signed: bool,
    addresses: tuple[str, ...],
    config: Path | None,
    healthz_address: str,
    discover: str,
    token_file: str,
    hashes: tuple[str, ...],
    refresh_interval: dt.timedelta,
    recovery: bool,
    methods: tuple[str, ...],
    method_settings: tuple[str, ...],
    oldest_evidence: tuple[str, ...],
    socket_path: Path,
) -> AgentOptions:
    from kubevouch.agent import options
    from kubevouch.agent.node_access import ClusterFiles

    if serve_self_signed and not serving:
        raise ui.CLIError("--serve-self-signed has no effect without --serving", code=ExitCode.INVALID)
    credentials = os.environ.get("CREDENTIALS_DIRECTORY", "")
    handed = Path(credentials) / "bootstrap-kubeconfig" if credentials else None
    if bootstrap_kubeconfig is None:
        bootstrap_kubeconfig = handed if handed is not None and handed.exists() else options.BOOTSTRAP_KUBECONFIG
    files = ClusterFiles(
        kubeconfig=kubeconfig.absolute(),
        bootstrap_kubeconfig=bootstrap_kubeconfig.absolute(),
        servers=servers,
        ca_copies=(kubeconfig.absolute().parent / "pki" / "ca.crt",),
        discovery=_discovery(discover, token_file, hashes, credentials),
    )
    # An image may come without it once it has served.
    key = load_key(key_file) if key_file is not None and (key_file.exists() or not options.has_pair(cert_dir)) else None
    extras, hooks = options.load(config.read_bytes()) if config is not None else ((), {})
    return options.AgentOptions(
        node_name=options.node_name(node_name, cert_dir),
        files=files,
        cert_dir=cert_dir.absolute(),
        algorithm=options.algorithm(key_algorithm, key),
        key=key,
        expiration_seconds=None if lifetime is None else int(lifetime.total_seconds()),
        serving=serving,
        serve_self_signed=serve_self_signed,
        addresses=addresses,
        extras=extras,
        socket=socket_path.absolute(),
        healthz=options.local_address(healthz_address),
        hooks=hooks,
        recovery=recovery,
        attestation=take_attestation(methods, method_settings, oldest_evidence),
        refresh_seconds=options.refresh(refresh_interval),
    )


def _discovery(endpoint: str, token_file: str, hashes: tuple[str, ...], credentials: str) -> Any:
    if not endpoint:
        return None
    from kubevouch.agent.discovery import token_discovery

    if "/" in endpoint:
        from kubevouch.agent.file_discovery import verify_source

        return verify_source(endpoint)
    path = Path(credentials or ".") / "token"
    if not token_file and not (credentials and path.exists()):
        raise ui.CLIError(
            "--discover needs a token, and there is no systemd credential of that name",
            hint="give --token-file, or LoadCredential=token:/etc/kubevouch/token in the unit",
            code=ExitCode.INVALID,
        )
    return token_discovery(endpoint, take_token("", token_file or str(path)), hashes)


async def _run(options: AgentOptions) -> None:
    from kubevouch.agent.daemon import Agent
    from kubevouch.util.clock import SystemClock

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await Agent(options, SystemClock()).run(stop)


@agent.command()
@_socket
@ui.output_option
def status(socket_path: Path, output: str) -> None:
    """Show which certificates this machine has, until when, and what happens next."""
    from kubevouch.agent.control import ask_status
    from kubevouch.agent.report import headline, words
    from kubevouch.util.clock import SystemClock

    found = run_async(ask_status(socket_path))
    line, well = headline(found)
    if output != "text":
        ui.document(found, output)
    else:
        ui.say(ui.one_line(line))
        for certificate in found["certificates"]:
            for each in words(certificate, SystemClock().now()):
                ui.say(each if not each.startswith(" ") else f"  {ui.one_line(each)}")
        ui.say(f"trusts the CA certificates {found['trustBundle']}")
        # An agent that was not restarted after an update says nothing of it.
        if found.get("recovery"):
            ui.say(f"recovery: {found['recovery']}")
    if not well:
        raise click.exceptions.Exit(ExitCode.FAILED)


@agent.command()
@_socket
@click.argument("name", default="")
def rotate(socket_path: Path, name: str) -> None:
    """Have the running agent ask for a new certificate now: all of them, or the one called NAME."""
    from kubevouch.agent.control import ask_rotation

    if not run_async(ask_rotation(socket_path, name)):
        raise ui.CLIError(f"the agent keeps no certificate called {name!r}", hint="kubevouch agent status lists them")
    ui.say("a new certificate is asked for; kubevouch agent status shows how it goes")
