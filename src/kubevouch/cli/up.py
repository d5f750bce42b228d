"""``kubevouch up``."""

from __future__ import annotations

import asyncio
import datetime as dt
import gc
import ipaddress
import resource
import signal
import socket
from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubevouch.cli import ui
from kubevouch.cli.aiohttp_import import load_aiohttp
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags.access import access_flags, take_access
from kubevouch.cli.flags.address import address_flags
from kubevouch.cli.flags.approval import approval_flags, take_approval
from kubevouch.cli.flags.audit import audit_flags, take_audit
from kubevouch.cli.flags.cluster_api import cluster_api_flags, take_cluster_api
from kubevouch.cli.flags.durations import DURATION
from kubevouch.cli.flags.encryption import encryption_flags, take_encryption
from kubevouch.cli.flags.etcd import etcd_flags, take_etcd
from kubevouch.cli.flags.groups import UpCommand
from kubevouch.cli.flags.identity import identity_flags, take_identity
from kubevouch.cli.flags.paths import FOLDER, shown
from kubevouch.cli.flags.recovery import recovery_flags, take_recovery
from kubevouch.cli.flags.server import (
    apply_feature_gates,
    server_flags,
    take_disabled_admission,
    take_server,
    verbose,
)
from kubevouch.cli.flags.service_account import service_account_flags, take_service_accounts
from kubevouch.cli.flags.signing import signing_flags, take_signing
from kubevouch.cli.runner import run_async
from kubevouch.standalone import options as settings
from kubevouch.util.allocator import return_large_blocks
from kubevouch.util.clock import process_age
from kubevouch.util.collector import loading

if TYPE_CHECKING:
    from kubevouch.standalone.kubeconfigs import Moved
    from kubevouch.standalone.up import Running
    from kubevouch.standalone.workers.fork_server import ForkServer
    from kubevouch.util.clock import Clock

# Objects made before a collection of the youngest generation, and collections of each before one of the next. The
# second generation, up to 300,000 objects, takes 20 ms; all of them are looked at once in 60 million.
MAX_WORKERS = 64

_COLLECT = (50_000, 5, 200)


def _address(_ctx: click.Context, param: click.Parameter, value: str) -> str:
    try:
        return str(ipaddress.ip_address(value)) if value else ""
    except ValueError as err:
        raise click.BadParameter(f"got {value!r}, expected an IP address", param=param) from err


def _controllers(_ctx: click.Context, _param: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in value.split(",") if name.strip())


def _grace_period(_ctx: click.Context, param: click.Parameter, value: dt.timedelta) -> dt.timedelta:
    if value <= dt.timedelta():
        raise click.BadParameter("got nothing, expected a duration such as 50s", param=param)
    return value


@click.command(cls=UpCommand)
@click.option(
    "--data-dir",
    type=FOLDER,
    help="Where the cluster lives.  [default: /var/lib/kubevouch as root, else the XDG state folder]",
)
@click.option("--bind-address", default="0.0.0.0", show_default=True, callback=_address, help="Address to listen on.")  # noqa: S104 - nodes are on other machines
@address_flags
@click.option(
    "--secure-port",
    type=click.IntRange(0, 65535),
    default=settings.DEFAULT_PORT,
    show_default=True,
    help="Port to listen on; 0 picks one, by preference that of admin.conf.",
)
@click.option(
    "--service-cluster-ip-range",
    default=settings.DEFAULT_SERVICE_CLUSTER_IP_RANGE,
    show_default=True,
    help="Addresses of Services; the first is that of default/kubernetes, and in the serving certificate.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, MAX_WORKERS),
    default=1,
    show_default=True,
    help="Processes that serve, best one for each core. From 2 on, store and controllers have one more to themselves.",
)
@click.option(
    "--store",
    default="sqlite:",
    show_default=True,
    help="sqlite:, sqlite:PATH, memory: or etcd://HOST:PORT[,HOST:PORT][/PREFIX].",
)
@click.option(
    "--certificate-key",
    default="",
    help="Key under which another server of the same etcd has uploaded what all of them share.",
)
@click.option(
    "--token-ttl",
    type=DURATION,
    default="24h",
    show_default=True,
    help="Life of the token that the first start makes; 0 is without end.",
)
@click.option("--no-token", is_flag=True, help="Make no token at the first start.")
@click.option(
    "--controllers",
    default="*",
    show_default=True,
    callback=_controllers,
    help="Controllers to run: names, * for all, -name to leave one out.",
)
@click.option(
    "--node-monitor-grace-period",
    type=DURATION,
    default="50s",
    show_default=True,
    callback=_grace_period,
    help="How long a node may be silent before its conditions are Unknown; kubelets speak every 10s.",
)
@click.option(
    "--runtime-config",
    default="",
    help="API versions to turn on or off: group/version[/resource]=true|false; also api/all, api/ga, api/beta.",
)
@access_flags
@service_account_flags
@audit_flags
@recovery_flags
@identity_flags
@approval_flags
@cluster_api_flags
@encryption_flags
@etcd_flags
@signing_flags
@server_flags
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning",
    show_default=True,
    help="What to log to standard error.",
)
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="klog's text, or JSON."
)
def up(
    data_dir: Path | None, token_ttl: dt.timedelta, no_token: bool, log_level: Any, log_format: Any, **flags: Any
) -> None:
    """Run a cluster's API server and controllers in this process.

    The first start makes certificate authorities, kubeconfigs, a store and a bootstrap token in the data directory;
    later starts find them again, and bring nothing back that was deleted in the cluster but Kubernetes' own roles. Ends
    cleanly on SIGTERM or Control-C.
    """
    with loading():
        load_aiohttp()
        from kubevouch.standalone.up import running
    from kubevouch.standalone.errors import InvalidOptionsError, NotHereError
    from kubevouch.util import logs
    from kubevouch.util.clock import SystemClock

    folder = data_dir or settings.default_data_dir()
    clock = SystemClock()
    logs.configure(clock, level=verbose(log_level, flags["verbosity"]), form=log_format)
    try:
        apply_feature_gates(flags)
        access, audit, server = take_access(flags), take_audit(flags), take_server(flags)
        accounts, disabled = take_service_accounts(flags), take_disabled_admission(flags)
        recovery, identity, signing = take_recovery(flags), take_identity(flags), take_signing(flags)
        approval, cluster_api = take_approval(flags), take_cluster_api(flags)
        options = settings.StandaloneOptions(
            data_dir=folder, token_ttl=None if no_token else token_ttl, signing=signing,
            access=access, audit=audit, server=server,
            service_accounts=accounts, disabled_admission=disabled, recovery=recovery, identity=identity,
            approval=approval, cluster_api=cluster_api, encryption=take_encryption(flags), etcd=take_etcd(flags),
            **flags,
        )  # fmt: skip
        _allow_many_connections()
        run_async(_up(options, running(options, clock, forks_of(options, clock))))
    except InvalidOptionsError as err:
        raise ui.CLIError(str(err), hint=err.hint, code=ExitCode.INVALID) from err
    except NotHereError as err:
        raise ui.CLIError(str(err), hint=err.hint, code=ExitCode.PREFLIGHT) from err


def forks_of(options: settings.StandaloneOptions, clock: Clock) -> ForkServer | None:
    """What makes workers. Before there is anything that a worker must not have a copy of."""
    if options.workers == 1:
        return None
    from kubevouch.standalone.workers.fork_server import ForkServer
    from kubevouch.standalone.workers.worker import serve

    def work(sockets: Sequence[socket.socket]) -> None:
        run_async(serve(options, sockets, clock))

    # What is loaded by now is shared; a collection would write to it.
    gc.freeze()
    gc.set_threshold(*_COLLECT)
    return ForkServer.start(work)


def _allow_many_connections() -> None:
    """Each connection is a descriptor, and the usual soft limit of 1024 is far below what a cluster opens."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _age(cluster: Running) -> float:
    """Seconds that whoever typed the command has waited."""
    try:
        return process_age()
    except OSError:
        return cluster.started.total_seconds()


def _tell_join(cluster: Running, *, attests: bool) -> None:
    from kubevouch.phases.bootstrap_token import DEFAULT_GROUPS, power
    from kubevouch.util.clock import SystemClock

    if cluster.tokens is None:
        ui.say("  kubevouch token create --print-join-command prints how a machine joins")
        return
    discovery, authentication, expires = cluster.tokens
    if attests:
        ui.say("  machines prove what they are: the token alone becomes no node that the configuration does not let in")
    else:
        ui.say(f"  {power(DEFAULT_GROUPS, expires, SystemClock().now())}")
    ui.say("  a machine joins with")
    ui.say(
        f"    kubevouch join {cluster.shared.address} --discovery-token {discovery.text}"
        f" --tls-bootstrap-token {authentication.text} --discovery-token-ca-cert-hash {cluster.pin}"
    )


def _tell_deleted_nodes(*, locks: bool) -> None:
    if locks:
        ui.field("deleted nodes", "locked out: once a Node is deleted, its machine's certificates are refused")
    else:
        ui.field("deleted nodes", "keep their certificates, as in Kubernetes; --lock-out-deleted-nodes refuses them")


def settle_in() -> asyncio.Event:
    """Make this process one that serves for long. The event is set when it is to end."""
    # What is loaded by now stays. Wire structs hold no cycles, so rare collections do: a tenth of a join's CPU time.
    gc.freeze()
    gc.set_threshold(*_COLLECT)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


async def until_told(url: str, stop: asyncio.Event) -> None:
    """Tell whoever has started this process that it serves, and go on until ``stop`` is set."""
    from kubevouch.util import systemd

    systemd.notify(systemd.READY, systemd.status(f"ready at {url}"))
    await stop.wait()
    systemd.notify(systemd.STOPPING)
    ui.waiting("stopping")


def keep_what_was_made() -> None:
    """After a start: what it has made stays as what was loaded does."""
    gc.freeze()
    return_large_blocks()


def tell_moved(moved: Iterable[Moved]) -> None:
    """What sends clients elsewhere since this start."""
    for each in moved:
        ui.field(each.key, f"{each.now} in {each.what}, which had {each.former or 'none'}")


async def _up(options: settings.StandaloneOptions, running: AbstractAsyncContextManager[Running]) -> None:
    from kubevouch.pki.profile import Profile

    stop = settle_in()
    async with running as cluster:
        keep_what_was_made()
        ui.field(f"ready in {_age(cluster):.1f} s", cluster.endpoint.url)
        if cluster.admin_kubeconfig is None:
            ui.warning("there is no admin.conf, and the key of the CA, which would sign it, is not here")
        else:
            ui.field("kubeconfig", shown(cluster.admin_kubeconfig))
        tell_moved(cluster.moved)
        if cluster.is_out_of_reach:
            ui.warning(
                f"machines are sent to {cluster.shared.url}, and this server is {cluster.endpoint.url}; "
                "--control-plane-endpoint sends them elsewhere, --secure-port and --bind-address listen elsewhere"
            )
        _tell_deleted_nodes(locks=cluster.locks_deleted_nodes)
        _tell_join(cluster, attests=options.approval.attestation_config is not None)
        if not cluster.keeps_state:
            ui.warning("the store is in memory: everything but the certificates is gone when this process ends")
        if options.identity.signing_profile is not Profile.STRICT:
            ui.warning("the signing profile is compatible: weak keys, SHA-1 and malformed names are signed")
        if options.identity.allow_name_takeover:
            ui.warning("names may be taken over: whoever has a bootstrap token gets the name of any node")
        if options.recovery is not None:
            ui.warning("node recovery is on: nodes whose certificate has ended get another one with their recovery key")
        await until_told(cluster.endpoint.url, stop)
