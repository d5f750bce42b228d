"""``kubevouch join``."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from kubevouch.cli import kubeadm_config, ui
from kubevouch.cli.durations import DURATION
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.kubeadm_config import config_option
from kubevouch.cli.paths import FOLDER, shown
from kubevouch.cli.preflight_flags import findings_told, ignore_option, take_ignored
from kubevouch.cli.runner import run_async
from kubevouch.cli.tracing_flag import tracing_flag

if TYPE_CHECKING:
    from kubevouch.agent.interface import AgentError, Step
    from kubevouch.api.kubeadm_v1beta4 import JoinConfiguration
    from kubevouch.phases.control_plane_join import ControlPlane
    from kubevouch.phases.join import Joined, JoinOptions

T = TypeVar("T")

# kubeadm's, so that its configuration files are understood.
PHASES = (
    "preflight", "control-plane-prepare", "check-etcd", "kubelet-start", "etcd-join", "kubelet-wait-bootstrap",
    "control-plane-join", "wait-control-plane",
)  # fmt: skip


class Terminal:
    """Prints each step as it is done."""

    def done(self, step: Step, detail: str = "") -> None:
        ui.step(step.value, ui.one_line(detail))

    def waiting(self, why: str) -> None:
        ui.waiting(ui.one_line(why))

    def warning(self, text: str) -> None:
        ui.warning(text)


@click.command()
@click.argument("endpoints", metavar="[HOST:PORT]", nargs=-1)
@click.option("--token", default="", help="Bootstrap token, for discovery and for the certificate request.")
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
    "--discovery-token-unsafe-skip-ca-verification",
    "unsafe_skip",
    is_flag=True,
    help="Trust whoever knows the token, without a hash.",
)
@click.option(
    "--discovery-file",
    default="",
    metavar="PATH|URL|-",
    help="Kubeconfig that says where the cluster is: a path, an https address, or - for standard input.",
)
@click.option("--control-plane", is_flag=True, help="Also make the files of a control plane.")
@click.option("--certificate-key", default="", help="Key under which the other control planes have uploaded theirs.")
@click.option(
    "--apiserver-advertise-address",
    default="",
    help="For a control plane: address of its API server.  [default: the one of the default route]",
)
@click.option("--apiserver-bind-port", type=click.IntRange(0, 65535), default=0, help="For a control plane: its port.")
@config_option
@click.option("--node-name", default="", help="Name of the node.  [default: this machine's host name]")
@click.option(
    "--rootfs",
    type=FOLDER,
    help="Folder that stands before every path that is written.",
)
@ignore_option
@click.option("--skip-phases", multiple=True, metavar="NAME,...", help="Phases to leave out: preflight.")
@click.option("--dry-run", is_flag=True, help="Prove the cluster, show what would be written, and write nothing.")
@click.option(
    "--timeout",
    type=DURATION,
    default="5m",
    show_default=True,
    help="How long to try discovery, and then how long to wait for the certificate.",
)
@tracing_flag
@click.option("-v", "--v", "verbosity", type=int, default=0, hidden=True, help="For scripts of kubeadm.")
@click.pass_context
def join(ctx: click.Context, /, **flags: Any) -> None:
    """Let this machine join the cluster whose API server is at HOST:PORT.

    The cluster is proven by the token and the hash, or by a discovery file, before anything is believed; the machine's
    key never leaves it. It is safe to run again at any point.
    """
    from kubevouch.agent.interface import AgentError
    from kubevouch.phases.tracing import TracingError, traced
    from kubevouch.util import logs
    from kubevouch.util.clock import SystemClock

    logs.configure(SystemClock(), level="error")
    if flags["timeout"] <= dt.timedelta():
        raise ui.CLIError("got a --timeout of nothing, expected a duration such as 5m", code=ExitCode.INVALID)
    try:
        config = _configuration(ctx, flags)
        options = run_async(_options(config, flags))
    except AgentError as err:
        raise ui.CLIError(str(err), hint=err.hint, code=_code(err)) from err
    if flags["dry_run"] or config.dry_run:
        for path in run_async(_guarded(_rehearse, options)):
            ui.say(f"  would write {path}")
        return
    try:
        with traced(flags["tracing_config_file"], "kubevouch-join", "join"):
            joined = run_async(_guarded(_join, options))
    except TracingError as err:
        raise ui.CLIError(str(err), code=ExitCode.INVALID) from err
    ui.say()
    already = "this machine has joined before" if joined.already else "this machine has joined"
    name = options.node_name
    ui.say(f"{already} as system:node:{name}, with a certificate until {joined.not_after:%Y-%m-%d %H:%M:%S} UTC")
    ui.say(f"  kubectl --kubeconfig {shown(joined.kubelet_conf)} auth whoami")


def _configuration(ctx: click.Context, flags: dict[str, Any]) -> JoinConfiguration:
    """What file or flags say. Raises :class:`CLIError`."""
    from kubevouch.api import kubeadm_v1beta4 as kubeadm
    from kubevouch.phases import join_settings

    endpoints: tuple[str, ...] = flags["endpoints"]
    if flags["config"] is not None:
        if endpoints:
            raise ui.CLIError(
                f"got the address {endpoints[0]} beside --config", hint="write it into the file", code=ExitCode.INVALID
            )
        found = kubeadm_config.read(ctx, flags["config"]).join
        if found is None:
            raise ui.CLIError(f"no JoinConfiguration found in {flags['config']}", code=ExitCode.INVALID)
        return msgspec.structs.replace(found, discovery=join_settings.complete(found.discovery))
    if len(endpoints) > 1:
        ui.warning(f"more than one API server endpoint is given; the first one is used: {endpoints[0]}")
    control_plane = None
    if flags["control_plane"]:
        local = kubeadm.APIEndpoint(
            advertise_address=flags["apiserver_advertise_address"], bind_port=flags["apiserver_bind_port"]
        )
        control_plane = kubeadm.JoinControlPlane(local_api_endpoint=local, certificate_key=flags["certificate_key"])
    elif flags["certificate_key"]:
        ui.warning("--certificate-key has no effect without --control-plane")
    return kubeadm.JoinConfiguration(
        control_plane=control_plane,
        discovery=join_settings.from_flags(
            endpoints[0] if endpoints else "",
            token=flags["token"],
            discovery_token=flags["discovery_token"],
            tls_bootstrap_token=flags["tls_bootstrap_token"],
            discovery_file=flags["discovery_file"],
            # kubeadm takes several hashes in one flag, too.
            hashes=[each for text in flags["hashes"] for each in text.split(",")],
            unsafe_skip_ca_verification=flags["unsafe_skip"],
        ),
    )


async def _options(config: JoinConfiguration, flags: dict[str, Any]) -> JoinOptions:
    import socket

    from kubevouch.phases import join_settings
    from kubevouch.phases.join import JoinOptions, verify_node_name
    from kubevouch.util.clock import SystemClock

    node = config.node_registration
    name = verify_node_name(flags["node_name"] or node.name or socket.gethostname())
    skipped = _skipped((*flags["skip_phases"], *config.skip_phases))
    ignored = take_ignored((*flags["ignore_preflight_errors"], *node.ignore_preflight_errors))
    timeout = flags["timeout"].total_seconds()
    times = config.timeouts
    limit = _seconds("discovery", times.discovery if times else "", timeout)
    return JoinOptions(
        await join_settings.settings(config.discovery, SystemClock(), timeout=limit),
        name,
        flags["rootfs"],
        _seconds("tlsBootstrap", times.tls_bootstrap if times else "", timeout),
        tls_bootstrap_token=join_settings.request_token(config.discovery),
        control_plane=_control_plane(config),
        ignored=None if "preflight" in skipped else ignored,
        kubelet_args=tuple((each.name, each.value) for each in node.kubelet_extra_args),
    )


def _control_plane(config: JoinConfiguration) -> ControlPlane | None:
    from kubevouch.phases.control_plane_join import ControlPlane
    from kubevouch.pki import certificate_key
    from kubevouch.pki.errors import KeyMaterialError
    from kubevouch.standalone.network import default_address

    wanted = config.control_plane
    if wanted is None:
        return None
    try:
        if wanted.certificate_key:
            certificate_key.parse(wanted.certificate_key)
    except KeyMaterialError as err:
        hint = "kubevouch init phase upload-certs --upload-certs prints it"
        raise ui.CLIError(str(err), hint=hint, code=ExitCode.INVALID) from err
    local = wanted.local_api_endpoint
    return ControlPlane(local.advertise_address or default_address(), wanted.certificate_key, local.bind_port)


def _skipped(texts: tuple[str, ...]) -> set[str]:
    names = {part.strip() for text in texts for part in text.split(",") if part.strip()}
    unknown = sorted(names - set(PHASES))
    if unknown:
        hint = f"the phases are {', '.join(PHASES)}"
        raise ui.CLIError(f"invalid phase name: {', '.join(unknown)}", hint=hint, code=ExitCode.INVALID)
    if names - {"preflight"}:
        ui.warning("only the phase preflight can be left out; the others are parts of one join")
    return names


def _seconds(what: str, text: str, default: float) -> float:
    from kubevouch.machinery.gotext import parse_duration

    try:
        found = parse_duration(text).total_seconds() if text else default
    except ValueError as err:
        raise ui.CLIError(f"timeouts.{what}: {err}", code=ExitCode.INVALID) from err
    return found or default


async def _guarded(work: Callable[[JoinOptions], Awaitable[T]], options: JoinOptions) -> T:
    from kubevouch.agent.interface import AgentError
    from kubevouch.phases import join as phase

    with findings_told():
        try:
            return await work(options)
        except phase.JoinError as err:
            raise ui.CLIError(str(err), hint=err.hint, code=ExitCode.PREFLIGHT) from err
        except AgentError as err:
            raise ui.CLIError(str(err), hint=err.hint, code=_code(err)) from err


async def _join(options: JoinOptions) -> Joined:
    from kubevouch.phases import join as phase
    from kubevouch.util.clock import SystemClock

    return await phase.join(options, SystemClock(), Terminal())


async def _rehearse(options: JoinOptions) -> list[Path]:
    from kubevouch.phases import join as phase
    from kubevouch.util.clock import SystemClock

    return await phase.rehearse(options, SystemClock(), Terminal())


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
