"""The controllers of one cluster: from standing for its Lease to giving it back, again and again."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import structs
from msgspec.structs import replace

from kubevouch import wellknown
from kubevouch.api.catalog import CLUSTER_TRUST_BUNDLES, CUSTOM_RESOURCE_DEFINITIONS
from kubevouch.api.core_v1.events import NORMAL
from kubevouch.api.core_v1.references import ObjectReference
from kubevouch.authorization.ledger_policy import CLUSTER_LEDGER
from kubevouch.client.cache.informer import InformerFactory
from kubevouch.client.discovery import Discovered, deletable, discover
from kubevouch.client.gate import Gate
from kubevouch.client.https import HTTPSClient
from kubevouch.client.interface import Client, TransportError
from kubevouch.client.leader_election import LeaderElector, LeaseLostError, own_identity
from kubevouch.client.options import Timeouts
from kubevouch.client.pager import list_all
from kubevouch.config.inventory_config import Source
from kubevouch.controllers import catalog
from kubevouch.controllers.catalog import Entry
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.event_recorder import EventRecorder
from kubevouch.controllers.interface import ApproverService, Context
from kubevouch.controllers.manager import Manager
from kubevouch.ledger.cluster import ClusterLedger
from kubevouch.ledger.interface import Ledger, LedgerError
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.ledger.store import SQLiteLedger
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.scheme import Resource
from kubevouch.policy.kubelet_serving import ServingRules, normalized
from kubevouch.revocation.revocations import Revocations
from kubevouch.server.health import Check, HealthError
from kubevouch.signers.authorities import NamedAuthorities
from kubevouch.signers.interface import Signer
from kubevouch.signers.registry import Signers
from kubevouch.standalone import approval
from kubevouch.standalone.attached import own_kinds
from kubevouch.standalone.attached.metrics import ClusterMetrics
from kubevouch.standalone.attached.options import IN_CLUSTER, AttachedCluster, AttachedOptions
from kubevouch.standalone.attached.own_kinds import KindsChangedError
from kubevouch.standalone.attestation import AttestationFile
from kubevouch.standalone.attestation import attestation as made
from kubevouch.standalone.cluster_api import management_cluster
from kubevouch.standalone.ledger import begin
from kubevouch.util import backoff
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger
from kubevouch.util.tasks import OnCrash, Supervisor

log = get_logger("attached")

ELECTION = "leader-election"
_DISCOVERY = "discovery"
_RETRY_SECONDS, _RETRY_CAP_SECONDS, _RETRY_CALM_SECONDS = 1.0, 30.0, 120.0
_KNOW_RECORDS = (wellknown.CSR_SIGNING_CONTROLLER, wellknown.CSR_APPROVING_CONTROLLER)
_KNOW_REVOCATIONS = (*_KNOW_RECORDS, wellknown.CERTIFICATE_REVOCATION_CONTROLLER)
_NEEDS_EVERY_KIND = frozenset({wellknown.NAMESPACE_CONTROLLER, wellknown.GARBAGE_COLLECTOR_CONTROLLER})


class IncompleteDiscoveryError(Exception):
    """Some kinds of the server are not known, and a controller that has to know all is to run."""


class Shared(msgspec.Struct, frozen=True):
    """What the command line gives to the controllers of every cluster.

    Args:
        signers: by signer name.
        root_ca: the CA that publishers publish; None publishes nothing.
        inventory: which machines are expected, beside AllowedMachine objects.
        serving: what is declared of kubelets' serving certificates; None leaves them to people.
        services: that are asked about requests.
        named: the CAs that CertificateSigners may name.
        attesting: by which methods machines prove what they are; None is by none.
    """

    signers: Mapping[str, Signer]
    root_ca: Callable[[], str] | None
    inventory: Sequence[Source]
    serving: ServingRules | None
    services: Sequence[ApproverService]
    named: NamedAuthorities
    attesting: AttestationFile | None = None


class ClusterControllers:
    """Stands for one cluster's Lease, and leads its controllers while it has it."""

    def __init__(
        self,
        cluster: AttachedCluster,
        options: AttachedOptions,
        selected: Sequence[Entry],
        clock: Clock,
        *,
        shared: Shared,
    ) -> None:
        self.name = cluster.name
        self._config = cluster.config
        self._options = options
        self._selected = tuple(selected)
        self._clock = clock
        self._shared = shared
        self.identity = own_identity()
        self._memory = MemoryLedger()
        self.metrics = ClusterMetrics(
            urlsplit(cluster.config.options.server).netloc,
            options.election.name if options.election is not None else "",
        )
        self.elector: LeaderElector | None = None
        self._opened: SQLiteLedger | ClusterLedger | None = None
        self._unopened: LedgerError | None = None
        """Why the ledger could not be opened when this process was to lead last."""
        self.signers: Signers | None = None
        """Of the present term, or of the last one."""
        self.manager: Manager | None = None
        """While this process leads; None while it stands by."""

    @property
    def server(self) -> str:
        return self._config.options.server

    async def run(self) -> None:
        """Until cancelled. A term that ends, or cannot begin, is followed by another attempt."""
        delays = backoff.CalmingBackoff(
            lambda: backoff.exponential(_RETRY_SECONDS, _RETRY_CAP_SECONDS), _RETRY_CALM_SECONDS
        )
        while True:
            try:
                await self._stand()
            except LeaseLostError as err:
                log.error("leader election lost", cluster=self.name, err=str(err))
            except KindsChangedError as err:
                log.info("the controllers begin anew", cluster=self.name, why=str(err))
                continue
            except (APIStatusError, TransportError, IncompleteDiscoveryError, LedgerError) as err:
                log.error("the controllers cannot start", cluster=self.name, server=self.server, err=str(err))
            await self._clock.sleep(delays.next(self._clock.monotonic()))

    async def _stand(self) -> None:
        election = self._options.election
        if election is None:
            self.metrics.leading(now=True)
            await self._term()
            return
        # Its own connections and no allowance: a renewal waits for nobody.
        patience = Timeouts.all(max(election.renew_deadline.total_seconds() / 2, 1.0))
        gate = Gate(self._clock, self.metrics)
        client = self._config.client(component=ELECTION, clock=self._clock, timeouts=patience, gate=gate)
        async with client, Supervisor(self._clock) as told:
            events = EventRecorder(client, self._clock, self._lease_name)
            lease = ObjectReference(
                kind="Lease", api_version="coordination.k8s.io/v1", namespace=election.namespace, name=election.name
            )

            def leads(holder: str) -> None:
                log.info("new leader elected", cluster=self.name, identity=holder)
                if holder == self.identity:
                    told.start("leader-event", lambda: self._tell(events, lease))

            self.elector = LeaderElector(
                client, election, self._clock, identity=self.identity, on_leader=leads, metrics=self.metrics
            )
            try:
                await self.elector.lead(self._term)
            finally:
                self.elector = None

    @property
    def _lease_name(self) -> str:
        return self._options.election.name if self._options.election is not None else ""

    async def _tell(self, events: EventRecorder, lease: ObjectReference) -> None:
        try:
            await events.record(lease, NORMAL, "LeaderElection", f"{self.identity} became leader")
        except (APIStatusError, TransportError) as err:
            log.info("an event could not be written", cluster=self.name, err=str(err))

    # -------------------------------------------------------------- a term

    async def _term(self) -> None:
        """Everything anew: what an earlier term knew may be wrong by now."""
        async with AsyncExitStack() as stack:
            connect = await stack.enter_async_context(self._clients())
            found = await self._discovered(connect(_DISCOVERY))
            absent = own_kinds.missing(found)
            if absent:
                kinds = ", ".join(each.plural for each in absent)
                log.warning("kinds of ours are not served, and count as empty", cluster=self.name, kinds=kinds)
            informers = own_kinds.AttachedInformers(connect("informers"), self._clock, absent)
            revocations = Revocations()
            if (reader := self._first_of(_KNOW_REVOCATIONS)) is not None:
                await own_kinds.follow_revocations(
                    revocations, connect(reader), informers, absent,
                    has_lockouts=reader != wellknown.CERTIFICATE_REVOCATION_CONTROLLER,
                )  # fmt: skip
            ledger = await self._opened_ledger(stack, connect)
            management = await stack.enter_async_context(
                management_cluster(self._options.cluster_api, self._clock, self._gate)
            )
            context = replace(
                self._context(connect, informers, found),
                management=None if management is None else management.management(connect, informers),
                resources=await self._built_in(connect, found),
                revocations=revocations,
                ledger=ledger,
            )
            self.metrics.of_decisions(context.decisions)
            self.signers = context.signers
            built = catalog.build(self._selected, context)
            for controller in built:
                if isinstance(controller, QueueController):
                    controller.queue.report_to(self.metrics.workqueues.queue(controller.name))
            elsewhere = None if management is None else management.informers
            self.manager = Manager(built, informers, self._clock, elsewhere)
            try:
                async with Supervisor(self._clock) as tasks:
                    if absent:
                        client = connect(_DISCOVERY)
                        looking = partial(own_kinds.until_they_come, client, absent, self._clock)
                        tasks.start("own-kinds", looking, OnCrash.ESCALATE)
                    await self.manager.run()
            finally:
                self.manager = None

    def _first_of(self, controllers: Sequence[str]) -> str | None:
        """The first of them that runs."""
        names = {each.name for each in self._selected}
        return next((each for each in controllers if each in names), None)

    async def _built_in(self, connect: Callable[[str], Client], found: Discovered) -> list[Resource[Any]]:
        """What can be cleared away, without the custom kinds: who has to know those follows their definitions.

        Raises:
            APIStatusError, TransportError
        """
        resources = deletable(found.preferred, found)
        reader = self._first_of(sorted(_NEEDS_EVERY_KIND))
        if reader is None:
            return resources
        definitions = await list_all(connect(reader), CUSTOM_RESOURCE_DEFINITIONS)
        custom = {(each.spec.group, each.spec.names.plural) for each in definitions.items}
        return [each for each in resources if (each.group, each.plural) not in custom]

    def _forget_ledger(self) -> None:
        self._opened = None

    async def _opened_ledger(self, stack: AsyncExitStack, connect: Callable[[str], Client]) -> Ledger:
        """While this process leads: two could not have a file open. Raises :class:`LedgerError`."""
        place = self._options.ledger
        if place is None:
            log.warning(
                "what is decided and issued is kept in memory, and lost when this process ends or another one leads",
                cluster=self.name, instead="--ledger cluster, or --ledger FILE",
            )  # fmt: skip
            return self._memory
        ledger: SQLiteLedger | ClusterLedger
        try:
            if place == IN_CLUSTER:
                ledger = await ClusterLedger.open(await self._ledger_client(stack), self._clock)
            else:
                ledger = await SQLiteLedger.open(Path(place), self._clock)
        except LedgerError as err:
            self._unopened = err
            raise
        self._unopened = None
        stack.push_async_callback(ledger.close)
        self._opened = ledger
        stack.callback(self._forget_ledger)
        if (
            reader := next((each for each in _KNOW_RECORDS if each in {e.name for e in self._selected}), None)
        ) is not None:
            await begin(ledger, connect(reader), self._clock.now())
        self.metrics.of_ledger(ledger)
        return ledger

    async def _ledger_client(self, stack: AsyncExitStack) -> Client:
        """Without an allowance: each decision waits for it, and those that wait together share a request."""
        gate = Gate(self._clock, self.metrics, may_write=self._may_write)
        client = self._config.client(component=CLUSTER_LEDGER, clock=self._clock, gate=gate)
        return await stack.enter_async_context(client)

    @asynccontextmanager
    async def _clients(self) -> AsyncIterator[Callable[[str], Client]]:
        """One for each controller, with an allowance of its own, as kube-controller-manager's."""
        clients: dict[str, HTTPSClient] = {}

        def connect(name: str) -> Client:
            if name not in clients:
                clients[name] = self._config.client(component=name, clock=self._clock, gate=self._gate())
            return clients[name]

        async with AsyncExitStack() as stack:
            try:
                yield connect
            finally:
                for client in clients.values():
                    stack.push_async_callback(client.close)

    def _gate(self) -> Gate:
        return Gate(
            self._clock, self.metrics, qps=self._options.qps, burst=self._options.burst, may_write=self._may_write
        )

    def _may_write(self) -> bool:
        return self._options.election is None or (self.elector is not None and self.elector.may_act)

    async def _discovered(self, client: Client) -> Discovered:
        """Raises :class:`APIStatusError`, :class:`TransportError`, :class:`IncompleteDiscoveryError`."""
        found = await discover(client)
        for version, why in found.failures.items():
            log.warning("a group version cannot be looked at", cluster=self.name, version=version, err=why)
        if found.failures and _NEEDS_EVERY_KIND & {each.name for each in self._selected}:
            # What is not known would be left behind in a namespace that goes, or taken for an owner that is gone.
            raise IncompleteDiscoveryError(f"not all kinds can be looked at: {', '.join(found.failures)}")
        return found

    def _context(self, connect: Callable[[str], Client], informers: InformerFactory, found: Discovered) -> Context:
        """What ``kubevouch up`` takes from its own server is asked of this one, given by flags, or left out."""
        identity, signing, shared = self._options.identity, self._options.signing, self._shared
        bundles: dict[str, Callable[[], str]] = {}
        if shared.root_ca is not None and found.serves(CLUSTER_TRUST_BUNDLES):
            bundles[wellknown.KUBE_APISERVER_SERVING_SIGNER] = shared.root_ca
        attestation = None
        if shared.attesting is not None:
            attestation = made(shared.attesting, connect(wellknown.NODE_ATTESTATION_CONTROLLER), self._clock)
        return Context(
            connect=connect,
            informers=informers,
            clock=self._clock,
            signers=Signers(shared.signers),
            root_ca=shared.root_ca,
            trust_bundles=bundles,
            # A kube-apiserver lets nobody in whose certificate has ended, and counts for nobody.
            recovery=None,
            count=None,
            approves_kubelet_clients=catalog.is_named(wellknown.CSR_APPROVING_CONTROLLER, self._options.controllers),
            allow_name_takeover=identity.allow_name_takeover,
            lock_out_deleted_nodes=bool(identity.lock_out_deleted_nodes),
            certificate_lifetime=max(signing.duration, *signing.durations.values(), dt.timedelta()),
            node_monitor_grace_period=self._options.node_monitor_grace_period,
            inventory_sources=shared.inventory,
            approval_metrics=self.metrics.approvals,
            signing_metrics=self.metrics.signing,
            approver_services=shared.services,
            named_authorities=shared.named,
            kubelet_serving=self._serving_rules(),
            resolver=approval.resolver(self._options.approval, self._clock),
            attestation=attestation,
            shares_cluster=True,
            is_attached=True,
        )

    def _serving_rules(self) -> ServingRules | None:
        """Nobody serves under the name by which this process reaches the API server, or programs in pods do."""
        rules = self._shared.serving
        if rules is None:
            return None
        names = {urlsplit(self.server).hostname or "", os.environ.get("KUBERNETES_SERVICE_HOST", "")} - {""}
        return structs.replace(rules, api_server=rules.api_server | frozenset(map(normalized, names)))

    # -------------------------------------------------------------- health

    def live_checks(self) -> dict[str, Check]:
        return {self._named("leaderElection"): self._leads_in_time}

    def ready_checks(self) -> dict[str, Check]:
        checks: dict[str, Check] = {
            self._named("informer-sync"): self._has_loaded,
            self._named("other-signers"): self._signs_alone,
        }
        if self._options.ledger is not None:
            checks[self._named("ledger")] = self._ledger_in_place
        return checks

    def _named(self, check: str) -> str:
        return f"{check}-{self.name}" if self.name else check

    async def _leads_in_time(self) -> None:
        if self.elector is not None and not self.elector.is_healthy:
            raise HealthError(f"failed election to renew leadership on lease {self._lease_name}")

    async def _signs_alone(self) -> None:
        if self.manager is not None and self.signers is not None and (aside := self.signers.aside):
            raise HealthError("; ".join(aside.values()))

    async def _ledger_in_place(self) -> None:
        """Without its file, or with entries missing, nothing is signed; who stands by has not opened it."""
        try:
            if self._unopened is not None:
                raise self._unopened
            if self._opened is None:
                return
            if isinstance(self._opened, SQLiteLedger):
                await asyncio.to_thread(self._opened.expect_in_place)
            elif self._opened.fault is not None:
                raise self._opened.fault
        except LedgerError as err:
            log.error("the ledger cannot be used, and nothing is signed", cluster=self.name, err=str(err))
            raise HealthError(str(err)) from err

    async def _has_loaded(self) -> None:
        """Who stands by has nothing to load, and is ready to take over."""
        if self.manager is not None:
            informers: Sequence[Any] = self.manager.informers.informers
            waiting = sorted({each.resource.plural for each in informers if not each.synced})
            if waiting:
                raise HealthError(f"not loaded yet: {', '.join(waiting)}")
        elif self.elector is None or not self.elector.holder:
            raise HealthError("nobody leads as far as is known")
