"""``kubevouch up`` without the printing: a data directory becomes a running cluster, server and controllers."""

from __future__ import annotations

import contextlib
import datetime as dt
import ipaddress
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec
from prometheus_client.core import Metric

from kubevouch.client.endpoint import Endpoint
from kubevouch.client.leader_election import ElectionOptions
from kubevouch.config.inventory_config import Source
from kubevouch.controllers import catalog, csr_signing, decision_protection
from kubevouch.controllers.decision_releases import DecisionReleases
from kubevouch.controllers.interface import ApproverService
from kubevouch.ledger.store import SQLiteLedger
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.text import gotext
from kubevouch.phases import bootstrap_token, deleted_nodes
from kubevouch.phases.certificates.certs import ControlPlanePKI
from kubevouch.pki import control_plane, pins
from kubevouch.pki.control_plane import ControlPlaneNames
from kubevouch.pki.x509 import x509_certificate
from kubevouch.policy.kubelet_serving import ServingRules, normalized
from kubevouch.server.metrics import issuance
from kubevouch.signers.catalog import SigningOptions
from kubevouch.standalone import addresses, approval, attestation, network
from kubevouch.standalone.api_server import server_settings
from kubevouch.standalone.approval import ApprovalOptionsError
from kubevouch.standalone.attestation import AttestationFile, AttestationOptionsError
from kubevouch.standalone.cluster_api import management_cluster
from kubevouch.standalone.controllers import ControllerPlan, start
from kubevouch.standalone.data_directory import prepared
from kubevouch.standalone.errors import InvalidOptionsError
from kubevouch.standalone.kubeconfigs import ADMIN_FILE, Moved
from kubevouch.standalone.leading import LedControllers
from kubevouch.standalone.ledger import begin, open_ledger, tell_lost_revocations
from kubevouch.standalone.options import StandaloneOptions
from kubevouch.standalone.revocation import keep_what_stands
from kubevouch.standalone.server import StandaloneServer
from kubevouch.standalone.workers.fork_server import ForkServer
from kubevouch.standalone.workers.supervisor import working
from kubevouch.storage.options import MemorySpec
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger
from kubevouch.util.nearest import meant

log = get_logger("up")


class Running(msgspec.Struct, frozen=True):
    """A cluster that is ready.

    Args:
        admin_kubeconfig: None if there is none, and the CA's key to make it is elsewhere.
        shared: where cluster-info sends machines.
        tokens: those of the first start, while they hold.
        pin: the public key hash of the CA.
        keeps_state: False if the store ends with the process.
        locks_deleted_nodes: whether the certificates of a deleted Node count no more.
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
    locks_deleted_nodes: bool = False
    moved: tuple[Moved, ...] = ()
    is_out_of_reach: bool = False

    @property
    def endpoint(self) -> Endpoint:
        return self.server.endpoint


@contextlib.asynccontextmanager
async def running(options: StandaloneOptions, clock: Clock, forks: ForkServer | None = None) -> AsyncIterator[Running]:
    """A cluster in ``options.data_dir``, ready inside the block and drained at its end.

    Args:
        forks: makes the workers that serve; None serves in this process.

    Raises:
        StartError
        StoreError, LedgerError, CertsError, OSError: a file in the directory cannot be used.
    """
    begun = clock.monotonic()
    _verify(options)
    settings = server_settings(options, clock)
    inventory = _verified_inventory(options)
    attesting = _verified_attestation(options)
    services = _verified_services(options, clock)
    async with contextlib.AsyncExitStack() as stack:
        for service in services:
            stack.push_async_callback(service.webhook.close)
        served = await stack.enter_async_context(
            prepared(options, settings, clock, needs_key=_signs(options) and not options.signing.is_elsewhere)
        )
        server = served.server
        wanted = options.identity.lock_out_deleted_nodes
        # After a first start it is decided: a cluster without a decision is older.
        locks = await deleted_nodes.settle(server.client, wanted, otherwise=False)
        tokens = None
        if options.token_ttl is not None and options.access.bootstrap_token_auth:
            tokens = await _first_tokens(server, clock)
        issued = await open_ledger(settings.store, options.data_dir, clock)
        if isinstance(issued, SQLiteLedger):
            stack.push_async_callback(issued.close)
            await stack.enter_async_context(served.data.watching(issued.expect_in_place))
            await begin(issued, server.client, clock.now())
            await tell_lost_revocations(issued, server.revocations)
            server.api.metrics.read_at_scrape(partial(_of_ledger, issued))
        if decision_protection.NAME in {each.name for each in catalog.select(options.controllers)}:
            releases = DecisionReleases(server.client, clock) if settings.store.is_shared else None
            await keep_what_stands(server.revocations, issued, releases)
        try:
            plan = ControllerPlan(
                server,
                options.controllers,
                ledger=issued,
                signing=options.signing,
                identity=msgspec.structs.replace(options.identity, lock_out_deleted_nodes=locks),
                inventory=inventory,
                serving=serving_rules(options, served.names, server.pki),
                approver_services=services,
                attesting=attesting,
                resolver=approval.resolver(options.approval, clock),
                node_monitor_grace_period=options.node_monitor_grace_period,
            )
        except AttestationOptionsError as err:
            raise InvalidOptionsError(str(err), err.hint) from err
        management = partial(management_cluster, options.cluster_api, clock)
        if settings.store.is_shared:
            # Other servers have controllers, too.
            stack.push_async_callback(LedControllers(server, plan, ElectionOptions(), management).close)
        else:
            beside = await stack.enter_async_context(management())
            stack.push_async_callback(start(server, plan, beside).close)
        moved = (*served.moved, *served.kubeconfigs.keep(served.decided))
        sent = served.sent()
        if forks is None:
            await server.listen(served.sockets)
        else:
            workers = working(server, served.store, served.sockets, forks, options.workers, clock)
            await stack.enter_async_context(workers)
        admin = options.data_dir / ADMIN_FILE
        yield Running(
            server,
            admin if admin.exists() else None,
            sent,
            tokens,
            pins.pin_of(server.pki.certificate),
            dt.timedelta(seconds=clock.monotonic() - begun),
            keeps_state=not isinstance(settings.store, MemorySpec),
            locks_deleted_nodes=locks,
            moved=moved,
            is_out_of_reach=addresses.is_out_of_reach(sent, server.endpoint, options.bind_address, network.is_ours),
        )


async def _first_tokens(server: StandaloneServer, clock: Clock) -> bootstrap_token.TokenPair | None:
    """Those of the first start. One that cannot be read is only not shown: its removal needs a server."""
    try:
        return await bootstrap_token.find(server.client, now=clock.now())
    except APIStatusError as err:
        log.error("the first bootstrap token cannot be shown", err=str(err))
        return None


def _of_ledger(ledger: SQLiteLedger) -> Iterator[Metric]:
    return issuance.collect(ledger.statistics, ledger.lag)


def _signs(options: StandaloneOptions) -> bool:
    return csr_signing.NAME in {each.name for each in catalog.select(options.controllers)}


def _verify(options: StandaloneOptions) -> None:
    """That controllers and tokens are settled as somebody can mean it. Raises :class:`InvalidOptionsError`."""
    if options.token_ttl is not None and options.token_ttl < dt.timedelta():
        got = gotext.format_duration(options.token_ttl)
        raise InvalidOptionsError(f"got the token TTL {got}, expected 0 or more", "0 is a token without end")
    try:
        catalog.select(options.controllers)
    except catalog.UnknownControllerError as err:
        known = [each.alias for each in catalog.CONTROLLERS]
        hint = meant(err.words[0], known, f"the list is *, {', '.join(known)}")
        raise InvalidOptionsError("; ".join(str(err).splitlines()), hint) from err
    signing = options.signing
    problems = SigningOptions(signing.default, signing.pairs, socket=signing.socket).problems()
    if problems:
        raise InvalidOptionsError("; ".join(problems), "a pair for all signers, or one for each that is to sign")


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
