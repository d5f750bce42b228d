"""What a joining machine asks of a :class:`Cluster`, without the machine."""

from __future__ import annotations

from kubevouch import wellknown
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.pki.x509.subject import Subject
from kubevouch.testing.cluster import Cluster

KEY = keys.generate(KeyAlgorithm.ECDSA_P256)
GROUPS = [wellknown.BOOTSTRAPPERS_GROUP, wellknown.DEFAULT_NODE_TOKEN_GROUP]


def node_request(name: str, node: str, key: PrivateKey) -> CertificateSigningRequest:
    """For a node's client certificate."""
    subject = Subject(common_name=f"system:node:{node}", organizations=("system:nodes",))
    spec = CertificateSigningRequestSpec(
        request=build_request(key, subject),
        signer_name=wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
        usages=["digital signature", "client auth"],
    )
    return CertificateSigningRequest(metadata=ObjectMeta(name=name), spec=spec)


async def ask(cluster: Cluster, token_id: str, name: str = "csr-1", node: str = "worker-1") -> None:
    """As a machine does that joins with the token."""
    csr = node_request(name, node, KEY)
    await cluster.client(f"system:bootstrap:{token_id}", GROUPS).create(catalog.CERTIFICATE_SIGNING_REQUESTS, csr)
    await cluster.settle_async()
