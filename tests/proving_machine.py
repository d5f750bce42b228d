"""A clerk who does by hand what the node-attestation controller would do, and a machine that proves itself by ``null``.

By hand, so that a test can say what is asked, which versions are read, and what is decided of which request.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from agent_world import LoopbackAccess, Network
from join_world import APPROVED, Told, condition
from kubevouch import wellknown
from kubevouch.agent.attestation_settings import AttestationSettings, parse
from kubevouch.agent.attested_request import obtain
from kubevouch.agent.certificate_request import node_client
from kubevouch.agent.certificate_store import CertificateStore
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestStatus
from kubevouch.api.kubevouch_v1alpha1.attestation_challenges import READY, REFUSED, AttestationChallenge
from kubevouch.api.kubevouch_v1alpha1.catalog import ATTESTATION_CHALLENGES
from kubevouch.api.meta_v1 import Condition
from kubevouch.attestation import request as blocks
from kubevouch.attestation.interface import Binding, Evidence
from kubevouch.client.interface import EventType, WatchOptions
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import Object, replace_metadata
from kubevouch.machinery.scheme import Resource
from kubevouch.machinery.text.times import Time
from kubevouch.pki import issuance
from kubevouch.pki.x509 import x509_request
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.server.bootstrap import own_kinds
from kubevouch.testing.cluster import Cluster

T = TypeVar("T", bound=Object)
NODE = "worker-1"
CLUSTER_ID = "5f6c1b2a-0000-4000-8000-000000000001"

Verdict = Callable[[CertificateSigningRequest, tuple[Evidence, ...]], str]
"""Empty approves; else the step that it is denied for."""


@asynccontextmanager
async def attested_cluster() -> AsyncIterator[Cluster]:
    """A cluster that has our own kinds."""
    async with Cluster() as cluster:
        await own_kinds.ensure(cluster.client())
        yield cluster


def by_null(*settings: str, names: Iterable[str] = ("null",), oldest: Iterable[str] = ()) -> AttestationSettings:
    found = parse(names, settings, oldest)
    assert found is not None
    return found


def approve(_csr: CertificateSigningRequest, _proofs: tuple[Evidence, ...]) -> str:
    return ""


@dataclass
class Clerk:
    """Args:
    reads: versions of evidence that are read; another one is neither approved nor denied.
    asks: versions for which a challenge is given; another one is refused with those.
    refuses: the step with which every challenge is refused.
    """

    cluster: Cluster
    verdict: Verdict = approve
    reads: tuple[str, ...] = ("v1",)
    asks: tuple[str, ...] = ("v1", "v2", "v3")
    refuses: str = ""
    challenges: list[str] = field(default_factory=list)
    requests: list[tuple[Evidence, ...]] = field(default_factory=list)
    granted: dict[str, str] = field(default_factory=dict)
    """By the key that was certified: the name of the request."""

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[Clerk]:
        tasks = [
            asyncio.create_task(self._follow(ATTESTATION_CHALLENGES, self._ask)),
            asyncio.create_task(self._follow(catalog.CERTIFICATE_SIGNING_REQUESTS, self._decide)),
        ]
        try:
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            for task in tasks:
                if not task.cancelled():
                    task.result()

    async def _follow(self, resource: Resource[T], work: Callable[[T], Awaitable[None]]) -> None:
        options = WatchOptions(send_initial_events=True)
        while True:
            async with aclosing(self.cluster.client().watch(resource, options=options)) as events:
                async for event in events:
                    if event.object is None or event.type in (EventType.DELETED, EventType.BOOKMARK):
                        continue
                    try:
                        await work(event.object)
                    except APIStatusError as err:
                        if err.code != 409:  # an event of before the last write
                            raise

    async def _ask(self, found: AttestationChallenge) -> None:
        if found.status.nonce or found.status.conditions:
            return
        self.challenges.append(found.metadata.name)
        now = Time.of(self.cluster.clock.now())
        status = msgspec.structs.replace(
            found.status, nonce=bytes(32), expires_at=Time.of(self.cluster.clock.now() + dt.timedelta(minutes=2))
        )
        kind, why = READY, "Asked"
        if self.refuses:
            kind, why = REFUSED, self.refuses
        elif found.spec.version not in self.asks:
            kind, why = REFUSED, "version"
            status = msgspec.structs.replace(status, supported_versions=list(self.asks))
        status = msgspec.structs.replace(
            status,
            nonce=status.nonce if kind == READY else b"",
            conditions=[Condition(type=kind, status="True", reason=why, message="by hand", last_transition_time=now)],
        )
        await self.cluster.client().update(
            ATTESTATION_CHALLENGES, msgspec.structs.replace(found, status=status), subresource="status"
        )

    async def _decide(self, csr: CertificateSigningRequest) -> None:
        if csr.status.conditions or wellknown.SUPPORTED_VERSIONS_ANNOTATION in csr.metadata.annotations:
            return
        proofs = blocks.parse(csr.spec.request or b"")
        self.requests.append(proofs)
        client, kind = self.cluster.client(), catalog.CERTIFICATE_SIGNING_REQUESTS
        if any(each.version not in self.reads for each in proofs):
            annotations = {**csr.metadata.annotations, wellknown.SUPPORTED_VERSIONS_ANNOTATION: ",".join(self.reads)}
            await client.update(kind, replace_metadata(csr, annotations=annotations))
            return
        reason = self.verdict(csr, proofs)
        denied = condition(wellknown.CSR_DENIED, "AttestationRefused", f"{reason}: by hand")
        decided = denied if reason else APPROVED
        shown = msgspec.structs.replace(csr, status=CertificateSigningRequestStatus(conditions=[decided]))
        csr = await client.update(kind, shown, subresource="approval")
        if reason:
            return
        request = x509_request.parse_pem(csr.spec.request or b"")
        self.granted[request.public_key.fingerprint().hex()] = csr.metadata.name
        leaf = issuance.issue(
            self.cluster.pki.authority,
            request,
            # Signed as a kubelet's.
            signer_name=wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
            usages=csr.spec.usages,
            expiration_seconds=86400,
            now=self.cluster.clock.now(),
        )
        status = msgspec.structs.replace(csr.status, certificate=leaf.pem())
        await client.update(kind, msgspec.structs.replace(csr, status=status), subresource="status")


@dataclass
class Machine:
    """A certificate folder, and the way to the cluster."""

    cluster: Cluster
    folder: Path
    told: Told = field(default_factory=Told)
    cluster_id: str = CLUSTER_ID
    network: Network = field(init=False)

    def __post_init__(self) -> None:
        self.network = Network(self.cluster, as_admin=True)

    @property
    def store(self) -> CertificateStore:
        return CertificateStore(self.folder)

    @property
    def leaf(self) -> Certificate:
        found = self.store.current()
        assert found is not None
        return found.leaf

    async def obtain(
        self, settings: AttestationSettings, *, timeout: float = 300.0, by_plugin: bool = False
    ) -> Certificate:
        """A certificate for proofs by ``settings``, as the first thing or instead of the one that is there."""
        with self.store.locked():
            async with LoopbackAccess(self.network, NODE).connected(self.store.current()) as poster:
                chain = await obtain(
                    self.store,
                    replace(poster, cluster_id=self.cluster_id),
                    replace(node_client(NODE, attestation=settings), by_plugin=by_plugin),
                    self.network.anchors,
                    self.cluster.clock,
                    self.told,
                    timeout=timeout,
                    random=random.Random(1).random,
                )
        return chain[0]


def bound(evidence: Evidence, csr: CertificateSigningRequest, nonce: bytes = bytes(32)) -> bool:
    """Whether a proof by ``null`` is made for this request, cluster and challenge."""
    spki = x509_request.parse_pem(csr.spec.request or b"").public_key.canonical_info
    shown = msgspec.json.decode(evidence.data)
    return bool((shown["digest"], shown["clusterId"]) == (Binding(spki, CLUSTER_ID, nonce).digest.hex(), CLUSTER_ID))
