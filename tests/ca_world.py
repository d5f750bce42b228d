"""A cluster whose CA is rotated, as the tool does it on the machine with the files."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from kubevouch import wellknown
from kubevouch.agent import trust_bundle, trust_report
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.phases.certificates.ca_rotation import CARotation
from kubevouch.phases.certificates.certs import load_authority
from kubevouch.phases.certificates.control_plane_files import Layout
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.testing.clock import settle
from kubevouch.testing.cluster import Cluster

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
CONTROLLERS = ("csrapproving", "csrsigning", "certificateledger", "root-ca-cert-publisher")


@dataclass
class CAWorld:
    cluster: Cluster
    layout: Layout
    rotation: CARotation

    async def wait(self, seconds: float) -> None:
        """Until everybody has done what is due by then."""
        for _ in range(int(seconds // 20) + 1):
            self.cluster.clock.advance(20)
            await settle()
            await self.cluster.settle_async()

    def bundle(self) -> tuple[Certificate, ...]:
        return trust_bundle.parse(self.layout.authority("ca").certificate.read_bytes(), "ca.crt")

    def signing(self) -> Certificate:
        return load_authority(self.layout.authority("ca")).certificate

    async def cluster_info(self) -> ConfigMap:
        return await self.cluster.client().get(catalog.CONFIG_MAPS, "cluster-info", "kube-public")

    async def report(self, *node_names: str, bundle: tuple[Certificate, ...] | None = None) -> None:
        """As the machines' agents do once they have read cluster-info."""
        for name in node_names:
            user = f"{wellknown.NODE_USER_PREFIX}{name}"
            client = self.cluster.client(user, [wellknown.NODES_GROUP])
            await trust_report.report(client, name, trust_bundle.bundle_hash(bundle or self.bundle()))

    async def issue(self, node_name: str, number: int = 0) -> Certificate:
        """A client certificate for a machine, by the controllers."""
        user = f"{wellknown.NODE_USER_PREFIX}{node_name}"
        key = keys.generate(KeyAlgorithm.ECDSA_P256)
        subject = Subject(common_name=user, organizations=(wellknown.NODES_GROUP,))
        spec = CertificateSigningRequestSpec(
            request=build_request(key, subject),
            signer_name=wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
            usages=["digital signature", "client auth"],
        )
        name = f"{node_name}-{number}"
        csr = CertificateSigningRequest(metadata=ObjectMeta(name=name), spec=spec)
        await self.cluster.client(user, [wellknown.NODES_GROUP]).create(catalog.CERTIFICATE_SIGNING_REQUESTS, csr)
        await self.wait(20)
        issued = await self.cluster.client().get(catalog.CERTIFICATE_SIGNING_REQUESTS, name)
        return x509_certificate.parse_pem(issued.status.certificate)

    async def forget_requests(self) -> None:
        """As the cleaner does after an hour."""
        await self.cluster.client().delete_collection(catalog.CERTIFICATE_SIGNING_REQUESTS)


@asynccontextmanager
async def ca_world(*, https: bool = False) -> AsyncIterator[CAWorld]:
    # TLS clients look at the machine's clock.
    async with Cluster(now=None if https else NOW, https=https, controllers=CONTROLLERS) as cluster:
        if https:
            assert cluster.kubeconfig.exists()
        layout = Layout(cluster.folder / "pki", cluster.folder)
        world = CAWorld(cluster, layout, CARotation(cluster.client(), layout, cluster.clock))
        await world.wait(20)
        yield world
