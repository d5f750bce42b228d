"""A cluster to join: a real server on a real port, and a clerk who does by hand what controllers would do.

By hand, so that a test can say what the clerk does, and when.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from msgspec.structs import replace

from kubevouch import wellknown
from kubevouch.agent.discovery import TokenDiscovery, token_discovery
from kubevouch.agent.interface import Step
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestStatus,
)
from kubevouch.client.endpoint import Endpoint
from kubevouch.client.interface import EventType, WatchOptions
from kubevouch.machinery.errors import APIStatusError
from kubevouch.phases import bootstrap_token, cluster_info
from kubevouch.phases.certificates import certs
from kubevouch.pki import issuance, jws, pins
from kubevouch.pki.control_plane import ControlPlaneNames
from kubevouch.pki.x509 import x509_request
from kubevouch.records.bootstrap_tokens import Token, parse_token
from kubevouch.records.cluster_info import ClusterInfo, build_kubeconfig, parse_kubeconfig, signature_key
from kubevouch.standalone.network import bind
from kubevouch.standalone.server import StandaloneServer
from kubevouch.storage.memory import MemoryStore
from kubevouch.util.clock import Clock, SystemClock

TOKEN = parse_token("p9k2zq.w7e1r5t3y9u8i0oa")
WHY = "Auto approving kubelet client certificate after SubjectAccessReview."


@dataclass
class Told:
    """An observer that remembers."""

    steps: list[Step] = field(default_factory=list)
    details: list[str] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def done(self, step: Step, detail: str = "") -> None:
        self.steps.append(step)
        self.details.append(detail)

    def waiting(self, why: str) -> None:
        self.waits.append(why)

    def warning(self, text: str) -> None:
        self.warnings.append(text)


Decide = Callable[[CertificateSigningRequest], CertificateSigningRequestStatus | None]


@dataclass
class JoinWorld:
    server: StandaloneServer
    clock: Clock

    @property
    def endpoint(self) -> str:
        return self.server.endpoint.address

    @property
    def pin(self) -> str:
        return pins.pin_of(self.server.pki.authority.certificate)

    def discovery(self, token: str = TOKEN.text, *, timeout: float = 120.0) -> TokenDiscovery:
        return token_discovery(self.endpoint, token, [self.pin], timeout=timeout)

    async def sign_cluster_info(self, token: Token = TOKEN) -> None:
        client = self.server.client
        found = await client.get(catalog.CONFIG_MAPS, "cluster-info", "kube-public")
        value = jws.sign(found.data["kubeconfig"].encode(), token.token_id, token.token_secret)
        data = {**found.data, signature_key(token.token_id): value}
        await client.update(catalog.CONFIG_MAPS, msgspec.structs.replace(found, data=data))

    async def say_id(self, cluster_id: str) -> None:
        """Let cluster-info say which cluster it is."""
        client = self.server.client
        found = await client.get(catalog.CONFIG_MAPS, "cluster-info", "kube-public")
        info = replace(parse_kubeconfig(found.data["kubeconfig"]), cluster_id=cluster_id)
        data = {**found.data, "kubeconfig": build_kubeconfig(info)}
        await client.update(catalog.CONFIG_MAPS, msgspec.structs.replace(found, data=data))
        await self.sign_cluster_info()

    async def clerk(self, decide: Decide) -> None:
        """Gives each request the status that ``decide`` says; None leaves it alone."""
        options = WatchOptions(send_initial_events=True)
        async with aclosing(self.server.client.watch(catalog.CERTIFICATE_SIGNING_REQUESTS, options=options)) as events:
            async for event in events:
                csr = event.object
                if csr is None or event.type in (EventType.DELETED, EventType.BOOKMARK) or csr.status.certificate:
                    continue
                status = decide(csr)
                if status is not None:
                    try:
                        await self._write(csr, status)
                    except APIStatusError as err:
                        if err.code != 409:  # an event of before the last write
                            raise

    async def _write(self, csr: CertificateSigningRequest, status: CertificateSigningRequestStatus) -> None:
        client = self.server.client
        decisions = [c for c in status.conditions if c.type in (wellknown.CSR_APPROVED, wellknown.CSR_DENIED)]
        if not csr.status.conditions and decisions:
            shown = msgspec.structs.replace(csr, status=CertificateSigningRequestStatus(conditions=decisions))
            csr = await client.update(catalog.CERTIFICATE_SIGNING_REQUESTS, shown, subresource="approval")
        rest = [c for c in status.conditions if c not in decisions]
        if status.certificate or (rest and len(csr.status.conditions) == len(decisions)):
            stored = CertificateSigningRequestStatus(
                conditions=[*csr.status.conditions, *rest], certificate=status.certificate
            )
            shown = msgspec.structs.replace(csr, status=stored)
            await client.update(catalog.CERTIFICATE_SIGNING_REQUESTS, shown, subresource="status")

    def issued(self, csr: CertificateSigningRequest, *, ttl: int | None = None) -> CertificateSigningRequestStatus:
        """Approved, with the certificate that Kubernetes would issue."""
        certificate = issuance.issue(
            self.server.pki.authority,
            x509_request.parse_pem(csr.spec.request or b""),
            signer_name=csr.spec.signer_name,
            usages=csr.spec.usages,
            expiration_seconds=ttl,
            now=self.clock.now(),
        )
        return CertificateSigningRequestStatus(conditions=[APPROVED], certificate=certificate.pem())

    @asynccontextmanager
    async def clerk_at_work(self, decide: Decide | None = None) -> AsyncIterator[None]:
        task = asyncio.create_task(self.clerk(decide or self.issued))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled():
                task.result()


def condition(kind: str, reason: str = "", message: str = "") -> CertificateSigningRequestCondition:
    return CertificateSigningRequestCondition(type=kind, status="True", reason=reason, message=message)


APPROVED = condition(wellknown.CSR_APPROVED, "AutoApproved", WHY)


def decided(*conditions: CertificateSigningRequestCondition) -> Decide:
    """A clerk who writes these conditions and no certificate."""
    return lambda _csr: CertificateSigningRequestStatus(conditions=list(conditions))


@asynccontextmanager
async def join_world(
    folder: Path, clock: Clock | None = None, *, signed: bool = True, host: str = "127.0.0.1"
) -> AsyncIterator[JoinWorld]:
    """A cluster with a token that cluster-info is signed with, unless ``signed`` is False."""
    clock = clock or SystemClock()
    sockets = bind(host, 0)
    endpoint = Endpoint(host, sockets[0].getsockname()[1])
    names = ControlPlaneNames(node_name="control-plane", advertise_address=host, extra=("localhost",))
    pki = certs.ensure_control_plane(folder / "pki", names, now=clock.now())
    store = MemoryStore(clock=clock)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(store.close)
        server = await stack.enter_async_context(StandaloneServer(store, clock, pki, endpoint))
        await cluster_info.ensure(server.client, ClusterInfo(endpoint.url, pki.ca_certificate))
        plan = bootstrap_token.plan(TOKEN, now=clock.now(), ttl=dt.timedelta(days=3))
        await bootstrap_token.create(server.client, plan)
        world = JoinWorld(server, clock)
        if signed:
            await world.sign_cluster_info()
        await server.listen(sockets)
        yield world
