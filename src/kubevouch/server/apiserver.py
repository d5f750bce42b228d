"""The API server put together: store, caches, resources, chain.

Importing has no effect; an :class:`APIServer` holds everything, so several can live in one process.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from kubevouch import wellknown
from kubevouch.admission.chain import AdmissionChain
from kubevouch.api import catalog
from kubevouch.api.authentication_v1 import TokenRequest
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.api.core_v1 import Node
from kubevouch.authentication.interface import TokenAuthenticator, UserInfo
from kubevouch.authentication.node_recovery import NodeRecovery
from kubevouch.authentication.service_account import Issuer
from kubevouch.authentication.union import UnionAuthenticator
from kubevouch.authorization.interface import Authorizer, RuleResolver
from kubevouch.client.interface import Client
from kubevouch.client.tls import ClientTLS
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.custom_object import CustomObject
from kubevouch.machinery.meta import Object
from kubevouch.machinery.scheme import GroupResource, GroupVersionKind, Resource, Scheme
from kubevouch.registry.authentication.reviews import Reviews as AuthenticationReviews
from kubevouch.registry.authorization.reviews import Reviews as AuthorizationReviews
from kubevouch.registry.certificates.durations import duration_honored
from kubevouch.registry.core.componentstatuses import Ask, ComponentStatuses
from kubevouch.registry.core.service_account_tokens import TokenRequests
from kubevouch.registry.interface import Definition
from kubevouch.registry.store import ResourceStore
from kubevouch.registry.write_budget import WriteBudget
from kubevouch.revocation.publication import PREFIX as PUBLICATION_PREFIX
from kubevouch.revocation.publication import Publication
from kubevouch.revocation.revocations import Revocations
from kubevouch.server import node_proxy, version, watch_grounds
from kubevouch.server.audit.build import BuildAudit
from kubevouch.server.chain import chain
from kubevouch.server.custom_resources import CustomKind, CustomResources, no_custom_kind
from kubevouch.server.customresources.controllers import DefinitionControllers
from kubevouch.server.customresources.conversion import Converters
from kubevouch.server.discovery import Discovery
from kubevouch.server.edge.https import HTTPSServer
from kubevouch.server.edge.timeouts import Timeouts
from kubevouch.server.endpoints import Action, Connect, Served, install
from kubevouch.server.filters.audit_id import audit_id
from kubevouch.server.filters.authentication import authentication
from kubevouch.server.filters.authorization import authorization
from kubevouch.server.filters.flow_control import FlowControl
from kubevouch.server.filters.impersonation import impersonation
from kubevouch.server.filters.instrumentation import Traffic, instrumentation
from kubevouch.server.filters.recovery import recovery
from kubevouch.server.filters.request_info import request_info
from kubevouch.server.filters.request_log import request_log
from kubevouch.server.filters.tracing import Tracing
from kubevouch.server.filters.watch_standing import WatchStanding
from kubevouch.server.handlers.shared import Environment
from kubevouch.server.health import Check, Health, HealthError, HealthMetrics
from kubevouch.server.loop_stalls import request_of
from kubevouch.server.loopback import LoopbackClient
from kubevouch.server.metrics import flow as flow_metrics
from kubevouch.server.metrics import ledger as ledger_metrics
from kubevouch.server.metrics import memory as memory_metrics
from kubevouch.server.metrics import revocation as revocation_metrics
from kubevouch.server.metrics.admission import AdmissionMetrics
from kubevouch.server.metrics.catalog import TEXT_TYPE, Metrics, exposition
from kubevouch.server.node_recovery import RecoveryMetrics, RecoveryPaths
from kubevouch.server.openapi import OpenAPI
from kubevouch.server.options import ServerOptions
from kubevouch.server.owner import Owner
from kubevouch.server.request import NOT_FOUND, BytesResult, Filter, Handler, Request, Result
from kubevouch.server.revocation_paths import PublishedHere, RevocationPaths
from kubevouch.server.router import Router
from kubevouch.server.runtime_config import RuntimeConfig
from kubevouch.storage.compactor import REVISION_BYTES, RevisionBytes, SharedHistory, keep_compacting
from kubevouch.storage.interface import Probed, Sized, Store, StoreUnavailable, lowest
from kubevouch.storage.measured import MeasuredStore
from kubevouch.storage.watchcache.cacher import Cacher, Tap
from kubevouch.storage.watchcache.freshness import PATIENCE_SECONDS, Freshness
from kubevouch.storage.watchcache.resource_cache import ResourceCache
from kubevouch.util.clock import Clock, wait_at_most
from kubevouch.util.loop_monitor import LoopMonitor, Stall
from kubevouch.util.timers import Timers
from kubevouch.util.worker import Worker

# How long requests under way may take once the server is told to stop.
DRAIN_SECONDS = 5.0


class Security(msgspec.Struct, frozen=True):
    """Who is it, may they, should it: built by the wiring over the caches that the server fills.

    ``on_change`` takes what is to be called when files say something else of whom to believe, or of who may what.
    """

    authenticator: UnionAuthenticator
    tokens: TokenAuthenticator
    authorizer: Authorizer
    resolver: RuleResolver
    admission: AdmissionChain
    recovery: NodeRecovery | None = None
    revocations: Revocations = msgspec.field(default_factory=Revocations)
    on_change: Callable[[Callable[[], None]], None] = lambda _changed: None


_GUARDS = (
    catalog.VALIDATING_ADMISSION_POLICIES,
    catalog.VALIDATING_ADMISSION_POLICY_BINDINGS,
    catalog.MUTATING_ADMISSION_POLICIES,
    catalog.MUTATING_ADMISSION_POLICY_BINDINGS,
    catalog.VALIDATING_WEBHOOK_CONFIGURATIONS,
    catalog.MUTATING_WEBHOOK_CONFIGURATIONS,
)
_STORED = frozenset(each.group_resource for each in catalog.STORED)


class Caches(msgspec.Struct):
    """The caches by resource plural; what authenticators, authorizers and admission read.

    ``custom`` finds those of kinds that come and go, by group and plural; ``custom_kind`` one of their versions, as
    :meth:`CustomResources.kind`.
    """

    by_plural: dict[str, ResourceCache[Any]] = msgspec.field(default_factory=dict)
    custom: Callable[[str, str], ResourceCache[Any] | None] = lambda _group, _plural: None
    custom_kind: Callable[[GroupVersionKind], Awaitable[CustomKind | None]] = no_custom_kind
    tap: Callable[[Tap], None] = lambda _tap: None

    def __getitem__(self, plural: str) -> ResourceCache[Any]:
        return self.by_plural[plural]

    def of(self, resource: GroupResource) -> ResourceCache[Any] | None:
        """That of a built-in or a custom kind; None for what is not stored."""
        if resource in _STORED:
            return self.by_plural[resource.resource]
        return self.custom(resource.group, resource.resource)


Secure = Callable[[Caches, Callable[[], Awaitable[object]]], Security]


class APIServer:
    """One API server over one store.

    Args:
        definitions: the stored resources.
        secure: builds the security chain over the caches, and is handed what brings them up to date; called once,
            before anything is loaded.
        address: host:port as clients reach it, for discovery.
        issuer: signs service account tokens; None serves none.
        runtime_config: which versions clients get to see; None means the usual ones.
        audit: builds what records requests; None records nothing.
        options: None means kube-apiserver's defaults.
        tracing: None traces nothing.
        kubelet_credential: what is shown to kubelets, and what they are trusted by; None has no ``nodes/proxy``.
        publication: what anybody may read of what is revoked; None serves none.
        owner: the process whose worker this one is; None does alone what is to be done once.
        last_links: of the chain, right before the handlers, for requests over the network.
        replicated: other servers may be at work on the same store.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        definitions: Iterable[Definition[Any]],
        secure: Secure,
        *,
        address: str = "",
        issuer: Issuer | None = None,
        scheme: Scheme = catalog.SCHEME,
        runtime_config: RuntimeConfig | None = None,
        audit: BuildAudit | None = None,
        options: ServerOptions | None = None,
        tracing: Tracing | None = None,
        kubelet_credential: Callable[[], ClientTLS] | None = None,
        publication: Publication | None = None,
        owner: Owner | None = None,
        last_links: Sequence[Filter] = (),
        replicated: bool = False,
    ) -> None:
        self._publication = publication
        self._owner = owner
        self.clock = clock
        self._options = options or ServerOptions()
        self.tracing = tracing
        self.metrics = Metrics()
        medium = lowest(store)
        if isinstance(medium, Sized):
            self.metrics.storage.size(medium.size)
        self._probed = medium if isinstance(medium, Probed) else None
        self._shared = medium if isinstance(medium, SharedHistory) else None
        self.revisions = RevisionBytes(self._shared.revision_bytes if self._shared else REVISION_BYTES)
        self.store = MeasuredStore(store, clock, self.metrics.storage, self.revisions)
        self.cacher = Cacher(self.store, clock, history=self._options.watch_cache_size)
        self.caches = Caches(tap=self.cacher.tap)
        self._freshness = Freshness(self.cacher.newest, clock) if replicated or owner is not None else None
        self._keeping_fresh: asyncio.Task[None] | None = None
        self._timers = Timers(clock)
        self._audit = audit(self.metrics) if audit is not None else None
        self.worker = Worker()
        self.flow_control = FlowControl(clock, self._timers, seats=self._options.seats, worker=self.worker)
        self._stopping = False
        self._compacting: asyncio.Task[None] | None = None
        self._monitor = LoopMonitor(self._stalled, request_of)
        self._pending_hooks: set[str] = set()
        self._slis = HealthMetrics()
        # In Kubernetes' names: what else asks for a check leaves it out by them.
        common: dict[str, Check] = {"ping": _passes, "log": _passes}
        synced: dict[str, Check] = {"informer-sync": self._caches_loaded}
        writes: dict[str, Check] = {"etcd-readiness": self._store_writes, "shutdown": self._not_stopping}
        self._health = (
            Health("livez", common | {"etcd": self._store_runs}, self._slis),
            Health("healthz", common | {"etcd": self._store_writes} | synced, self._slis),
            Health("readyz", common | {"etcd": self._store_runs} | synced | writes, self._slis),
        )
        admission = AdmissionChain()
        self._write_budget = WriteBudget(clock)
        self.stores: dict[str, ResourceStore[Any]] = {}
        for definition in definitions:
            resource_store = ResourceStore(definition, self.store, self.cacher, admission, clock, self._write_budget)
            self.stores[definition.resource.plural] = resource_store
            self.caches.by_plural[definition.resource.plural] = resource_store.cache
        self.stores[catalog.CERTIFICATE_SIGNING_REQUESTS.plural].updated = self._count_duration
        self.security = secure(self.caches, self.cacher.newest)
        self.metrics.storage.know(
            (each.definition.key_prefix, each.definition.resource.group_resource) for each in self.stores.values()
        )
        admission.use(self.security.admission)
        admission.report_to(AdmissionMetrics(self.metrics.registry, clock))
        self.served = Served(scheme)
        self._serves = (runtime_config or RuntimeConfig()).serves
        install(self.served, self.stores.values(), self._serves)
        # By Kubernetes' names.
        self.components: dict[str, Ask] = {
            "controller-manager": _no_controllers if owner is None else owner.controllers,
            "scheduler": _no_scheduler,
            "etcd-0": self._store_health,
        }
        install(self.served, (ComponentStatuses(self.components),), self._serves)
        self._converters = Converters(clock)
        self.custom = CustomResources(
            self.cacher,
            self.served,
            lambda definition, cache: ResourceStore(
                definition, self.store, self.cacher, admission, clock, self._write_budget, cache
            ),
            self.metrics.storage,
            self._converters,
        )
        self.caches.custom = self.custom.cache
        self.caches.custom_kind = self.custom.kind
        self.custom.follow(self.caches[catalog.CUSTOM_RESOURCE_DEFINITIONS.plural])
        self._install_reviews()
        if kubelet_credential is not None:
            self._install_node_proxy(kubelet_credential)
        if issuer is not None:
            self._install_token_requests(issuer)
        self._standing = WatchStanding(self.security.authenticator, self.security.authorizer, clock, self._timers)
        self.security.revocations.on_change(self._standing.judge_credentials)
        self.security.on_change(self._standing.judge_all)
        watch_grounds.follow(self._standing, self.caches.by_plural)
        environment = Environment(clock, scheme, self.security.authorizer, admission, self._timers)
        self._discovery = Discovery(self.served, address)
        self._router = Router(environment, self.served, self._discovery)
        self._install_paths()
        if issuer is not None and issuer.url.startswith("https://"):
            self._install_issuer_discovery(issuer, address)
        self.handler, self._loopback_handler = self._chains(last_links)
        own = UserInfo(wellknown.API_SERVER_USER, groups=(wellknown.MASTERS_GROUP, wellknown.AUTHENTICATED_GROUP))
        self._definition_controllers = DefinitionControllers(
            self.caches[catalog.CUSTOM_RESOURCE_DEFINITIONS.plural],
            own,
            self.loopback(own, "kube-apiserver"),
            clock,
            self._custom_objects,
        )
        self._https = HTTPSServer(
            self.handler,
            clock,
            Traffic(self.metrics, self.served),
            timeouts=Timeouts.within(self._options.request_timeout),
        )
        self.metrics.read_at_scrape(
            lambda: memory_metrics.collect(self.cacher, self.revisions, self._write_budget, self._frame_bytes)
        )
        self.metrics.read_at_scrape(lambda: ledger_metrics.collect(self.caches["configmaps"]))
        revocations = self.security.revocations
        self.metrics.read_at_scrape(lambda: revocation_metrics.collect(revocations, publication, clock.now()))
        self.metrics.read_at_scrape(lambda: flow_metrics.collect(self.flow_control, self._https.limits))

    # -------------------------------------------------------------- assembly

    def _chains(self, last_links: Sequence[Filter]) -> tuple[Handler, Handler]:
        """For requests over the network, and for those of clients in this process, who come with an identity."""
        security, audit = self.security, self._audit
        refusals = () if audit is None else (audit.of_failed_authentication,)
        who = authentication(
            security.authenticator,
            self.metrics,
            self.clock,
            lambda: security.revocations.changes,
            self._freshness,
        )
        as_whom = impersonation(security.authorizer)
        links = [
            audit_id,
            request_info,
            *([request_log(self.clock)] if self._options.logs_requests else ()),
            instrumentation(self.metrics, self.clock, self.served),
            recovery,
            self.flow_control.credentials,
            *refusals,
            who,
            *([self.tracing.filter] if self.tracing is not None else ()),
            *([audit.of_requests] if audit is not None else ()),
            self._standing.filter,
            as_whom,
            self.flow_control.seat,
            authorization(security.authorizer, self.metrics, self.clock),
        ]
        # They would let each request from within pass as it is.
        idle = (self.flow_control.credentials, *refusals, who, self._standing.filter, as_whom)
        route = self._router.route
        return chain([*links, *last_links], route), chain([link for link in links if link not in idle], route)

    def _count_duration(self, new: CertificateSigningRequest, old: CertificateSigningRequest) -> None:
        honored = duration_honored(new, old)
        if honored is not None:
            self.metrics.csr_duration(new.spec.signer_name, honored=honored)

    async def _custom_objects(self, name: str) -> ResourceStore[CustomObject] | None:
        """Those of a definition, which nobody is asked to admit or to convert."""
        found = await self.custom.stored(name)
        if found is None:
            return None
        definition, cache = found
        budget, nobody = self._write_budget, AdmissionChain()
        return ResourceStore(definition, self.store, self.cacher, nobody, self.clock, budget, cache)

    def _install_reviews(self) -> None:
        access = AuthorizationReviews(self.security.authorizer, self.security.resolver)
        identity = AuthenticationReviews(self.security.tokens)
        for resource, perform in (
            (catalog.TOKEN_REVIEWS, identity.token),
            (catalog.SELF_SUBJECT_REVIEWS, identity.self_subject),
            (catalog.SUBJECT_ACCESS_REVIEWS, access.subject_access),
            (catalog.LOCAL_SUBJECT_ACCESS_REVIEWS, access.local_subject_access),
            (catalog.SELF_SUBJECT_ACCESS_REVIEWS, access.self_subject_access),
            (catalog.SELF_SUBJECT_RULES_REVIEWS, access.self_subject_rules),
        ):
            if self._serves(resource):
                self.served.add_action(Action(resource, perform))

    def _install_token_requests(self, issuer: Issuer) -> None:
        def read(plural: str) -> Callable[[str, str], Awaitable[Object]]:
            async def get(namespace: str, name: str) -> Object:
                found: Object = (await self.stores[plural].get(namespace, name)).obj
                return found

            return get

        requests = TokenRequests(issuer, read("serviceaccounts"), read("secrets"), read("nodes"))
        accounts = catalog.SERVICE_ACCOUNTS
        parent = Resource("", accounts.version, accounts.kind, accounts.plural, TokenRequest, namespaced=True)
        self.served.add_action(Action(parent, requests.perform, catalog.TOKEN_REQUEST, "token"))

    def _install_node_proxy(self, credential: Callable[[], ClientTLS]) -> None:
        async def node_named(name: str) -> Node:
            found: Node = (await self.stores[catalog.NODES.plural].get("", name)).obj
            return found

        serve = node_proxy.NodeProxy(node_named, credential).serve
        self.served.connects.append(Connect(catalog.NODES, "proxy", node_proxy.KIND, node_proxy.VERBS, serve))

    def _install_issuer_discovery(self, issuer: Issuer, address: str) -> None:
        """RFC 8414 and OpenID Connect Discovery, for whoever accepts our tokens without asking us."""
        keys_path = "/openid/v1/jwks"
        cached = {"Cache-Control": "public, max-age=3600"}

        def serve(document: dict[str, Any], content_type: str) -> Handler:
            body = json_codec.encode(document)

            async def answer(_request: Request) -> Result:
                return BytesResult(body, content_type, 200, cached)

            return answer

        found = issuer.discovery(f"https://{address}{keys_path}")
        self._router.add_path("/.well-known/openid-configuration", serve(found, "application/json"))
        self._router.add_path(keys_path, serve(issuer.key_set(), "application/jwk-set+json"))

    def _install_paths(self) -> None:
        router = self._router
        for health in self._health:
            router.add_prefix(f"/{health.name}", health.serve)
        router.add_path("/metrics/slis", self._serve_slis)
        openapi = OpenAPI(self.served, version.document())
        router.add_path("/openapi/v2", openapi.serve_v2)
        router.add_prefix("/openapi/v3", openapi.serve_v3)
        router.add_path("/version", version.serve)
        if self._publication is not None:
            published = PublishedHere(self._publication, self.clock).answer
            answer = published if self._owner is None else self._owner.published
            router.add_prefix(PUBLICATION_PREFIX, RevocationPaths(answer).serve)
        router.add_path("/metrics", self._serve_metrics)
        router.add_path("/", self._serve_index)
        if self.security.recovery is not None:
            recovery_metrics = RecoveryMetrics(self.metrics.registry, self.security.recovery.locked)
            for path, handler in RecoveryPaths(self.security.recovery, recovery_metrics).handlers.items():
                router.add_path(path, handler)

    def _frame_bytes(self) -> int:
        return sum(endpoint.encoder.frame_bytes for endpoint in self.served.endpoints.values())

    async def _serve_metrics(self, request: Request) -> Result:
        if self._owner is not None:
            return BytesResult(await self._owner.metrics(), TEXT_TYPE)
        body, content_type = await self.exposition(request.headers.get("Accept", ""))
        return BytesResult(body, content_type)

    async def exposition(self, accept: str = "") -> tuple[bytes, str]:
        """This process's metrics, and their content type."""
        for each in self.stores.values() if self._options.counts_objects else ():
            self.metrics.storage.objects(each.definition.resource.group_resource, len(each.cache))
        for kind in self.custom if self._options.counts_objects else ():
            self.metrics.storage.objects(*kind.counted())
        return await exposition(self.metrics.registry, accept)

    async def _serve_slis(self, request: Request) -> Result:
        body, content_type = await exposition(self._slis.registry, request.headers.get("Accept", ""))
        return BytesResult(body, content_type)

    async def _serve_index(self, request: Request) -> Result:
        if request.target.path not in ("/", ""):
            return NOT_FOUND
        return _index(self._router.paths())

    # -------------------------------------------------------------- health

    async def _store_runs(self) -> None:
        """For ``/livez``: what fails here, a restart helps against. A full disk it does not."""
        try:
            if self._probed is not None:
                self._probed.expect_running()
            await wait_at_most(self.clock, self.store.revision(), self._options.store_health_seconds)
        except (StoreUnavailable, TimeoutError) as err:
            raise HealthError(f"error getting data from the store: {err}") from err

    async def _store_writes(self) -> None:
        await self._store_runs()
        try:
            if self._probed is not None:
                await wait_at_most(self.clock, self._probed.expect_writable(), self._options.store_ready_seconds)
        except (StoreUnavailable, TimeoutError) as err:
            raise HealthError(f"error getting data from the store: {err}") from err

    async def _store_health(self) -> str:
        try:
            await self._store_writes()
        except HealthError as err:
            return str(err)
        return ""

    async def _caches_loaded(self) -> None:
        if not self.cacher.is_ready:
            raise HealthError("the watch cache is not loaded")
        # As with informers of Kubernetes, which never have synced then: who asks here would let more pass than others.
        unknown = [*self.security.revocations.unread, *self._unread_guards()]
        if unknown:
            raise HealthError(f"what is refused is not all known: {unknown[0]} cannot be read")

    def _unread_guards(self) -> Iterator[str]:
        """Keys of what would refuse requests if it could be read, or had been before."""
        for resource in _GUARDS:
            cache = self.caches[resource.plural]
            yield from (key for key in cache.unreadable if cache.get(key) is None)
        if self._freshness is not None and self._freshness.age > PATIENCE_SECONDS:
            raise HealthError(f"the watch cache has not heard of the store for {self._freshness.age:.0f} s")

    async def _not_stopping(self) -> None:
        if self._stopping:
            raise HealthError("the server is stopping")

    def add_check(self, name: str, check: Check) -> None:
        """Of what a restart does not help against: not for ``/livez``."""
        for health in self._health:
            if health.name != "livez":
                health.add(name, check)

    def expect_hook(self, name: str) -> None:
        """``/readyz`` fails until ``hook_done(name)``."""
        self._pending_hooks.add(name)

        async def done() -> None:
            if name in self._pending_hooks:
                raise HealthError("not finished")

        for health in self._health:
            health.add(f"poststarthook/{name}", done)

    def hook_done(self, name: str) -> None:
        self._pending_hooks.discard(name)

    # -------------------------------------------------------------- life

    async def start(self) -> None:
        """Load the caches; from here on the loopback works."""
        await self.cacher.start()
        if self._freshness is not None:
            self._keeping_fresh = asyncio.create_task(self._freshness.keep(), name="keep-fresh")
        self._monitor.start()
        if self._owner is not None:
            return
        self._definition_controllers.start()
        if interval := self._options.compaction_interval.total_seconds():
            if self._shared is not None:
                keeping = self._shared.keep_compacting(interval, self.revisions)
            else:
                keeping = keep_compacting(self.store, self.clock, interval, self.revisions)
            self._compacting = asyncio.create_task(keeping, name="compactor")

    async def listen(self, sockets: list[socket.socket], context: ssl.SSLContext | None) -> None:
        """Serve bound sockets; ``context`` None is plain HTTP, for tests only."""
        await self._https.start(sockets, context)

    def loopback(self, user: UserInfo, component: str, may_write: Callable[[], bool] = lambda: True) -> Client:
        """A client in this process that acts as ``user``.

        Args:
            may_write: asked right before each request that is no read, which is not sent when it is False.
        """
        return LoopbackClient(self._loopback_handler, user, self.clock, component, may_write)

    def forgive(self) -> None:
        """What clients have written, read and got wrong counts no more: for tests that follow one another here."""
        self._write_budget.clear()
        self.flow_control.forgive()

    async def close(self, grace_seconds: float = DRAIN_SECONDS) -> None:
        """Fail ``/readyz``, stop accepting, end watches, finish requests, then let go of the store's stream."""
        self._stopping = True
        if self._compacting is not None:
            self._compacting.cancel()
        for cache in (*self.caches.by_plural.values(), *(kind.cache for kind in self.custom)):
            cache.close_watchers()
        await self._https.close(grace_seconds)
        if self._audit is not None:
            await self._audit.close()
        await self._definition_controllers.close()
        await self._converters.close()
        await self._timers.close()
        await self._standing.close()
        if self._freshness is not None and self._keeping_fresh is not None:
            self._keeping_fresh.cancel()
            await self._freshness.close()
        await self.cacher.close()
        self._monitor.stop()

    def _stalled(self, stall: Stall) -> None:
        self.metrics.loop_stalls.observe((), stall.seconds)


async def _passes() -> None:
    """A check that passes whenever the process can answer at all."""


async def _no_controllers() -> str:
    return "no controllers run inside of this server"


async def _no_scheduler() -> str:
    return "there is none: kubevouch runs no workloads"


def _index(paths: list[str]) -> Result:
    return BytesResult(json_codec.indent(json_codec.encode({"paths": paths})), "application/json")
