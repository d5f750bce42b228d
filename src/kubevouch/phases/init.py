"""``init``: a control plane's files, and in the API what machines need to join. Phases run alone too, and again.

The API server itself is started by others: ``kubevouch up``, or whatever runs the cluster.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec.structs import replace

from kubevouch import wellknown
from kubevouch.api import catalog
from kubevouch.authorization.kubeadm_policy import kubeadm_policy
from kubevouch.client import stored
from kubevouch.client.interface import Client, NotKubernetes, TLSFailed, TransportError
from kubevouch.config import kubeconfig
from kubevouch.config.kubeadm_v1beta4 import BootstrapTokenSettings
from kubevouch.config.kubeconfig import KubeconfigError
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.text import gotext
from kubevouch.machinery.text.times import Time
from kubevouch.phases import bootstrap_token, cluster_info, preflight, upload_certs, upload_config
from kubevouch.phases.certificates import certs, control_plane_pki
from kubevouch.phases.certificates.control_plane_files import Layout
from kubevouch.phases.cluster_settings import ClusterSettings, SettingsError
from kubevouch.phases.preflight_machine import Machine
from kubevouch.pki import certificate_key
from kubevouch.records.bootstrap_tokens import (
    BootstrapToken,
    WeakTokenError,
    generate_token,
    parse_token,
    to_secret,
    verify_strength,
)
from kubevouch.records.cluster_info import ClusterInfo
from kubevouch.server.bootstrap import rbac
from kubevouch.util.clock import Clock

_POLL_SECONDS = 0.5  # kubeadm's retry of API calls
_JOINING = frozenset(
    {
        "kubeadm:get-nodes",
        "kubeadm:kubelet-bootstrap",
        "kubeadm:node-autoapprove-bootstrap",
        "kubeadm:node-autoapprove-certificate-rotation",
        "kubeadm:apiserver-kubelet-client",
    }
)


class Phase(StrEnum):
    """The phases in their order."""

    PREFLIGHT = "preflight"
    CERTS = "certs"
    KUBECONFIG = "kubeconfig"
    UPLOAD_CONFIG = "upload-config"
    UPLOAD_CERTS = "upload-certs"
    BOOTSTRAP_TOKEN = "bootstrap-token"
    CLUSTER_INFO = "cluster-info"

    @property
    def asks_the_server(self) -> bool:
        return self not in (Phase.PREFLIGHT, Phase.CERTS, Phase.KUBECONFIG)


class Reporter(Protocol):
    """Who is told how it goes."""

    def step(self, done: str, detail: str = "") -> None: ...

    def waiting(self, text: str) -> None: ...

    def warning(self, text: str) -> None: ...


Connect = Callable[[Path], Awaitable[Client]]
"""A client for a kubeconfig."""


class InitOptions(msgspec.Struct, frozen=True):
    """What to make.

    Args:
        phases: those that run.
        upload_certs: without it the phase upload-certs does nothing, as in kubeadm.
        certificate_key: 64 hexadecimal digits; empty for a new one.
        ignored: checks that only warn.
        timeout: seconds for the API server to answer.
        kubeconfig: for the API server; None is ``admin.conf`` of the layout.
        allow_weak_tokens: take secrets that can be guessed.
        makes_tokens: False: the phase bootstrap-token only gives the rights to join.
    """

    settings: ClusterSettings
    layout: Layout
    phases: frozenset[Phase] = frozenset(Phase)
    upload_certs: bool = False
    certificate_key: str = ""
    ignored: frozenset[str] = frozenset()
    rootfs: Path | None = None
    timeout: float = 240.0
    kubeconfig: Path | None = None
    allow_weak_tokens: bool = False
    makes_tokens: bool = True

    @property
    def admin(self) -> Path:
        return self.kubeconfig or self.layout.kubeconfigs / "admin.conf"


class Initialized(msgspec.Struct, frozen=True):
    """``tokens`` are those of the configuration; ``certificate_key`` is empty unless certificates were uploaded."""

    tokens: tuple[BootstrapToken, ...] = ()
    certificate_key: str = ""


class _Run(msgspec.Struct):
    """What the phases share. ``client`` is there for those that ask the server; ``key`` is set by upload-certs."""

    options: InitOptions
    clock: Clock
    report: Reporter
    tokens: tuple[BootstrapToken, ...] = ()
    connected: Client | None = None
    key: str = ""

    @property
    def client(self) -> Client:
        assert self.connected is not None  # it is made before the first phase that asks
        return self.connected


async def init(options: InitOptions, connect: Connect, clock: Clock, report: Reporter) -> Initialized:
    """Run the chosen phases in their order.

    Raises:
        PreflightError, CertsError, SettingsError
        TransportError: the API server did not answer in time.
        APIStatusError, OSError
    """
    run = _Run(options, clock, report)
    if options.makes_tokens and Phase.BOOTSTRAP_TOKEN in options.phases:
        run.tokens = tuple(planned_tokens(options.settings, clock.now(), allow_weak=options.allow_weak_tokens))
    for phase in Phase:
        if phase not in options.phases:
            continue
        if phase.asks_the_server and run.connected is None:
            run.connected = await connect(options.admin)
            await wait_for_server(run.client, options.timeout, clock, report)
            await _ensure_admins(run.client, options, connect)
        await WORK[phase](run)
    return Initialized(run.tokens, run.key)


# ------------------------------------------------------------------ the phases


async def _preflight(run: _Run) -> None:
    """Check that this machine can carry a control plane.

    Reads the user, the host name, the number of processors and the memory of this machine; with --rootfs, of another's
    files, none of them. Writes nothing and asks no server. A check that fails ends init, unless
    --ignore-preflight-errors names it.
    """
    check(run.options, run.report)


async def _certs(run: _Run) -> None:
    """Make the control plane's CAs, certificates and keys.

    Reads the pairs that are in the folder of the certificates (--cert-dir); what is there and good is kept, and a CA
    whose key is elsewhere signs nothing here. Writes what is missing: ca, front-proxy-ca and, unless etcd is external,
    etcd/ca; the pairs that they sign; sa.key and sa.pub. Asks no server.
    """
    settings, layout = run.options.settings, run.options.layout
    made = await asyncio.to_thread(control_plane_pki.ensure_certificates, settings, layout, now=run.clock.now())
    run.report.step("certificates", _summary(made, layout.pki))


async def _kubeconfig(run: _Run) -> None:
    """Make the kubeconfigs of the administrators and of the control plane's programs.

    Reads ca.crt and ca.key in the folder of the certificates, and the kubeconfigs that are there; good ones are kept.
    Writes admin.conf, super-admin.conf, controller-manager.conf, scheduler.conf and kubelet.conf (--kubeconfig-dir),
    each with a certificate of its own. Asks no server.
    """
    settings, layout = run.options.settings, run.options.layout
    made = await asyncio.to_thread(control_plane_pki.ensure_kubeconfigs, settings, layout, now=run.clock.now())
    run.report.step("kubeconfigs", _summary(made, layout.kubeconfigs))


async def _upload_config(run: _Run) -> None:
    """Publish in the cluster how it is set up, for machines that join later.

    Reads --config and the flags. Writes, through the API server of --kubeconfig, the ConfigMaps kubeadm-config and
    kubelet-config in kube-system, and the Roles and RoleBindings by which joining machines read them.
    """
    await upload_config.upload(run.client, run.options.settings)
    run.report.step("configuration published", "kube-system/kubeadm-config, kube-system/kubelet-config")


async def _upload_certs(run: _Run) -> None:
    """Lay the CAs and their keys, encrypted, into the cluster for control planes that join.

    Does nothing without --upload-certs. Reads the CA pairs, sa.key and sa.pub in the folder of the certificates.
    Writes, through the API server of --kubeconfig, the Secret kubeadm-certs in kube-system, which goes after two hours,
    the token that it ends with, and the Role and RoleBinding by which joining control planes read it. Prints the key.
    """
    options = run.options
    if not options.upload_certs:
        return
    run.key = options.certificate_key or options.settings.init.certificate_key or certificate_key.generate()
    shared = upload_certs.files(options.layout, options.settings.cluster.etcd.external, rootfs=options.rootfs)
    await upload_certs.upload(run.client, shared, certificate_key.parse(run.key), now=run.clock.now())
    run.report.step("certificates uploaded", "kube-system/kubeadm-certs, for two hours")


async def _bootstrap_token(run: _Run) -> None:
    """Make a bootstrap token, and give whoever has one the right to join.

    Reads --token, --token-file or --config; a random token is made without them, and none with --token ''. Writes,
    through the API server of --kubeconfig, a Secret bootstrap-token-ID in kube-system for each token, and the
    ClusterRoles and ClusterRoleBindings of kubeadm for joining. Prints the command with which a machine joins.
    """
    for token in run.tokens:
        await stored.create_or_update(run.client, catalog.SECRETS, to_secret(token))
    await _reconcile(run.client, _JOINING)
    ids = ", ".join(each.token.token_id for each in run.tokens)
    run.report.step("bootstrap tokens and the rights to join" if ids else "the rights to join", ids)


async def _cluster_info(run: _Run) -> None:
    """Publish where the cluster is and which CA it has, for machines that have yet to join.

    Reads server and CA in --kubeconfig. Writes, through that API server, the ConfigMap cluster-info in kube-public, and
    the Role and RoleBinding by which anybody reads it, without a credential. Which cluster it is, the UID of the
    Namespace kube-system, stands there as well, also where kubeadm has written the ConfigMap.
    """
    info = replace(published(run.options.admin), cluster_id=await cluster_info.cluster_id(run.client))
    await cluster_info.ensure(run.client, info)
    run.report.step("cluster-info published", info.server)


WORK: Mapping[Phase, Callable[[_Run], Awaitable[None]]] = {
    Phase.PREFLIGHT: _preflight,
    Phase.CERTS: _certs,
    Phase.KUBECONFIG: _kubeconfig,
    Phase.UPLOAD_CONFIG: _upload_config,
    Phase.UPLOAD_CERTS: _upload_certs,
    Phase.BOOTSTRAP_TOKEN: _bootstrap_token,
    Phase.CLUSTER_INFO: _cluster_info,
}
"""What each phase does; ``init phase NAME --help`` shows its docstring."""


def check(options: InitOptions, report: Reporter) -> None:
    """The preflight phase. Raises :class:`PreflightError`."""
    machine = Machine.here(options.rootfs, options.settings.node_name)
    findings = preflight.before_init(machine, options.settings.node_name)
    for each in preflight.judge(findings, options.ignored):
        report.warning(f"{each.check}: {each.message}")
    report.step("preflight checks")


def planned_tokens(settings: ClusterSettings, now: dt.datetime, *, allow_weak: bool = False) -> list[BootstrapToken]:
    """The tokens of the configuration, one by default. Raises :class:`SettingsError`.

    Args:
        allow_weak: take secrets that can be guessed.
    """
    return [
        _planned(each, now, allow_weak=allow_weak)
        for each in settings.init.bootstrap_tokens or [BootstrapTokenSettings()]
    ]


def _planned(wanted: BootstrapTokenSettings, now: dt.datetime, *, allow_weak: bool) -> BootstrapToken:
    if wanted.ttl and wanted.expires:
        raise SettingsError("a bootstrap token has ttl and expires, expected one of both")
    try:
        token = parse_token(wanted.token) if wanted.token else generate_token()
        if not allow_weak:
            verify_strength(token)
        ttl = gotext.parse_duration(wanted.ttl) if wanted.ttl else bootstrap_token.DEFAULT_TTL
        if wanted.expires:
            ttl = Time.parse(wanted.expires).datetime() - now
        return bootstrap_token.plan(
            token,
            now=now,
            ttl=ttl,
            usages=wanted.usages or bootstrap_token.DEFAULT_USAGES,
            groups=wanted.groups or None,
            description=wanted.description,
        )
    except WeakTokenError as err:
        hint = "leave it out for a random one; --insecure-allow-weak-token takes it nevertheless"
        raise SettingsError(str(err), hint) from err
    except (ValueError, bootstrap_token.TokenPhaseError) as err:
        raise SettingsError(f"the bootstrap token cannot be used: {err}", getattr(err, "hint", "")) from err


def published(path: Path) -> ClusterInfo:
    """Server and CA of a kubeconfig, which is what kubeadm publishes. Raises :class:`CertsError`."""
    try:
        config = kubeconfig.load(path.read_bytes())
        cluster = config.clusters[config.contexts[config.current_context].cluster]
    except (OSError, KeyError, KubeconfigError) as err:
        raise certs.CertsError(f"{path} cannot be used: {err}", "kubevouch init phase kubeconfig makes it") from err
    authority = cluster.certificate_authority_data
    if not authority and cluster.certificate_authority:
        try:
            authority = (path.parent / cluster.certificate_authority).read_bytes()
        except OSError as err:
            raise certs.CertsError(f"the certificate-authority of {path} cannot be read: {err}") from err
    if not authority:
        raise certs.CertsError(f"{path} has no certificate-authority-data", "kubevouch init phase kubeconfig makes it")
    return ClusterInfo(cluster.server, authority)


async def wait_for_server(client: Client, seconds: float, clock: Clock, report: Reporter) -> None:
    """Until the API server is ready. An answer that cannot become right ends the wait.

    Raises:
        TransportError: it did not answer until the time was over.
        APIStatusError
    """
    end = clock.monotonic() + seconds
    told = False
    while True:
        try:
            if (await client.raw("GET", "/readyz")).status == 200:
                return
            failure: TransportError | None = None
        except (TLSFailed, NotKubernetes):
            raise
        except TransportError as err:
            failure = err
        if clock.monotonic() >= end:
            raise failure or TransportError("the API server does not get ready")
        if not told:
            report.waiting("the API server does not answer yet; start it with these certificates")
            told = True
        await clock.sleep(_POLL_SECONDS)


async def _ensure_admins(client: Client, options: InitOptions, connect: Connect) -> None:
    """``admin.conf`` gets its rights by a binding; where it may not make that itself, ``super-admin.conf`` does."""
    try:
        await _reconcile(client, frozenset({wellknown.CLUSTER_ADMINS_GROUP}))
    except APIStatusError as err:
        super_admin = options.layout.kubeconfigs / "super-admin.conf"
        if err.code != 403 or not super_admin.exists():
            raise
        await _reconcile(await connect(super_admin), frozenset({wellknown.CLUSTER_ADMINS_GROUP}))


async def _reconcile(client: Client, names: frozenset[str]) -> None:
    policy = kubeadm_policy()
    shipped = (*policy.every_role, *policy.every_binding)
    await rbac.reconcile(client, [obj for obj in shipped if obj.metadata.name in names])


def _summary(made: list[Path], folder: Path) -> str:
    if not made:
        return f"{folder}: all there"
    return f"{folder}: {', '.join(sorted(str(path.relative_to(folder)) for path in made))}"


def would_do(options: InitOptions) -> list[str]:
    """A line for each thing that the chosen phases would write, without asking or changing anything."""
    settings, layout = options.settings, options.layout
    lines: list[str] = []
    if Phase.CERTS in options.phases:
        found = [layout.authority(each).certificate for each in control_plane_pki.authorities(settings)]
        found += [each.path(layout) for each in control_plane_pki.pairs(settings)]
        lines += [_would_write(path) for path in (*found, layout.pki / "sa.key")]
    if Phase.KUBECONFIG in options.phases:
        lines += [_would_write(each.path(layout)) for each in control_plane_pki.kubeconfigs()]
    objects: list[str] = []
    if Phase.UPLOAD_CONFIG in options.phases:
        objects += ["ConfigMap kube-system/kubeadm-config", "ConfigMap kube-system/kubelet-config"]
        objects += [f"Role and RoleBinding kube-system/{name}" for name in sorted(upload_config.POLICY)]
    if Phase.UPLOAD_CERTS in options.phases and options.upload_certs:
        objects += ["Secret kube-system/kubeadm-certs", "Role and RoleBinding kube-system/kubeadm:kubeadm-certs"]
    if Phase.BOOTSTRAP_TOKEN in options.phases:
        objects += [
            f"Secret kube-system/bootstrap-token-{each.token.partition('.')[0] or '<random>'}"
            for each in settings.init.bootstrap_tokens or [BootstrapTokenSettings()]
            if options.makes_tokens
        ]
        objects += [f"ClusterRoleBinding {name}" for name in sorted(_JOINING)]
    if Phase.CLUSTER_INFO in options.phases:
        objects += ["ConfigMap kube-public/cluster-info"]
    return [*lines, *(f"would store {each}" for each in objects)]


def _would_write(path: Path) -> str:
    return f"would keep {path} if it is good" if path.exists() else f"would write {path}"
