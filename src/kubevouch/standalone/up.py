"""``kubevouch up`` without the printing: a data directory becomes a running cluster.

Everything in the directory is found again at the next start. Certificates that are missing or no longer fit are made
anew, except authorities; what kubeadm makes in the cluster is made at the first start only (:mod:`.first_start`).
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import errno
import ipaddress
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from prometheus_client.core import Metric

from kubevouch.client.endpoint import Endpoint, EndpointError, endpoint_of_url
from kubevouch.config.inventory_config import Source
from kubevouch.controllers import catalog, csr_signing
from kubevouch.controllers.interface import ApproverService
from kubevouch.ledger.store import SQLiteLedger
from kubevouch.machinery.text import gotext
from kubevouch.phases import bootstrap_token, cluster_info, upload_config
from kubevouch.phases.certificates import certs
from kubevouch.phases.certificates.certs import CertsError, ControlPlanePKI
from kubevouch.phases.cluster_settings import SettingsError, control_plane_endpoint
from kubevouch.phases.tracing import TracingError, tracer_from
from kubevouch.pki import control_plane, pins
from kubevouch.pki.control_plane import CA, ControlPlaneNames
from kubevouch.pki.x509 import x509_certificate
from kubevouch.policy.kubelet_serving import ServingRules, normalized
from kubevouch.server.audit.build import AuditOptionsError, BuildAudit, prepare
from kubevouch.server.bootstrap import own_kinds
from kubevouch.server.edge.connection import ParserMissingError, require_parser
from kubevouch.server.filters.tracing import Tracing
from kubevouch.server.metrics import issuance
from kubevouch.server.runtime_config import RuntimeConfig, RuntimeConfigError
from kubevouch.signers.catalog import SigningOptions
from kubevouch.standalone import addresses, approval, attestation, network, service_accounts
from kubevouch.standalone.access import Access, AccessError
from kubevouch.standalone.approval import ApprovalOptionsError
from kubevouch.standalone.attestation import AttestationFile, AttestationOptionsError
from kubevouch.standalone.cluster_api import management_cluster
from kubevouch.standalone.controllers import start_controllers
from kubevouch.standalone.first_start import FirstStart
from kubevouch.standalone.kubeconfigs import ADMIN_FILE, SUPER_ADMIN_FILE, Kubeconfigs, Moved
from kubevouch.standalone.ledger import begin, open_ledger
from kubevouch.standalone.options import StandaloneOptions
from kubevouch.standalone.server import StandaloneServer
from kubevouch.standalone.service_accounts import ServiceAccountError
from kubevouch.storage.options import InvalidStoreSpec, MemorySpec, StoreSpec, parse_store
from kubevouch.util.clock import Clock
from kubevouch.util.files import PRIVATE_FOLDER, FileInUseError, locked, make_folder
from kubevouch.util.nearest import meant

LOCK_FILE = "kubevouch.lock"
PKI_FOLDER = "pki"
LOCAL_NAMES = ("localhost", network.LOOPBACK, "::1")


class UpError(Exception):
    """The cluster cannot start here; ``hint`` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class InvalidOptionsError(UpError):
    """A setting cannot be meant; nothing was changed."""


class NotHereError(UpError):
    """The directory, the port or a part of the program is not to be had; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Running:
    """A cluster that is ready.

    Args:
        admin_kubeconfig: None if there is none, and the CA's key to make it is elsewhere.
        shared: where cluster-info sends machines.
        tokens: those of the first start, while they hold.
        pin: the public key hash of the CA.
        keeps_state: False if the store ends with the process.
        moved: what names another server since this start.
        is_out_of_reach: whether that sends machines to where nothing of ours listens.
    """

    server: StandaloneServer
    admin_kubeconfig: Path | None
    shared: Endpoint
    tokens: bootstrap_token.TokenPair | None
    pin: str
    started: dt.timedelta
    keeps_state: bool
    moved: tuple[Moved, ...] = ()
    is_out_of_reach: bool = False

    @property
    def endpoint(self) -> Endpoint:
        return self.server.endpoint


@contextlib.asynccontextmanager
async def running(options: StandaloneOptions, clock: Clock) -> AsyncIterator[Running]:
    """A cluster in ``options.data_dir``, ready inside the block and drained at its end.

    Raises:
        UpError
        StoreError, LedgerError, CertsError, OSError: a file in the directory cannot be used.
    """
    begun = clock.monotonic()
    _require_parser()
    spec = _verified_store(options)
    _verify_signing(options)
    access = _verified_access(options, clock)
    audit = _verified_audit(options, clock)
    tracing = _verified_tracing(options)
    inventory = _verified_inventory(options)
    attesting = _verified_attestation(options)
    services = _verified_services(options, clock)
    async with contextlib.AsyncExitStack() as stack:
        for service in services:
            stack.push_async_callback(service.webhook.close)
        if tracing is not None:
            stack.push_async_callback(asyncio.to_thread, tracing.tracer.close)
        stack.enter_context(_only_here(options.data_dir))
        admin = options.data_dir / ADMIN_FILE
        # A first start that was cut short may have made the second one only.
        recorded = addresses.recorded(admin) or addresses.recorded(options.data_dir / SUPER_ADMIN_FILE)
        sockets = _bind(options, recorded)
        for bound in sockets:
            stack.callback(bound.close)
        endpoint = addresses.local(options, sockets[0].getsockname()[1])
        shared = addresses.shared(options, endpoint, recorded)
        # Until the store says what was decided, a flag for this server alone does not count.
        names = _names(options, endpoint, shared, recorded)
        pki = _ensure_pki(options, names, clock)
        kubeconfigs = Kubeconfigs(options, pki, endpoint, clock)
        store = await spec.open(clock)
        stack.push_async_callback(store.close)
        runtime_config = RuntimeConfig.parse(options.runtime_config)
        try:
            made = StandaloneServer(
                store,
                clock,
                pki,
                endpoint,
                runtime_config=runtime_config,
                access=access,
                audit=audit,
                options=options.server,
                tracing=tracing,
                service_accounts=options.service_accounts,
                disabled_admission=options.disabled_admission,
                recovery=options.recovery,
                at_first_start=FirstStart(options, pki, kubeconfigs, shared, clock),
                service_address=network.service_addresses(options.service_cluster_ip_range)[0],
            )
        except (AccessError, AuditOptionsError, ServiceAccountError) as err:
            raise InvalidOptionsError(str(err)) from err
        server = await stack.enter_async_context(made)
        await own_kinds.ensure(server.client)
        decided, moved = await _keep_endpoint(server, options, endpoint)
        published, elsewhere = await _keep_cluster_info(server, options, endpoint, decided)
        moved += elsewhere
        await cluster_info.tell_recovery(server.client, allowed=options.recovery is not None)
        tokens = None
        if options.token_ttl is not None and options.access.bootstrap_token_auth:
            tokens = await bootstrap_token.find(server.client, now=clock.now())
        issued = await open_ledger(spec, options.data_dir, clock)
        if isinstance(issued, SQLiteLedger):
            stack.push_async_callback(issued.close)
            await begin(issued, server.client, clock.now())
            server.api.metrics.read_at_scrape(partial(_of_ledger, issued))
        management = await stack.enter_async_context(management_cluster(options.cluster_api, clock))
        try:
            controllers = start_controllers(
                server,
                options.controllers,
                ledger=issued,
                signing=options.signing,
                identity=options.identity,
                inventory=inventory,
                serving=serving_rules(options, names, pki),
                approver_services=services,
                attesting=attesting,
                management=management,
                resolver=approval.resolver(options.approval, clock),
                node_monitor_grace_period=options.node_monitor_grace_period,
            )
        except AttestationOptionsError as err:
            raise InvalidOptionsError(str(err), err.hint) from err
        stack.push_async_callback(controllers.close)
        moved += kubeconfigs.keep(decided)
        sent = published or addresses.recorded(admin) or shared
        await server.listen(sockets)
        yield Running(
            server,
            admin if admin.exists() else None,
            sent,
            tokens,
            pins.pin_of(pki.certificate),
            dt.timedelta(seconds=clock.monotonic() - begun),
            keeps_state=not isinstance(spec, MemorySpec),
            moved=tuple(moved),
            is_out_of_reach=addresses.is_out_of_reach(sent, endpoint, options.bind_address, network.is_ours),
        )


def _of_ledger(ledger: SQLiteLedger) -> Iterator[Metric]:
    return issuance.collect(ledger.statistics, ledger.lag)


async def _keep_endpoint(
    server: StandaloneServer, options: StandaloneOptions, here: Endpoint
) -> tuple[Endpoint | None, list[Moved]]:
    """The address that all control planes share, as a start was told it, and how that has changed."""
    given = control_plane_endpoint(options.control_plane_endpoint, here.port)
    kept = await upload_config.keep_endpoint(server.client, given.address if given else "")
    if kept is None:
        return given, []
    former, now = kept
    moved = [] if former == now else [Moved("kubeadm-config", former, now, "endpoint")]
    try:
        return control_plane_endpoint(now, here.port), moved
    except SettingsError:
        return None, moved


async def _keep_cluster_info(
    server: StandaloneServer, options: StandaloneOptions, here: Endpoint, decided: Endpoint | None
) -> tuple[Endpoint | None, list[Moved]]:
    """Where it sends machines, None if nowhere, and how that has changed."""

    def move(url: str) -> str:
        try:
            former = endpoint_of_url(url)
        except EndpointError:
            return url
        now = addresses.shared(options, here, former, decided)
        return url if now == former else now.url

    kept = await cluster_info.keep(
        server.client,
        server.pki.ca_certificate,
        move,
        cluster_id=await cluster_info.cluster_id(server.client),
        servers=tuple(each.url for each in addresses.others(options, here)),
    )
    if kept is None:
        return None, []
    former, info = kept
    moved = [] if former.server == info.server else [Moved("cluster-info", former.server, info.server)]
    if former.servers != info.servers:
        moved.append(Moved("cluster-info", ", ".join(former.servers), ", ".join(info.servers), "other servers"))
    try:
        return endpoint_of_url(info.server), moved
    except EndpointError:
        return None, moved


def _ensure_pki(options: StandaloneOptions, names: ControlPlaneNames, clock: Clock) -> ControlPlanePKI:
    signs = csr_signing.NAME in {each.name for each in catalog.select(options.controllers)}
    needs_key = signs and not options.signing.is_elsewhere
    try:
        return certs.ensure_control_plane(
            options.data_dir / PKI_FOLDER, names, now=clock.now(), algorithm=options.key_algorithm, needs_key=needs_key
        )
    except CertsError as err:
        if needs_key and not (options.data_dir / PKI_FOLDER / f"{CA}.key").exists():
            hint = f"{err.hint}; --controllers=*,-csrsigning or --cluster-signing-cert-file starts without it"
            raise CertsError(str(err), hint) from err
        raise


def _require_parser() -> None:
    try:
        require_parser()
    except ParserMissingError as err:
        hint = "unset AIOHTTP_NO_EXTENSIONS, and install aiohttp from a wheel"
        raise NotHereError(str(err), hint) from err


def _verified_access(options: StandaloneOptions, clock: Clock) -> Access:
    try:
        service_accounts.check(options.service_accounts)
        accounts = options.service_accounts
        return Access(options.access, accounts.audiences, clock, own_issuers=accounts.issuers)
    except (AccessError, ServiceAccountError) as err:
        raise InvalidOptionsError(str(err)) from err


def _verified_audit(options: StandaloneOptions, clock: Clock) -> BuildAudit:
    try:
        return prepare(options.audit, clock)
    except AuditOptionsError as err:
        raise InvalidOptionsError(str(err)) from err


def _verified_tracing(options: StandaloneOptions) -> Tracing | None:
    path = options.server.tracing_config_file
    if path is None:
        return None
    try:
        return Tracing(tracer_from(path, "kube-apiserver"))
    except TracingError as err:
        raise InvalidOptionsError(str(err)) from err


def _verified_inventory(options: StandaloneOptions) -> Sequence[Source]:
    try:
        return approval.inventory_sources(options.approval)
    except ApprovalOptionsError as err:
        raise InvalidOptionsError(str(err)) from err


def _verified_attestation(options: StandaloneOptions) -> AttestationFile | None:
    try:
        return attestation.read(options.approval.attestation_config)
    except AttestationOptionsError as err:
        raise InvalidOptionsError(str(err), err.hint) from err


def _verified_services(options: StandaloneOptions, clock: Clock) -> Sequence[ApproverService]:
    try:
        return approval.approver_services(options.approval, clock)
    except ApprovalOptionsError as err:
        raise InvalidOptionsError(str(err)) from err


def _verify_signing(options: StandaloneOptions) -> None:
    signing = options.signing
    problems = SigningOptions(signing.default, signing.pairs, socket=signing.socket).problems()
    if problems:
        raise InvalidOptionsError("; ".join(problems), "a pair for all signers, or one for each that is to sign")


def _verified_store(options: StandaloneOptions) -> StoreSpec:
    """The store, once every setting that needs no look at the machine is known to be good."""
    if options.token_ttl is not None and options.token_ttl < dt.timedelta():
        got = gotext.format_duration(options.token_ttl)
        raise InvalidOptionsError(f"got the token TTL {got}, expected 0 or more", "0 is a token without end")
    try:
        network.service_addresses(options.service_cluster_ip_range)
    except ValueError as err:
        got = gotext.quote(options.service_cluster_ip_range)
        raise InvalidOptionsError(
            f"got the service range {got}, expected one such as 10.96.0.0/12",
            "two, of one family each, are separated by a comma",
        ) from err
    try:
        catalog.select(options.controllers)
    except catalog.UnknownControllerError as err:
        known = [each.alias for each in catalog.CONTROLLERS]
        hint = meant(err.words[0], known, f"the list is *, {', '.join(known)}")
        raise InvalidOptionsError("; ".join(str(err).splitlines()), hint) from err
    try:
        RuntimeConfig.parse(options.runtime_config)
    except RuntimeConfigError as err:
        raise InvalidOptionsError(str(err), "an example: certificates.k8s.io/v1beta1=true") from err
    try:
        return parse_store(options.store, options.data_dir)
    except InvalidStoreSpec as err:
        raise InvalidOptionsError(str(err)) from err


@contextlib.contextmanager
def _only_here(data_dir: Path) -> Iterator[None]:
    """Holds the directory, which is made if it is missing."""
    lock = data_dir / LOCK_FILE
    with contextlib.ExitStack() as held:
        try:
            make_folder(data_dir, PRIVATE_FOLDER)
            held.enter_context(locked(lock))
        except FileInUseError as err:
            raise NotHereError(
                f"the data directory {data_dir} is in use by process {lock.read_text().strip() or 'unknown'}",
                "stop that process, or choose another --data-dir",
            ) from err
        except OSError as err:
            raise NotHereError(
                f"the data directory {data_dir} cannot be written: {_words(err)}",
                getattr(err, "hint", "choose a --data-dir that this user may write"),
            ) from err
        yield


_NO_LISTENING = {
    errno.EADDRINUSE: "stop what listens there, or choose another --secure-port; 0 picks a free one",
    errno.EADDRNOTAVAIL: "choose a --bind-address that this machine has; 0.0.0.0 is all of them",
    errno.EACCES: "choose a --secure-port of 1024 or more",
}


def _bind(options: StandaloneOptions, recorded: Endpoint | None) -> list[socket.socket]:
    """``recorded``: where machines are sent; a port that is to be picked is that one, if it is free."""
    if options.secure_port == 0 and recorded is not None and network.is_ours(recorded.host):
        with contextlib.suppress(OSError):
            return network.bind(options.bind_address, recorded.port)
    try:
        return network.bind(options.bind_address, options.secure_port)
    except OSError as err:
        where = Endpoint(options.bind_address, options.secure_port).address
        raise NotHereError(f"cannot listen on {where}: {_words(err)}", _NO_LISTENING.get(err.errno or 0, "")) from err


def _words(err: OSError) -> str:
    return (err.strerror or str(err)).lower()


def serving_rules(options: StandaloneOptions, names: ControlPlaneNames, pki: ControlPlanePKI) -> ServingRules | None:
    """What kubelets' serving certificates are judged by; None where nobody judges them.

    Raises:
        ParseError, OSError: the certificate that is served cannot be read.
    """
    if options.approval.serving is None:
        return None
    # Names that a former start was given are kept in the certificate, and clients still believe them.
    served = x509_certificate.parse_bundle(pki.apiserver.certificate.read_bytes())[0].meaning.alt_names
    wanted = control_plane.apiserver(names).spec.alt_names
    own = (*served.dns_names, *served.ip_addresses, *wanted.dns_names, *wanted.ip_addresses)
    ranges = options.service_cluster_ip_range.split(",")
    return ServingRules(
        networks=options.approval.serving.networks,
        domains=options.approval.serving.domains,
        api_server=frozenset(map(normalized, map(str, own))),
        service_ranges=tuple(ipaddress.ip_network(text.strip()) for text in ranges),
        cluster_domains=(names.dns_domain,),
        source_is_told=True,
    )


def _names(
    options: StandaloneOptions, endpoint: Endpoint, shared: Endpoint, recorded: Endpoint | None
) -> ControlPlaneNames:
    kept = () if recorded is None else (recorded.host,)
    return ControlPlaneNames(
        node_name=socket.gethostname().lower(),
        advertise_address=endpoint.host,
        endpoint_host=shared.host,
        service_addresses=network.service_addresses(options.service_cluster_ip_range),
        extra=(*LOCAL_NAMES, *options.extra_names, *kept, *(each.host for each in addresses.others(options, endpoint))),
    )
