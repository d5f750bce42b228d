"""One process with everything: opens the data directory, starts the server, then the controllers."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from types import TracebackType

from kubevouch import wellknown
from kubevouch.api.catalog import (
    CLUSTER_TRUST_BUNDLES,
    NAMESPACES,
    POD_CERTIFICATE_REQUESTS,
    POD_CERTIFICATE_REQUESTS_V1,
)
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.attestation_policy import attestation_policy
from kubevouch.authorization.bootstrap_policy import bootstrap_policy, cluster_trust_bundle_policy
from kubevouch.authorization.controller_policy import kubevouch_controller_policy
from kubevouch.authorization.kubeadm_policy import kubeadm_policy
from kubevouch.authorization.ledger_policy import ledger_policy
from kubevouch.authorization.param_access import ParamAccess
from kubevouch.authorization.policy import Policy
from kubevouch.authorization.recovery_policy import recovery_policy
from kubevouch.authorization.revocation_policy import revocation_policy
from kubevouch.client import stored
from kubevouch.client.endpoint import Endpoint
from kubevouch.client.interface import Client, ClientConfigurationError
from kubevouch.client.tls import ClientTLS
from kubevouch.machinery.errors import APIStatusError, loggable
from kubevouch.machinery.meta import Object
from kubevouch.phases.certificates.certs import CertsError, ControlPlanePKI, load_service_account_key, pair_at, read_key
from kubevouch.pki import pins
from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.pki.control_plane import APISERVER_KUBELET_CLIENT
from kubevouch.records.node_recovery import RecoveryPolicy
from kubevouch.registry.catalog import definitions
from kubevouch.registry.certificates import certificatesigningrequests
from kubevouch.registry.certificates.certificatesigningrequests import RecordedRefusals
from kubevouch.registry.core import events
from kubevouch.revocation.publication import Publication
from kubevouch.revocation.revocations import Revocations
from kubevouch.server.apiserver import APIServer
from kubevouch.server.audit.build import BuildAudit
from kubevouch.server.bootstrap import (
    authentication_trust,
    first_start,
    kubernetes_service,
    namespaces,
    node_recovery,
    rbac,
    server_leases,
)
from kubevouch.server.bootstrap.server_leases import ServerLeases
from kubevouch.server.filters.tracing import Tracing
from kubevouch.server.options import ServerOptions
from kubevouch.server.owner import Owner
from kubevouch.server.request import Filter
from kubevouch.server.runtime_config import RuntimeConfig
from kubevouch.standalone import network
from kubevouch.standalone.access import Access
from kubevouch.standalone.ca_files import CAFiles
from kubevouch.standalone.errors import NotHereError
from kubevouch.standalone.leaf_renewal import LeafRenewal
from kubevouch.standalone.security import StandaloneSecurity, Trust
from kubevouch.standalone.service_account_options import ServiceAccountOptions
from kubevouch.standalone.service_accounts import issuer_of
from kubevouch.storage.interface import Store, StoreError
from kubevouch.storage.watchcache.objects import CacheEvent
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger
from kubevouch.util.tasks import deadline

# How long an end waits for the store, which may be why it ends.
_LEAVE_SECONDS = 2.0

log = get_logger("standalone.server")

API_SERVER = UserInfo(wellknown.API_SERVER_USER, groups=(wellknown.MASTERS_GROUP, wellknown.AUTHENTICATED_GROUP))


def gated_kinds(runtime_config: RuntimeConfig | None = None) -> tuple[str, ...]:
    """Those of the kinds that Kubernetes has behind a gate which are served."""
    serves = (runtime_config or RuntimeConfig()).serves
    kinds = (CLUSTER_TRUST_BUNDLES, POD_CERTIFICATE_REQUESTS, POD_CERTIFICATE_REQUESTS_V1)
    return tuple(dict.fromkeys(kind.plural for kind in kinds if serves(kind)))


def shipped_policy(runtime_config: RuntimeConfig | None = None, *, recovery: bool = False) -> Policy:
    """What the server keeps complete at each start. ``recovery``: nodes whose certificate has ended may come back."""
    gated = gated_kinds(runtime_config)
    policy = bootstrap_policy(*gated) + kubevouch_controller_policy() + ledger_policy() + revocation_policy()
    policy += attestation_policy()
    if CLUSTER_TRUST_BUNDLES.plural in gated:
        policy += cluster_trust_bundle_policy()
    return policy + recovery_policy() if recovery else policy


class StandaloneServer:
    """The API server of one cluster over an open store.

    Args:
        pki: whose CA issues client certificates, and the serving pair.
        endpoint: where clients reach the server.
        runtime_config: which API versions are served; None means the usual ones.
        access: what authenticates and authorizes besides, closed with the server; None is nothing, with Node and RBAC.
        audit: builds what records requests; None records nothing.
        options: of the API server itself.
        tracing: of requests and controllers; None traces nothing.
        service_accounts: who signs their tokens; None means kubeadm's defaults.
        disabled_admission: plug-ins to leave out.
        recovery: what is allowed to nodes whose certificate has ended; None is nothing.
        at_first_start: what else an empty store gets, beside the bindings that kubeadm makes. Once: cut short, it is
            called again at the next start.
        service_address: that of ``default/kubernetes``.
        owner: the process whose worker this one is; None puts in place what a cluster has, and looks after it.
        last_links: of the chain, right before the handlers, for requests over the network.
        replicated: other servers may be at work on the same store.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        pki: ControlPlanePKI,
        endpoint: Endpoint,
        *,
        runtime_config: RuntimeConfig | None = None,
        access: Access | None = None,
        audit: BuildAudit | None = None,
        options: ServerOptions | None = None,
        tracing: Tracing | None = None,
        service_accounts: ServiceAccountOptions | None = None,
        disabled_admission: Collection[str] = (),
        recovery: RecoveryPolicy | None = None,
        at_first_start: Callable[[Client], Awaitable[None]] | None = None,
        service_address: str = "10.96.0.1",
        owner: Owner | None = None,
        last_links: Sequence[Filter] = (),
        replicated: bool = False,
    ) -> None:
        """Raises :class:`AccessError`, :class:`AuditOptionsError` when a webhook's kubeconfig cannot be used,
        :class:`ServiceAccountError` when a key file cannot."""
        self.clock = clock
        self.pki = pki
        self.endpoint = endpoint
        issuer = issuer_of(service_accounts or ServiceAccountOptions(), load_service_account_key(pki.service_account))
        trust = Trust(
            TrustAnchors.from_pem(pki.ca_certificate),
            TrustAnchors([pki.front_proxy]),
            issuer,
            recovery,
        )
        self.recovery = recovery
        self._service_address = ipaddress.ip_address(service_address)
        security = StandaloneSecurity(trust, clock, access, disabled_admission, gated_kinds(runtime_config))
        self._security = security
        self.publication = Publication(security.revocations, endpoint.url)
        told = options or ServerOptions()
        self._ca_files = CAFiles(pki, clock, security.replace_client_anchors, told)
        requests = certificatesigningrequests.definition(
            RecordedRefusals() if told.record_invalid_csr_signatures else None, told.csr_columns, told.csr_annotations
        )
        self.api = APIServer(
            store,
            clock,
            definitions(
                security.guard,
                ParamAccess(security.authorizer),
                security.authorizer,
                requests,
                events.definition(told.event_ttl.total_seconds()),
            ),
            security.build,
            address=endpoint.address,
            issuer=issuer,
            runtime_config=runtime_config,
            audit=audit,
            options=options,
            tracing=tracing,
            kubelet_credential=self._kubelet_credential,
            publication=self.publication,
            owner=owner,
            last_links=last_links,
            replicated=replicated,
        )
        security.record_into(self.api.metrics.access)
        self._owner = owner
        self.is_replicated = replicated
        self._policy = shipped_policy(runtime_config, recovery=recovery is not None)
        self._at_first_start = at_first_start
        self._replaces_ca = told.replaces_ca
        self._leases = (
            ServerLeases(self.api.store, network.parsed(endpoint.host)) if replicated and owner is None else None
        )
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def client(self) -> Client:
        """The server's own client, with all rights."""
        return self.api.loopback(API_SERVER, "kube-apiserver")

    @property
    def revocations(self) -> Revocations:
        """What is revoked: the very set that requests are held against."""
        return self._security.revocations

    def _kubelet_credential(self) -> ClientTLS:
        """Read anew each time: the pair is renewed, and the CA rotated, while the server runs."""
        pair = pair_at(self.pki.folder, APISERVER_KUBELET_CLIENT.base_name)
        try:
            return ClientTLS(self.pki.ca_certificate, pair.certificate.read_bytes(), read_key(pair.key))
        except (CertsError, OSError) as err:
            raise ClientConfigurationError(f"the server's pair for kubelets cannot be read: {err}") from err

    async def start(self) -> None:
        """Load the store and put in place what a cluster has from the start; afterwards the loopback is ready."""
        if self._owner is None:
            await self._lead()
        else:
            await self.api.start()
        self._tasks.append(asyncio.create_task(self._security.keep(), name="access-files"))
        self._tasks.append(asyncio.create_task(self._ca_files.keep(), name="ca-files"))

    async def _lead(self) -> None:
        for hook in ("start-system-namespaces-controller", "rbac/bootstrap-roles", authentication_trust.HOOK):
            self.api.expect_hook(hook)
        await self.api.start()
        client = self.client
        is_first = await first_start.begin(client, self.clock, alone=self._leases is None)
        await self._expect_own_cluster(client)
        await namespaces.ensure(client)
        for ours in (wellknown.SIGNERS_NAMESPACE, wellknown.JOIN_TOKENS_NAMESPACE):
            await namespaces.ensure_one(client, ours)
        if self.recovery is not None:
            await node_recovery.ensure(client)
        await self._tell_service()
        self.api.hook_done("start-system-namespaces-controller")
        await rbac.reconcile(client, _objects(self._policy))
        if is_first:
            await rbac.reconcile(client, _objects(kubeadm_policy()))
            if self._at_first_start is not None:
                await self._at_first_start(client)
            # By this the others see whether they are of this cluster.
            await authentication_trust.attempt(client, self._security.authentication_trust(), self.clock.now())
            await first_start.end(client)
        self.api.hook_done("rbac/bootstrap-roles")
        await self._keep_authentication_trust()
        self.api.hook_done(authentication_trust.HOOK)
        self._tasks.append(asyncio.create_task(namespaces.keep(client, self.clock), name="system-namespaces"))
        renewal = LeafRenewal(self.pki, self.clock)
        self._tasks.append(asyncio.create_task(renewal.keep(), name="leaf-renewal"))
        if self._leases is not None:
            self._tasks.append(asyncio.create_task(self._keep_service(), name="server-leases"))

    async def _expect_own_cluster(self, client: Client) -> None:
        """That the store is of a cluster with this CA: with two, servers would refuse each other's machines, and
        cluster-info would name now one and now the other. What only Kubernetes' own servers have served is taken over.

        Raises:
            NotHereError: it is not. Nothing was changed.
        """
        known = self._security.authentication_trust().clients
        others = await authentication_trust.strangers(client, known, self.clock.now())
        if not others:
            return
        own, named = pins.pin_of(self.pki.certificate), ", ".join(pins.pin_of(each) for each in others)
        is_ours = await stored.find(client, NAMESPACES, wellknown.SIGNERS_NAMESPACE) is not None
        if is_ours and not self._replaces_ca:
            raise NotHereError(
                f"the store is of a cluster with another CA: got {own}, expected {named}",
                f"copy pki/ of a server of it to {self.pki.folder}, without apiserver.crt and apiserver.key, or "
                "give another store or prefix in etcd; --replace-cluster-ca locks out that cluster's machines",
            )
        log.warning("the CA of the cluster is replaced, and its machines are locked out", ca=own, former=named)

    async def _tell_service(self) -> None:
        """Have ``default/kubernetes`` name all servers that are at work. Raises APIStatusError, StoreError."""
        if self._leases is not None:
            await self._leases.renew()
        await kubernetes_service.ensure(self.api.stores, self._service_objects, API_SERVER, self.clock)

    async def _service_objects(self) -> Mapping[str, Object]:
        own = network.parsed(self.endpoint.host)
        found = [own] if self._leases is None else await self._leases.addresses()
        # Its own lease may have ended since it was renewed.
        return kubernetes_service.objects(self._service_address, found or [own], self.endpoint.port)

    async def _keep_service(self) -> None:
        """For ever."""
        while True:
            await self.clock.sleep(server_leases.INTERVAL_SECONDS)
            try:
                await self._tell_service()
            except (APIStatusError, StoreError) as err:
                log.warning("could not tell that this server is at work", err=loggable(err))

    async def _keep_authentication_trust(self) -> None:
        client, changed = self.client, asyncio.Event()
        key = f"{authentication_trust.NAMESPACE}/{authentication_trust.NAME}"
        cache = self.api.caches["configmaps"]

        def follow(event: CacheEvent[ConfigMap]) -> None:
            if event.key.removeprefix(cache.prefix) == key:
                changed.set()

        cache.on_event(follow)
        self._security.on_client_anchors(changed.set)
        await authentication_trust.attempt(client, self._security.authentication_trust(), self.clock.now())
        keeping = authentication_trust.keep(client, self.clock, self._security.authentication_trust, changed)
        self._tasks.append(asyncio.create_task(keeping, name="authentication-trust"))

    async def listen(self, sockets: list[socket.socket]) -> None:
        await self.api.listen(sockets, self._ca_files.serve_with())

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._leave()
        await self.api.close()
        await self._security.close()

    async def _leave(self) -> None:
        """Be named no more. Where that fails, the others find out when the lease has ended."""
        if self._leases is None or not self.api.cacher.is_ready:
            return
        try:
            async with deadline(self.clock, _LEAVE_SECONDS):
                await self._leases.release()
                if await self._leases.addresses():
                    await kubernetes_service.ensure(self.api.stores, self._service_objects, API_SERVER, self.clock)
        except (APIStatusError, StoreError, TimeoutError) as err:
            log.info("could not tell that this server ends", err=loggable(err))

    async def __aenter__(self) -> StandaloneServer:
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _objects(policy: Policy) -> list[object]:
    return [*policy.cluster_roles, *policy.roles, *policy.cluster_role_bindings, *policy.role_bindings]
