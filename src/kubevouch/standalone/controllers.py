"""The controllers inside a standalone server, each under its own least-privileged identity."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from kubevouch import wellknown
from kubevouch.api import catalog as resources
from kubevouch.api.core_v1.nodes import NODE_MONITOR_GRACE_PERIOD
from kubevouch.authentication.interface import UserInfo
from kubevouch.client.cache.indexer import object_key
from kubevouch.client.cache.informer import InformerFactory, SharedInformer
from kubevouch.client.interface import Client
from kubevouch.client.resolver import Resolver
from kubevouch.config.inventory_config import Source
from kubevouch.controllers import catalog, csr_signing
from kubevouch.controllers.attestation import Attestation
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import ApproverService, Context
from kubevouch.controllers.manager import Manager
from kubevouch.controllers.root_ca_publisher import RootCAFile
from kubevouch.ledger.interface import Ledger
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.machinery.scheme import Resource
from kubevouch.phases.certificates.certs import Pair, pair_at
from kubevouch.pki.control_plane import CA
from kubevouch.pki.issuance import SigningRules
from kubevouch.policy.kubelet_serving import ServingRules
from kubevouch.policy.standing_decisions import StandingDecisions
from kubevouch.server.metrics import decisions
from kubevouch.signers.authorities import NAMED_FOLDER, NamedAuthorities
from kubevouch.signers.catalog import PairFiles, SigningOptions, build_signers
from kubevouch.signers.registry import Signers
from kubevouch.standalone.attestation import AttestationFile
from kubevouch.standalone.attestation import attestation as made
from kubevouch.standalone.cluster_api import ManagementCluster
from kubevouch.standalone.options import ClusterSigning, IdentityOptions
from kubevouch.standalone.server import StandaloneServer
from kubevouch.util.clock import Clock

Connect = Callable[[str], Client]


def controller_user(name: str) -> UserInfo:
    """The ServiceAccount of a controller, as ``authorization.controller_policy`` binds it."""
    namespace = wellknown.KUBE_SYSTEM_NAMESPACE
    groups = (
        wellknown.SERVICE_ACCOUNTS_GROUP,
        f"{wellknown.SERVICE_ACCOUNTS_GROUP_PREFIX}{namespace}",
        wellknown.AUTHENTICATED_GROUP,
    )
    return UserInfo(f"{wellknown.SERVICE_ACCOUNT_USER_PREFIX}{namespace}:{name}", groups=groups)


class RunningControllers:
    """Controllers at work; close it before the server."""

    def __init__(self, server: StandaloneServer, manager: Manager, decisions: StandingDecisions | None = None) -> None:
        self._server = server
        self.manager = manager
        self.decisions = decisions or StandingDecisions()
        self._task = asyncio.create_task(manager.run(), name="controllers")
        server.api.components["controller-manager"] = self._health

    async def _health(self) -> str:
        return "the controllers have stopped" if self._task.done() else ""

    async def settle(self) -> None:
        """Until the caches are as new as the server and nobody has anything to do before an event or a time comes.

        For tests and scripts; it polls. Retries that wait for their time do not count as something to do.
        """
        while not await self._is_settled():
            if self._task.done():
                raise RuntimeError("the controllers have stopped")
            await asyncio.sleep(0)

    async def _is_settled(self) -> bool:
        if not self.manager.is_idle:
            return False
        revisions = set()
        for informer in self.manager.informers.informers:
            if not informer.synced:
                return False
            items = await self._server.client.list(informer.resource, informer.namespace, informer.selectors)
            if not _is_current(informer, items.items):
                return False
            revisions.add(items.resource_version)
        # What the comparison waited for may have made work, also some that is done and that no informer knows of yet.
        return self.manager.is_idle and len(revisions) <= 1

    async def close(self) -> None:
        """Stop all work. What was begun and not written is done by whoever comes next."""
        self._task.cancel()
        await asyncio.wait({self._task})


def _is_current(informer: SharedInformer[Any], items: Iterable[Any]) -> bool:
    stored = {object_key(obj): obj.metadata.resource_version for obj in items}
    return stored == {object_key(obj): obj.metadata.resource_version for obj in informer.indexer.values()}


def start_controllers(
    server: StandaloneServer,
    controllers: Sequence[str],
    *,
    management: ManagementCluster | None = None,
    connect: Connect | None = None,
    **settings: Any,
) -> RunningControllers:
    """Start the controllers that a ``--controllers`` list turns on: at once, and for as long as the server runs.

    Args:
        management: where Cluster API's objects are; None without it.
        connect: a client for a controller's name; None acts as that controller over the loopback.
        settings: as of :class:`ControllerPlan`.

    Raises:
        as :class:`ControllerPlan`
    """
    return start(server, ControllerPlan(server, controllers, **settings), management, connect)


def start(
    server: StandaloneServer,
    plan: ControllerPlan,
    management: ManagementCluster | None = None,
    connect: Connect | None = None,
) -> RunningControllers:
    """As :func:`start_controllers`."""
    reach = connect or (lambda name: server.api.loopback(controller_user(name), name))
    manager = plan.manager(reach, management)
    return RunningControllers(server, manager, plan.decisions)


class ControllerPlan:
    """Which controllers a server runs, and with what; they can be made again and again.

    Args:
        controllers: a ``--controllers`` list.
        signing: the signing pairs, or these and their rules; None signs everything with the server's CA.
        identity: what machines' identities are worth; its profile is a rule unless ``signing`` has rules.
        ledger: where decisions and certificates are written down; None keeps them in memory.
        inventory: which machines are expected, beside AllowedMachine objects.
        resolver: asked about names of kubelets that nothing else justifies.
        approver_services: services that are asked about requests.
        attesting: by which methods machines prove what they are; None is by none.
        serving: by what kubelets' serving certificates are approved; None leaves them to people.
        node_monitor_grace_period: how long a node may be silent before nobody knows how it is.

    Raises:
        UnknownControllerError: the list names what there is not.
        SignerError, RootCAError: a file of the CA cannot be used.
        AttestationOptionsError: a method of attestation cannot work with its settings.
    """

    def __init__(
        self,
        server: StandaloneServer,
        controllers: Sequence[str],
        *,
        signing: ClusterSigning | SigningOptions | None = None,
        identity: IdentityOptions | None = None,
        ledger: Ledger | None = None,
        inventory: Sequence[Source] = (),
        serving: ServingRules | None = None,
        approver_services: Sequence[ApproverService] = (),
        attesting: AttestationFile | None = None,
        resolver: Resolver | None = None,
        node_monitor_grace_period: dt.timedelta = NODE_MONITOR_GRACE_PERIOD,
    ) -> None:
        self._server = server
        self._selected = catalog.select(controllers)
        self._identity = identity or IdentityOptions()
        self._attesting = attesting
        self._inventory = inventory
        self._resolver = resolver
        self._services = approver_services
        self._serving = serving
        self._grace_period = node_monitor_grace_period
        self._ledger = MemoryLedger() if ledger is None else ledger
        self.decisions = StandingDecisions()
        """Of the controllers that were made last."""
        server.api.metrics.read_at_scrape(lambda: decisions.collect(self.decisions.counts()))
        pair = pair_at(server.pki.folder, CA)
        if not isinstance(signing, SigningOptions):
            signing = _signing_options(signing or ClusterSigning(), pair, self._identity, server.clock)
        # Tried out here, with a client that is asked nothing: what is wrong with the settings ends the start.
        attestation = self._attestation(server.client)
        if attestation is not None:
            signing = msgspec.structs.replace(signing, attested=attestation.signer_names())
        self._signing = signing
        # Who does not sign needs no key.
        signs = csr_signing.NAME in {each.name for each in self._selected}
        self._signers = build_signers(signing) if signs else {}
        self._root_ca = RootCAFile(pair.certificate)

    def _attestation(self, client: Client) -> Attestation | None:
        if self._attesting is None:
            return None
        return made(self._attesting, client, self._server.clock, self._server.api.metrics.approvals)

    def manager(
        self, connect: Connect, management: ManagementCluster | None = None, *, stands_by: bool = False
    ) -> Manager:
        """All of them, with caches of their own and nothing remembered from before.

        Args:
            connect: a client for a controller's name.
            management: where Cluster API's objects are; None without it.
            stands_by: another server leads: those alone that have to do here what nobody else can.
        """
        server, signing = self._server, self._signing
        informers = InformerFactory(connect("informers"), server.clock)
        named = signing.named or server.pki.folder / NAMED_FOLDER
        standing = StandingDecisions()
        if not stands_by:
            self.decisions = standing
        context = Context(
            connect=connect,
            informers=informers,
            clock=server.clock,
            decisions=standing,
            signers=Signers(self._signers),
            ledger=self._ledger,
            revocations=server.revocations,
            named_authorities=NamedAuthorities(named, signing.keys, server.clock),
            publication=server.publication,
            root_ca=self._root_ca,
            resources=[each for each in resources.STORED if _may_be_there(server, each)],
            trust_bundles=_trust_bundles(server, self._root_ca),
            recovery=server.recovery,
            allow_name_takeover=self._identity.allow_name_takeover,
            lock_out_deleted_nodes=bool(self._identity.lock_out_deleted_nodes),
            certificate_lifetime=max(signing.rules.signing_duration, *signing.durations.values(), dt.timedelta()),
            count=lambda resource, namespace: _count(server, resource, namespace),
            node_monitor_grace_period=self._grace_period,
            inventory_sources=self._inventory,
            management=None if management is None else management.management(connect, informers),
            kubelet_serving=self._serving,
            approver_services=self._services,
            resolver=self._resolver,
            attestation=self._attestation(connect(wellknown.NODE_ATTESTATION_CONTROLLER)),
            approval_metrics=server.api.metrics.approvals,
            signing_metrics=server.api.metrics.signing,
            stands_by=stands_by,
            is_own_server=True,
            shares_cluster=server.is_replicated,
        )
        selected = self._selected
        if stands_by:
            selected = tuple(each for each in selected if each.name in catalog.STANDING_BY)
        built = catalog.build(selected, context)
        for controller in built:
            if isinstance(controller, QueueController):
                controller.queue.report_to(server.api.metrics.workqueues.queue(controller.name))
                if server.api.tracing is not None:
                    controller.trace(server.api.tracing.tracer, server.api.tracing.origins)
        elsewhere = None if management is None else management.informers
        return Manager(built, informers, server.clock, elsewhere)


def _signing_options(signing: ClusterSigning, own: Pair, identity: IdentityOptions, clock: Clock) -> SigningOptions:
    rules = SigningRules(
        signing_duration=signing.duration, profile=identity.signing_profile, post_quantum=signing.post_quantum
    )
    default = signing.default
    if not signing.is_elsewhere:
        default = PairFiles(str(own.certificate), str(own.key), bundle=True)
    elif signing.socket is not None and not default:
        default = PairFiles(str(own.certificate))
    return SigningOptions(
        default,
        signing.pairs,
        rules,
        signing.keys,
        clock,
        signing.named,
        signing.durations,
        signing.socket,
        signing.outside,
    )


def _trust_bundles(server: StandaloneServer, root_ca: Callable[[], str]) -> dict[str, Callable[[], str]]:
    """The serving certificates of the API server and of kubelets come from one CA."""
    if not _is_served(server, resources.CLUSTER_TRUST_BUNDLES):
        return {}
    return dict.fromkeys((wellknown.KUBE_APISERVER_SERVING_SIGNER, wellknown.KUBELET_SERVING_SIGNER), root_ca)


def _count(server: StandaloneServer, resource: Resource[Any], namespace: str) -> int:
    cache = server.api.caches.of(resource.group_resource)
    if cache is None:
        return 0
    return cache.count(f"{cache.prefix}{namespace}/")


def _may_be_there(server: StandaloneServer, resource: Resource[Any]) -> bool:
    """Whether clients may make and delete objects of it, so that there is something to clear away."""
    endpoint = server.api.served.endpoint(resource.group, resource.version, resource.plural)
    return endpoint is not None and "delete" in endpoint.verbs


def _is_served(server: StandaloneServer, resource: Resource[Any]) -> bool:
    return server.api.served.endpoint(resource.group, resource.version, resource.plural) is not None
