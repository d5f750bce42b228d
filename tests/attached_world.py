"""Controllers in this process, attached over HTTPS to a :class:`Cluster` that stands for a foreign one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from join_requests import GROUPS
from kubevouch import wellknown
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec, has_condition
from kubevouch.api.core_v1 import ServiceAccount
from kubevouch.client.credentials import FixedCredential
from kubevouch.client.kubeconfig import load
from kubevouch.client.options import ClientOptions
from kubevouch.client.rest_config import RESTConfig, resolve
from kubevouch.client.tls import TLSSources
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.server.bootstrap import own_kinds
from kubevouch.signers.catalog import PairFiles
from kubevouch.standalone.attached.options import AttachedCluster, AttachedOptions, ServingOptions
from kubevouch.standalone.attached.process import RunningAttached, running
from kubevouch.standalone.options import ClusterSigning
from kubevouch.testing.clock import FakeClock, settle
from kubevouch.testing.cluster import Cluster
from kubevouch.testing.waiting import wait_for
from kubevouch.util.clock import Clock, SystemClock

NOWHERE = ServingOptions(port=None)
JOINING = ("*", "csrapproving", "csrsigning")
"""What kube-controller-manager would do, had it not been switched off."""


def config_of(path: Path) -> RESTConfig:
    return resolve(load(path))


def cluster_of(cluster: Cluster, name: str = "") -> AttachedCluster:
    return AttachedCluster(name, config_of(cluster.kubeconfig))


def signing_of(cluster: Cluster) -> ClusterSigning:
    """With the CA of the cluster, as one that kube-controller-manager was given."""
    folder = cluster.folder / "pki"
    return ClusterSigning(PairFiles(str(folder / "ca.crt"), str(folder / "ca.key")))


def options_for(cluster: Cluster, **more: Any) -> AttachedOptions:
    given = {"clusters": (cluster_of(cluster),), "serving": NOWHERE, "qps": 0.0, **more}
    return AttachedOptions(**given)


@asynccontextmanager
async def foreign(*, is_real_time: bool = True, **more: Any) -> AsyncIterator[Cluster]:
    """An API server without controllers, to which our kinds were applied."""
    async with Cluster(https=True, real_time=is_real_time, **more) as cluster:
        await own_kinds.ensure(cluster.server.client)
        yield cluster


@asynccontextmanager
async def attached(
    cluster: Cluster, *, clock: Clock | None = None, options: AttachedOptions | None = None, **more: Any
) -> AsyncIterator[RunningAttached]:
    """Attached controllers; on the machine's clock, unless a test moves one."""
    async with running(options or options_for(cluster, **more), clock or SystemClock()) as found:
        yield found


async def until_leading(found: RunningAttached, number: int = 0) -> None:
    """Until the controllers of one cluster work and their caches are filled."""
    each = found.clusters[number]
    await holds(lambda: each.manager is not None and bool(each.manager.informers.informers))
    assert each.manager is not None
    await each.manager.informers.wait_synced()


async def holds(condition: Callable[[], bool]) -> None:
    """Until something is so that happens in this process, on this loop."""
    while not condition():  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(0)


async def passes(clock: FakeClock, condition: Callable[[], bool]) -> None:
    """Let time pass until something is so, and requests have their turns: their time-outs go by this clock, too."""
    while not condition():
        clock.advance(0.25)
        for _ in range(20):
            await settle()


async def account_token(cluster: Cluster, namespace: str, name: str) -> str:
    """A token of a new service account."""
    account = ServiceAccount(metadata=ObjectMeta(name=name, namespace=namespace))
    await cluster.client().create(catalog.SERVICE_ACCOUNTS, account)
    return await token_of(cluster, namespace, name)


async def account_config(cluster: Cluster, namespace: str, name: str) -> RESTConfig:
    """Of a service account that is there, and nobody else."""
    credential = FixedCredential.token(await token_of(cluster, namespace, name))
    tls = TLSSources(ca_bundle=cluster.pki.ca_certificate)
    return RESTConfig(ClientOptions(server=cluster.url), tls, lambda _clock: credential)


async def token_of(cluster: Cluster, namespace: str, name: str) -> str:
    answer = await cluster.client().raw(
        "POST",
        f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
        b'{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}',
        {"Content-Type": "application/json"},
    )
    assert answer.status == 201, answer.body
    token: str = json.loads(answer.body)["status"]["token"]
    return token


async def asked(cluster: Cluster, name: str, node: str) -> None:
    """As a machine does that joins with a token and a key of its own."""
    token_id = (await cluster.token_async()).partition(".")[0]
    subject = Subject(common_name=f"system:node:{node}", organizations=("system:nodes",))
    spec = CertificateSigningRequestSpec(
        request=build_request(keys.generate(KeyAlgorithm.ECDSA_P256), subject),
        signer_name=wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
        usages=["digital signature", "client auth"],
    )
    csr = CertificateSigningRequest(metadata=ObjectMeta(name=name), spec=spec)
    await cluster.client(f"system:bootstrap:{token_id}", GROUPS).create(catalog.CERTIFICATE_SIGNING_REQUESTS, csr)


async def until(
    cluster: Cluster, name: str, holds: Callable[[CertificateSigningRequest], bool]
) -> CertificateSigningRequest:
    return await wait_for(cluster.client(), catalog.CERTIFICATE_SIGNING_REQUESTS, name, until=holds, timeout=120.0)


def is_issued(csr: CertificateSigningRequest) -> bool:
    assert not has_condition(csr, wellknown.CSR_DENIED), csr.status
    return bool(csr.status.certificate)
