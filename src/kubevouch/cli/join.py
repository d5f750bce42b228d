"""``kubevouch join``."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from kubevouch.cli import names, ui
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags import kubeadm_config, together
from kubevouch.cli.flags.attestation import attestation_options, take_attestation
from kubevouch.cli.flags.durations import DURATION
from kubevouch.cli.flags.key_file import key_file_option, load_key
from kubevouch.cli.flags.kubeadm_config import config_option
from kubevouch.cli.flags.paths import FOLDER, shown
from kubevouch.cli.flags.preflight import findings_told, ignore_option, take_ignored
from kubevouch.cli.flags.secret_input import take_tokens, token_file_option
from kubevouch.cli.flags.tracing import tracing_flag
from kubevouch.cli.runner import run_async

if TYPE_CHECKING:
    from kubevouch.agent.discovery import TokenDiscovery
    from kubevouch.agent.file_discovery import FileDiscovery
    from kubevouch.agent.interface import AgentError, Step
    from kubevouch.config.kubeadm_v1beta4 import JoinConfiguration
    from kubevouch.phases.control_plane_join import ControlPlane
    from kubevouch.phases.join import Joined, JoinOptions
    from kubevouch.phases.join_phases import Phase
    from kubevouch.phases.join_wait import Serving
    from kubevouch.records.bootstrap_tokens import Token

T = TypeVar("T")

_TURN_SECONDS = 0.1


class Terminal:
    """Prints each step as it is done; to standard error where the result is a document.

    On a terminal the last line says meanwhile that something is done, and for how long.
    """

    def __init__(self, output: str = "text") -> None:
        self._aside = output != "text"
        self._drawn = False

    def done(self, step: Step, detail: str = "") -> None:
        self._undraw()
        ui.step(step.value, detail, err=self._aside)

    def waiting(self, why: str) -> None:
        self._undraw()
        ui.waiting(why)

    def warning(self, text: str) -> None:
        self._undraw()
        ui.warning(text)

    @asynccontextmanager
    async def alive(self) -> AsyncIterator[None]:
        if not ui.shows_progress():
            yield
            return
        turning = asyncio.create_task(self._turn())
        try:
            yield
        finally:
            turning.cancel()
            self._undraw()

    async def _turn(self) -> None:
        from kubevouch.machinery.text.gotext import human_duration
        from kubevouch.util.clock import SystemClock

        clock = SystemClock()
        begun = clock.monotonic()
        for turn in count():
            await clock.sleep(_TURN_SECONDS)
            ui.progress(turn, human_duration(clock.monotonic() - begun))
            self._drawn = True

    def _undraw(self) -> None:
        if self._drawn:
            ui.no_progress()
            self._drawn = False


_FLAGS = (
    click.option(
        "--token",
        default="",
        help="Bootstrap token, for discovery and for the certificate request; - is standard input.",
    ),
    token_file_option,
    click.option("--discovery-token", default="", help="Token for discovery, if it is another one."),
    click.option("--tls-bootstrap-token", default="", help="Token for the certificate request, if it is another one."),
    click.option(
        "--discovery-token-ca-cert-hash",
        "hashes",
        multiple=True,
        metavar="sha256:HEX",
        help="Public key hash of the cluster's CA; may be given several times.",
    ),
    click.option(
        "--discovery-token-unsafe-skip-ca-verification",
        "unsafe_skip",
        is_flag=True,
        help="Trust whoever knows the token, without a hash.",
    ),
    click.option(
        "--discovery-file",
        default="",
        metavar="PATH|URL|-",
        help="Kubeconfig that says where the cluster is: a path, an https address, or - for standard input.",
    ),
    click.option(
        "--cluster-id",
        default="",
        metavar="UID|sha256:HASH",
        help="Join no cluster but this one: the UID of its Namespace kube-system, or the hash of its CA.  "
        "[default: that of an earlier join]",
    ),
    click.option(
        "--serve-self-signed",
        is_flag=True,
        help="Leave a self-signed serving pair for the kubelet until one is issued. It proves nothing to anybody.",
    ),
    click.option("--control-plane", is_flag=True, help="Also make the files of a control plane."),
    click.option(
        "--certificate-key", default="", help="Key under which the other control planes have uploaded theirs."
    ),
    click.option(
        "--apiserver-advertise-address",
        default="",
        help="For a control plane: address of its API server.  [default: the one of the default route]",
    ),
    click.option(
        "--apiserver-bind-port", type=click.IntRange(0, 65535), default=0, help="For a control plane: its port."
    ),
    config_option,
    click.option("--node-name", default="", help="Name of the node.  [default: this machine's host name]"),
    key_file_option,
    attestation_options("--attest"),
    click.option(
        "--rootfs",
        type=FOLDER,
        help="Folder that stands before every path that is written.",
    ),
    click.option(
        "--cri-socket", default="", help="Socket of the container runtime, looked for before a join.  [default: found]"
    ),
    ignore_option,
    click.option("--dry-run", is_flag=True, help="Prove the cluster, show what would be written, and write nothing."),
    click.option(
        "--timeout",
        type=DURATION,
        default="5m",
        show_default=True,
        help="How long to try discovery, and then how long to wait for the certificate.",
    ),
    tracing_flag,
    ui.output_option,
    click.option("-v", "--v", "verbosity", type=int, default=0, hidden=True, help="For scripts of kubeadm."),
)


join_flags = together(*_FLAGS)
"""What ``join`` and its phases alone take."""


@click.command()
@click.argument("endpoints", metavar="[HOST:PORT[,HOST:PORT...]]", nargs=-1, shell_complete=names.join_words)
@join_flags
@click.option("--skip-phases", multiple=True, metavar="NAME,...", help="Phases to leave out, by kubeadm's names.")
@click.option(
    "--wait",
    is_flag=True,
    help="Wait until the machine has its serving certificate, too, and say until when both hold.",
)
@click.pass_context
def join(ctx: click.Context, /, **flags: Any) -> None:
    """Let this machine join the cluster whose API server is at HOST:PORT; of several, the first that answers.

    The cluster is proven by the token and the hash, or by a discovery file, before anything is believed; the machine's
    key never leaves it. It is safe to run again at any point. "kubevouch join phase NAME" runs one
    phase alone, "kubevouch join status NODE" tells the operator how far a machine has come.
    """
    options, rehearsal = prepared(ctx, flags)
    if rehearsal:
        rehearse(options, flags["output"])
    else:
        perform(options, flags)


def prepared(ctx: click.Context, flags: dict[str, Any], *, only: str = "") -> tuple[JoinOptions, bool]:
    """What to do, and whether to show it only.

    Args:
        only: the phase that runs alone.

    Raises:
        CLIError
    """
    from kubevouch.agent.interface import AgentError
    from kubevouch.util import logs
    from kubevouch.util.clock import SystemClock
    from kubevouch.util.nearest import meant

    logs.configure(SystemClock(), level="error")
    if flags["timeout"] <= dt.timedelta():
        raise ui.CLIError("got a --timeout of nothing, expected a duration such as 5m", code=ExitCode.INVALID)
    try:
        config = _configuration(ctx, flags)
        phases = _phases(only, (*flags.get("skip_phases", ()), *config.skip_phases))
        options = run_async(_options(config, flags, phases))
    except AgentError as err:
        # What stands in an address's place may be a command of join's own.
        hint = meant("".join(flags["endpoints"][:1]), names.JOIN_WORDS, err.hint)
        raise ui.CLIError(str(err), hint=hint, code=_code(err)) from err
    return options, flags["dry_run"] or config.dry_run


def rehearse(options: JoinOptions, output: str = "text") -> None:
    """Prints what would be written."""
    paths = [str(path) for path in run_async(_guarded(_rehearse, options, Terminal(output)))]
    if output != "text":
        ui.document({"wouldWrite": paths}, output)
        return
    for path in paths:
        ui.say(f"  would write {path}")


def perform(options: JoinOptions, flags: dict[str, Any]) -> None:
    """Runs the phases and says what has come of it."""
    from kubevouch.phases.tracing import TracingError, traced

    output, serving = flags["output"], None
    terminal = Terminal(output)
    try:
        with traced(flags["tracing_config_file"], "kubevouch-join", "join"):
            joined = run_async(_guarded(_run, options, terminal))
            if flags.get("wait"):
                serving = run_async(_guarded(_wait, options, terminal))
    except TracingError as err:
        raise ui.CLIError(str(err), code=ExitCode.INVALID) from err
    if output != "text":
        ui.document(_tree(options, joined, serving), output)
    elif joined is not None:
        _say(options, joined, serving)
    else:
        ui.step(f"done: {', '.join(_ran(options, joined)) or 'nothing'}")


def _stays_in_tpm(options: JoinOptions) -> bool:
    from kubevouch.agent.certificate_store import CertificateStore
    from kubevouch.agent.interface import CertificateStoreError
    from kubevouch.phases.join import CERTIFICATE_FOLDER
    from kubevouch.pki import keys

    try:
        pair = CertificateStore(options.root / CERTIFICATE_FOLDER).current()
    except (CertificateStoreError, OSError):
        return False
    return pair is not None and keys.is_in_tpm(pair.key)


def _say(options: JoinOptions, joined: Joined, serving: Serving | None) -> None:
    ui.say()
    already = "this machine has joined before" if joined.already else "this machine has joined"
    ui.say(f"{already} as system:node:{options.node_name}, with a certificate until {_date(joined.not_after)}")
    if serving is not None:
        by_itself = "; no one but itself vouches for it" if serving.self_signed else ""
        ui.say(f"it serves with a certificate until {_date(serving.certificate.not_after)}{by_itself}")
    if _stays_in_tpm(options):
        ui.say("its key stays in the TPM: kubevouch agent speaks with it, kubelets and kubectl cannot")
    else:
        ui.say(f"  kubectl --kubeconfig {shown(joined.kubelet_conf)} auth whoami")


def _date(moment: dt.datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _tree(options: JoinOptions, joined: Joined | None, serving: Serving | None) -> dict[str, Any]:
    """The stable form for scripts."""
    from kubevouch.machinery.text.times import Time

    tree: dict[str, Any] = {"nodeName": options.node_name, "phases": _ran(options, joined)}
    if joined is not None:
        tree |= {
            "kubeconfig": str(joined.kubelet_conf),
            "alreadyJoined": joined.already,
            "clientCertificate": {"notAfter": str(Time.of(joined.not_after))},
        }
    if serving is not None:
        tree["servingCertificate"] = {
            "file": str(serving.path),
            "notAfter": str(Time.of(serving.certificate.not_after)),
            "selfSigned": serving.self_signed,
        }
    return tree


def _ran(options: JoinOptions, joined: Joined | None) -> list[str]:
    from kubevouch.phases import join_phases

    already = joined is not None and joined.already
    return join_phases.that_run(options.phases, control_plane=options.control_plane is not None, already=already)


def _phases(only: str, skipped: Iterable[str]) -> frozenset[Phase]:
    from kubevouch.phases import join_phases

    names = [part.strip() for text in skipped for part in text.split(",") if part.strip()]
    try:
        return join_phases.named(only) if only else join_phases.without(names)
    except join_phases.PhaseError as err:
        raise ui.CLIError(str(err), hint=err.hint, code=ExitCode.INVALID) from err


def _configuration(ctx: click.Context, flags: dict[str, Any]) -> JoinConfiguration:
    """What file or flags say. Raises :class:`CLIError`."""
    from kubevouch.config import kubeadm_v1beta4 as kubeadm
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
    tokens = take_tokens(flags["token"], flags["token_file"], flags["discovery_token"], flags["tls_bootstrap_token"])
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
            ",".join(endpoints),
            token=tokens.token,
            discovery_token=tokens.discovery,
            tls_bootstrap_token=tokens.tls_bootstrap,
            discovery_file=flags["discovery_file"],
            # kubeadm takes several hashes in one flag, too.
            hashes=[each for text in flags["hashes"] for each in text.split(",")],
            unsafe_skip_ca_verification=flags["unsafe_skip"],
        ),
    )


async def _options(config: JoinConfiguration, flags: dict[str, Any], phases: frozenset[Phase]) -> JoinOptions:
    import socket

    from kubevouch.phases.join import BOOTSTRAP_CONF, JoinOptions, verify_node_name

    node = config.node_registration
    name = verify_node_name(flags["node_name"] or node.name or socket.gethostname())
    ignored = take_ignored((*flags["ignore_preflight_errors"], *node.ignore_preflight_errors))
    timeout = flags["timeout"].total_seconds()
    times = config.timeouts
    limit = _seconds("discovery", times.discovery if times else "", timeout)
    discovery, token = await _discovery(config, phases, (flags["rootfs"] or Path("/")) / BOOTSTRAP_CONF, limit)
    return JoinOptions(
        discovery,
        name,
        flags["rootfs"],
        _seconds("tlsBootstrap", times.tls_bootstrap if times else "", timeout),
        tls_bootstrap_token=token,
        key=load_key(flags["key_file"]),
        control_plane=_control_plane(config),
        ignored=ignored,
        kubelet_args=tuple((each.name, each.value) for each in node.kubelet_extra_args),
        phases=phases,
        cri_socket=flags["cri_socket"] or node.cri_socket,
        cluster_id=flags["cluster_id"],
        serve_self_signed=flags["serve_self_signed"],
        attestation=take_attestation(flags["methods"], flags["method_settings"], flags["oldest_evidence"]),
    )


async def _discovery(
    config: JoinConfiguration, phases: frozenset[Phase], bootstrap_conf: Path, limit: float
) -> tuple[TokenDiscovery | FileDiscovery | None, Token | None]:
    """How the cluster is found, and the token for the certificate request. Raises ``AgentError``."""
    from kubevouch.phases import join_settings
    from kubevouch.phases.join_phases import ASK_THE_CLUSTER, Phase
    from kubevouch.util.clock import SystemClock

    said = config.discovery
    if not phases & ASK_THE_CLUSTER:
        return None, None
    if phases == {Phase.KUBELET_WAIT_BOOTSTRAP} and said.bootstrap_token is None and said.file is None:
        return join_settings.from_bootstrap_kubeconfig(bootstrap_conf, timeout=limit)
    found = await join_settings.settings(said, SystemClock(), timeout=limit)
    return found, join_settings.request_token(said)


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


def _seconds(what: str, text: str, default: float) -> float:
    from kubevouch.machinery.text.gotext import parse_duration

    try:
        found = parse_duration(text).total_seconds() if text else default
    except ValueError as err:
        raise ui.CLIError(f"timeouts.{what}: {err}", code=ExitCode.INVALID) from err
    return found or default


async def _guarded(work: Callable[[JoinOptions, Terminal], Awaitable[T]], options: JoinOptions, told: Terminal) -> T:
    from kubevouch.agent.interface import AgentError
    from kubevouch.phases import join as phase

    with findings_told():
        try:
            async with told.alive():
                return await work(options, told)
        except phase.JoinError as err:
            raise ui.CLIError(str(err), hint=err.hint, code=ExitCode.PREFLIGHT) from err
        except AgentError as err:
            raise ui.CLIError(str(err), hint=err.hint, code=_code(err)) from err


async def _run(options: JoinOptions, told: Terminal) -> Joined | None:
    from kubevouch.phases import join as phase
    from kubevouch.util.clock import SystemClock

    return await phase.run(options, SystemClock(), told)


async def _rehearse(options: JoinOptions, told: Terminal) -> list[Path]:
    from kubevouch.phases import join_rehearsal as phase
    from kubevouch.util.clock import SystemClock

    return await phase.rehearse(options, SystemClock(), told)


async def _wait(options: JoinOptions, told: Terminal) -> Serving:
    from kubevouch.phases.join_wait import wait_for_serving
    from kubevouch.util.clock import SystemClock

    seconds = options.bootstrap_timeout
    return await wait_for_serving(options.root, options.node_name, SystemClock(), told, seconds=seconds)


def _code(err: AgentError) -> ExitCode:
    from kubevouch.agent import interface

    codes: dict[type[AgentError], ExitCode] = {
        interface.SettingsError: ExitCode.INVALID,
        interface.NoClusterError: ExitCode.NO_ANSWER,
        interface.NotIssuedError: ExitCode.NO_ANSWER,
        interface.AttestationUnavailableError: ExitCode.NO_ANSWER,
        interface.NotTrustedError: ExitCode.NOT_TRUSTED,
        interface.WrongCertificateError: ExitCode.NOT_TRUSTED,
        interface.RequestDeniedError: ExitCode.REFUSED,
    }
    return next((code for kind, code in codes.items() if isinstance(err, kind)), ExitCode.FAILED)
