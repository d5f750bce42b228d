"""The join phase: a machine with an address, a token and a pin becomes a node with files in the kubelet's places.

Every step finds what an earlier run has left: a run that was killed is simply run again.
"""

from __future__ import annotations

import datetime as dt
import random as random_module
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from kubevouch.agent import file_discovery, node_kubeconfig
from kubevouch.agent.attestation_settings import AttestationSettings, is_given_for
from kubevouch.agent.bootstrap import TIMEOUT_SECONDS, Bootstrap, bootstrap
from kubevouch.agent.bootstrap_state import KubeconfigState, judge_kubeconfig
from kubevouch.agent.certificate_request import credential_refused
from kubevouch.agent.certificate_store import CertificateStore
from kubevouch.agent.discovery import DiscoveredCluster, TokenDiscovery, discover
from kubevouch.agent.file_discovery import FileDiscovery
from kubevouch.agent.interface import NotTrustedError, Observer, SettingsError, Step
from kubevouch.agent.serving import PREFIX, SELF_SIGNED_WARNING, ensure_self_signed
from kubevouch.api import catalog
from kubevouch.client.credentials import FixedCredential
from kubevouch.client.https import HTTPSClient
from kubevouch.client.interface import Client, ClientConfigurationError, ConnectFailed, TransportError
from kubevouch.client.options import ClientOptions
from kubevouch.client.rest_config import client_from_kubeconfig
from kubevouch.client.tls import TLSFiles, TLSSources
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.text import names
from kubevouch.machinery.text.gotext import quote
from kubevouch.phases import (
    cluster_info,
    control_plane_join,
    mark_control_plane,
    preflight,
    upload_config,
)
from kubevouch.phases.control_plane_join import ControlPlane
from kubevouch.phases.join_phases import ALL, ASK_THE_CLUSTER, PREPARE, Phase
from kubevouch.phases.kubeconfig import write
from kubevouch.phases.preflight_machine import Machine
from kubevouch.pki import rotation
from kubevouch.pki.client_certificate import TrustAnchors, verify_chain
from kubevouch.pki.errors import ClientCertificateError, ParseError
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.records import cluster_identity
from kubevouch.records.bootstrap_tokens import Token
from kubevouch.util import backoff
from kubevouch.util.clock import Clock
from kubevouch.util.files import PUBLIC, make_folder, write_atomically

KUBELET_CONF = Path("etc/kubernetes/kubelet.conf")
BOOTSTRAP_CONF = Path("etc/kubernetes/bootstrap-kubelet.conf")
CA_CERTIFICATE = Path("etc/kubernetes/pki/ca.crt")
CERTIFICATE_FOLDER = Path("var/lib/kubelet/pki")
KUBELET_CONFIG = Path("var/lib/kubelet/config.yaml")
KUBELET_FLAGS = Path("var/lib/kubelet/kubeadm-flags.env")
ADMIN_CONF = Path("etc/kubernetes/admin.conf")

# kubeadm's names in the file that it hands over.


_LONGEST_VERSION = 64
# Servers that stop in the middle, one after the other.
_ATTEMPTS = 4


class _Version(msgspec.Struct, frozen=True):
    git_version: str = msgspec.field(default="", name="gitVersion")


class JoinError(Exception):
    """The machine may not join as it stands; nothing was changed. ``hint`` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class JoinOptions:
    """What to join, as whom, and where to write.

    Args:
        discovery: None for phases that ask no cluster.
        rootfs: before every path that is written; links and kubeconfig are then relative, so that the tree works where
            it stands and as the root of a machine.
        bootstrap_timeout: seconds for request and certificate.
        tls_bootstrap_token: for the certificate request; None is that of the discovery.
        key: of the node's first certificate, for a token that is bound to its public half; None makes one.
        control_plane: also make the files of a control plane.
        ignored: preflight checks that only warn; None leaves out all checks.
        kubelet_args: for the kubelet, without dashes.
        phases: those that run.
        cri_socket: of the container runtime; empty looks in the usual places.
        serve_self_signed: leave a self-signed serving pair where the kubelet keeps its own, until one is issued.
        cluster_id: which cluster it has to be, as its cluster-info says, or the pin of a CA of it; empty is that of an
            earlier join, if any. Where cluster-info says nothing, proofs are made for it, and show it.
        attestation: how the machine proves what it is; None does not.
    """

    discovery: TokenDiscovery | FileDiscovery | None
    node_name: str
    rootfs: Path | None = None
    bootstrap_timeout: float = TIMEOUT_SECONDS
    tls_bootstrap_token: Token | None = None
    key: PrivateKey | None = field(default=None, repr=False)
    control_plane: ControlPlane | None = None
    ignored: frozenset[str] | None = None
    kubelet_args: tuple[tuple[str, str], ...] = ()
    phases: frozenset[Phase] = ALL
    cri_socket: str = ""
    cluster_id: str = ""
    serve_self_signed: bool = False
    attestation: AttestationSettings | None = None

    @property
    def token(self) -> Token:
        """The token for the certificate request. Raises :class:`SettingsError`."""
        if self.tls_bootstrap_token is not None:
            return self.tls_bootstrap_token
        if isinstance(self.discovery, TokenDiscovery):
            return self.discovery.token
        raise SettingsError("there is no token for the certificate request", "give --tls-bootstrap-token")

    @property
    def root(self) -> Path:
        return Path("/") if self.rootfs is None else self.rootfs


class Joined(msgspec.Struct, frozen=True):
    """``already``: there was nothing to do."""

    kubelet_conf: Path
    not_after: dt.datetime
    already: bool = False


def verify_node_name(text: str) -> str:
    """``text`` in lower case, if a node can have that name. Raises :class:`SettingsError`."""
    name = text.strip().lower()
    faults = names.subdomain(name)
    if faults:
        raise SettingsError(f"the node name {quote(text)} cannot be used: {faults[0]}", "choose another --node-name")
    return name


async def join(
    options: JoinOptions, clock: Clock, observer: Observer, random: backoff.Random = random_module.random
) -> Joined:
    """All of it. Raises what :func:`run` raises."""
    joined = await run(
        replace(options, phases=options.phases | {Phase.KUBELET_WAIT_BOOTSTRAP}), clock, observer, random
    )
    assert joined is not None
    return joined


async def run(
    options: JoinOptions, clock: Clock, observer: Observer, random: backoff.Random = random_module.random
) -> Joined | None:
    """The chosen phases in their order. Returns None if the machine's own certificate was not among them.

    Raises:
        JoinError: the machine belongs to another cluster or is another node, or the node is there and well.
        PreflightError: a check stands in the way; nothing was changed.
        CertsError: the files of a control plane cannot be had or made.
        AgentError: discovery or bootstrap did not come to an end; run again when the reason is gone.
        APIStatusError, TransportError: what only a control plane asks for was refused.
        OSError: a file cannot be read or written.
    """
    joined = None
    known = _known(options, clock, observer)
    if known is not None:
        joined = Joined(options.root / KUBELET_CONF, known.chain[0].not_after, already=True)
    else:
        check(options, observer)
        if options.phases & ASK_THE_CLUSTER:
            joined = await _enter(options, clock, observer, random)
    if joined is not None and options.serve_self_signed:
        store = CertificateStore(options.root / CERTIFICATE_FOLDER, PREFIX, relative_links=options.rootfs is not None)
        if ensure_self_signed(store, options.node_name, (), now=clock.now()):
            observer.warning(f"{store.current_path}: {SELF_SIGNED_WARNING}")
    if options.control_plane is not None and Phase.MARK_CONTROL_PLANE in options.phases:
        await _mark(options, observer)
    return joined


def _known(options: JoinOptions, clock: Clock, observer: Observer) -> KubeconfigState | None:
    """The credential that is there already and good. Raises :class:`JoinError`."""
    if Phase.KUBELET_WAIT_BOOTSTRAP not in options.phases:
        return None
    known = verify_joined(options, clock)
    if known is None:
        return None
    if known.problem:
        observer.warning(f"{options.root / KUBELET_CONF} is replaced: {known.problem}")
        return None
    if not is_given_for(_store(options).current_path, options.attestation, known.chain[0]):
        observer.warning(f"the certificate is replaced: it was not given for a proof by {options.attestation}")
        return None
    _clean_up(options)
    return known


def verify_joined(options: JoinOptions, clock: Clock) -> KubeconfigState | None:
    """The credential that is there already, good or not.

    Raises:
        JoinError: it is good, and of another cluster or name.
        OSError: it cannot be read.
    """
    known = judge_kubeconfig(options.root / KUBELET_CONF, clock.now())
    if known is not None and not known.problem:
        _verify_same(known, options, clock.now())
    return known


async def _enter(options: JoinOptions, clock: Clock, observer: Observer, random: backoff.Random) -> Joined | None:
    root, phases = options.root, options.phases
    with_token = bool(phases & {Phase.KUBELET_START, Phase.KUBELET_WAIT_BOOTSTRAP})
    certificate = None
    cluster = await find_cluster(options, clock, observer, random)
    try:
        if with_token:
            write(root / BOOTSTRAP_CONF, node_kubeconfig.for_token(cluster, options.token))
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                async with _reached(cluster, options, clock, observer) as client:
                    await verify_node_is_free(client, options.node_name)
                    if options.control_plane is not None and phases & PREPARE:
                        await _become_control_plane(client, cluster, options, clock, observer)
                    if Phase.KUBELET_START in phases:
                        _write_authority(root / CA_CERTIFICATE, cluster, observer)
                        await _write_kubelet_files(client, options)
                    if Phase.KUBELET_WAIT_BOOTSTRAP in phases:
                        certificate = await _certificate(client, options, cluster, clock, observer, random)
                        write(root / KUBELET_CONF, kubelet_kubeconfig(cluster, options))
                break
            except ConnectFailed:
                # It has stopped since it was found: another one may answer, and everything can be done again.
                if attempt == _ATTEMPTS:
                    raise
    except BaseException:
        if with_token:
            _clean_up(options)
        raise
    if certificate is None:
        # What is left out asks with the file that kubelet-start has left.
        return None
    _clean_up(options)
    observer.done(Step.WRITTEN, str(root / KUBELET_CONF))
    return Joined(root / KUBELET_CONF, certificate.not_after)


@asynccontextmanager
async def _reached(
    cluster: DiscoveredCluster, options: JoinOptions, clock: Clock, observer: Observer
) -> AsyncIterator[HTTPSClient]:
    """A client of the first address of the cluster that answers; if none does, of the last."""
    addresses = (
        cluster,
        *(msgspec.structs.replace(cluster, server=url, tls_server_name="") for url in cluster.servers),
    )
    for number, each in enumerate(addresses, 1):
        async with client_of(each, options, clock, observer) as client:
            try:
                version = await _server_version(client)
            except TransportError as err:
                version = ""
                if number < len(addresses):
                    observer.warning(f"{err}; the next address of the cluster is tried")
                    continue
            observer.done(Step.SERVER_ASKED, version)
            yield client
            return


async def _server_version(client: Client) -> str:
    """The server's own word, empty if it has none: who joins has to know which kubelets go with it.

    Raises:
        TransportError
    """
    answer = await client.raw("GET", "/version")
    try:
        return msgspec.json.decode(answer.body, type=_Version).git_version[:_LONGEST_VERSION]
    except msgspec.DecodeError:
        return ""


async def _mark(options: JoinOptions, observer: Observer) -> None:
    """What has come before stands, so that a failure only warns unless this is all that was wanted."""
    again = f"kubevouch join phase {Phase.MARK_CONTROL_PLANE} --control-plane does it later"
    try:
        async with client_from_kubeconfig(options.root / ADMIN_CONF, component="cli") as client:
            there = await mark_control_plane.mark(client, options.node_name)
    except (APIStatusError, TransportError, ClientConfigurationError) as err:
        if options.phases == {Phase.MARK_CONTROL_PLANE}:
            raise
        observer.warning(f"the Node {options.node_name} could not be marked as a control plane: {err}; {again}")
        return
    if there:
        observer.done(Step.WRITTEN, f"labels and taint of the Node {options.node_name}")
    else:
        observer.warning(f"there is no Node {options.node_name} to be marked as a control plane yet; {again}")


def check(options: JoinOptions, observer: Observer) -> None:
    """The preflight phase. Raises :class:`PreflightError`."""
    if options.ignored is None or Phase.PREFLIGHT not in options.phases:
        return
    machine = Machine.here(
        options.rootfs, options.node_name, ports=[preflight.KUBELET_PORT], cri_socket=options.cri_socket
    )
    found = preflight.before_join(
        machine,
        options.node_name,
        control_plane=options.control_plane is not None,
        cri_socket=options.cri_socket,
    )
    for each in preflight.judge(found, options.ignored):
        observer.warning(f"{each.check}: {each.message}")


async def find_cluster(
    options: JoinOptions, clock: Clock, observer: Observer, random: backoff.Random
) -> DiscoveredCluster:
    """By the way that the options name. Raises ``AgentError``."""
    if isinstance(options.discovery, TokenDiscovery):
        found = await discover(options.discovery, clock, observer, random)
    else:
        assert options.discovery is not None
        found = await file_discovery.discover(options.discovery, clock, observer, random)
    verify_cluster(found, options, clock.now())
    if options.cluster_id and not found.cluster_id and not cluster_identity.is_pin(options.cluster_id):
        observer.warning(
            f"the cluster does not say which it is: that it is {options.cluster_id} shows when it takes the proof"
        )
        return msgspec.structs.replace(found, cluster_id=options.cluster_id)
    return found


def verify_cluster(found: DiscoveredCluster, options: JoinOptions, now: dt.datetime) -> None:
    """Two clusters may have one CA, and an address may change hands: a machine stays in the cluster that it was in.

    Raises:
        NotTrustedError: it is another cluster than a flag or an earlier join says.
        OSError: the kubeconfig of an earlier join cannot be read.
    """
    if cluster_identity.is_pin(options.cluster_id):
        pins = cluster_identity.pins_in(found.certificate_authority_data)
        if options.cluster_id.lower() not in pins:
            raise NotTrustedError(
                f"{found.server} is the cluster with the CA {' and '.join(sorted(pins))}, expected "
                f"{options.cluster_id}",
                "check the address, and the CA of the cluster",
            )
        return
    if options.cluster_id:
        if found.cluster_id and found.cluster_id != options.cluster_id:
            raise NotTrustedError(
                f"{found.server} is the cluster {found.cluster_id}, expected {options.cluster_id}",
                "check the address; kubectl get namespace kube-system -o jsonpath={.metadata.uid} prints a cluster's",
            )
        if not found.cluster_id and options.attestation is None:
            raise NotTrustedError(
                f"{found.server} is a cluster that does not say which it is, expected {options.cluster_id}",
                "kubevouch init phase cluster-info has it say so; or give the pin of its CA, --cluster-id sha256:HASH, "
                "which needs nothing of the cluster",
            )
        return
    # What the phase kubelet-start writes is read by the phase behind it alone.
    starts = Phase.KUBELET_START in options.phases
    for path in (KUBELET_CONF,) if starts else (KUBELET_CONF, BOOTSTRAP_CONF):
        known = judge_kubeconfig(options.root / path, now)
        if known is not None and known.cluster_id and found.cluster_id and known.cluster_id != found.cluster_id:
            raise NotTrustedError(
                f"{found.server} is the cluster {found.cluster_id}, and this machine is of {known.cluster_id} "
                f"({options.root / path})",
                "check the address; kubevouch reset lets the machine leave the other cluster",
            )


@asynccontextmanager
async def client_of(
    cluster: DiscoveredCluster, options: JoinOptions, clock: Clock, observer: Observer
) -> AsyncIterator[HTTPSClient]:
    """A client that asks with the token. Whatever the block asks for, a 401 ends it as ``RequestDeniedError``."""
    client = HTTPSClient(
        ClientOptions(server=cluster.server, component="agent", proxy=cluster.proxy_url),
        tls=TLSFiles(
            TLSSources(ca_bundle=cluster.certificate_authority_data, server_name=cluster.tls_server_name), clock
        ),
        credentials=FixedCredential.token(options.token.text),
        clock=clock,
        on_warning=observer.warning,
    )
    async with client:
        try:
            yield client
        except APIStatusError as err:
            if err.code != 401:
                raise
            raise credential_refused("the token", err) from err


async def _certificate(
    client: Client,
    options: JoinOptions,
    cluster: DiscoveredCluster,
    clock: Clock,
    observer: Observer,
    random: backoff.Random,
) -> x509_certificate.Certificate:
    anchors = TrustAnchors(x509_certificate.parse_bundle(cluster.certificate_authority_data))
    wanted = Bootstrap(
        options.node_name,
        anchors,
        options.token.user,
        options.bootstrap_timeout,
        options.key,
        options.attestation,
        cluster.cluster_id,
    )
    return await bootstrap(client, _store(options), wanted, clock, observer, random)


async def _become_control_plane(
    client: Client, cluster: DiscoveredCluster, options: JoinOptions, clock: Clock, observer: Observer
) -> None:
    assert options.control_plane is not None
    made = await control_plane_join.prepare(
        client,
        options.control_plane,
        options.node_name,
        rootfs=options.rootfs,
        proven=cluster.certificate_authority_data,
        clock=clock,
        phases=options.phases & PREPARE,
    )
    observer.done(Step.WRITTEN, f"{len(made)} files of a control plane")


# ------------------------------------------------------------------ what stands in the way


def _verify_same(known: KubeconfigState, options: JoinOptions, now: dt.datetime) -> None:
    """A machine that has a good credential stays what it is. Raises :class:`JoinError`."""
    path = options.root / KUBELET_CONF
    hint = f"move {path} away first, or choose another --rootfs"
    leaf = known.chain[0]
    if not rotation.satisfies(leaf, rotation.node_client(options.node_name)):
        raise JoinError(f"this machine has already joined as {leaf.subject.common_name}", hint)
    try:
        bundle = x509_certificate.parse_bundle(known.certificate_authority_data)
        verify_chain(leaf, known.chain[1:], TrustAnchors(bundle), now=now)
    except ParseError as err:
        raise JoinError(f"{path} holds no CA certificate: {err}", hint) from err
    except ClientCertificateError as err:
        raise JoinError(f"{path} holds a credential that its own CA does not vouch for: {err}", hint) from err
    assert options.discovery is not None
    pinned = options.discovery.pins
    if cluster_identity.is_pin(options.cluster_id):
        another = options.cluster_id.lower() not in cluster_identity.pins_in(known.certificate_authority_data)
    else:
        another = bool(options.cluster_id and known.cluster_id and known.cluster_id != options.cluster_id)
    elsewhere = known.server not in [each.url for each in options.discovery.endpoints]
    if another or (pinned and not any(map(pinned.covers, bundle))) or (not pinned and elsewhere):
        raise JoinError(f"this machine has already joined another cluster, {known.server}", hint)


async def verify_node_is_free(client: Client, node_name: str) -> None:
    """kubeadm's courtesy: a node that is there and well is not taken over by accident. Raises :class:`JoinError`."""
    try:
        node = await client.get(catalog.NODES, node_name)
    except (APIStatusError, TransportError):
        # Not there, or not for tokens to see; the request that follows tells what else is wrong.
        return
    if any(condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions):
        raise JoinError(
            f'a Node with name {quote(node_name)} and status "Ready" already exists in the cluster. You must delete '
            "the existing Node or change the name of this new joining Node",
            f"choose another --node-name, or kubectl delete node {node_name}",
        )


# ------------------------------------------------------------------ files


def _store(options: JoinOptions) -> CertificateStore:
    folder = options.root / CERTIFICATE_FOLDER
    return CertificateStore(folder, relative_links=options.rootfs is not None)


async def _write_kubelet_files(client: Client, options: JoinOptions) -> None:
    """The settings of kubelets as the cluster publishes them, if it does."""
    text = await upload_config.fetch_kubelet(client)
    if text is None:
        return
    write(options.root / KUBELET_CONFIG, text)
    arguments = " ".join(sorted(f"--{name}={value}" for name, value in options.kubelet_args))
    write(options.root / KUBELET_FLAGS, f'KUBELET_KUBEADM_ARGS="{arguments}"\n')


def kubelet_kubeconfig(cluster: DiscoveredCluster, options: JoinOptions) -> str:
    """What a kubelet writes for itself once it has a certificate."""
    current = _store(options).current_path
    if options.rootfs is not None:
        # Relative to the file itself, as every path in a kubeconfig.
        shown = str(Path("../..") / current.relative_to(options.root))
    else:
        shown = str(current)
    return node_kubeconfig.build(node_kubeconfig.cluster_of(cluster), shown)


def _write_authority(path: Path, cluster: DiscoveredCluster, observer: Observer) -> None:
    """Raises :class:`JoinError` where another cluster's CA is at home."""
    wanted = cluster.certificate_authority_data
    if path.exists():
        if cluster_info.same_certificates(path.read_bytes(), wanted):
            return
        if path.with_suffix(".key").exists():
            raise JoinError(
                f"{path} is the CA of another cluster, whose key is beside it",
                "this machine is a control plane; choose another machine or --rootfs",
            )
        observer.warning(f"{path} is replaced: it held another CA")
    make_folder(path.parent)
    write_atomically(path, wanted, mode=PUBLIC)


def _clean_up(options: JoinOptions) -> None:
    """The token does not stay on the machine, whatever the outcome (as kubeadm)."""
    (options.root / BOOTSTRAP_CONF).unlink(missing_ok=True)
