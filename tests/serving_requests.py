"""Requests of kubelets for serving certificates, and the Nodes that report what is in them."""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Sequence
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec

from kubevouch import wellknown
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, NODES
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.api.core_v1 import Node
from kubevouch.api.core_v1.nodes import NodeAddress, NodeStatus
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta, replace_metadata
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames

USAGES = ("digital signature", "server auth")
ADDRESSES = (("Hostname", "n1"), ("InternalIP", "10.0.0.9"))


@functools.cache
def pem(node: str, dns: tuple[str, ...], ips: tuple[str, ...], key: int = 7) -> bytes:
    subject = Subject(common_name=f"system:node:{node}", organizations=(wellknown.NODES_GROUP,))
    names = SubjectAltNames(dns_names=dns, ip_addresses=tuple(map(ipaddress.ip_address, ips)))
    return build_request(ec.derive_private_key(key, ec.SECP256R1()), subject, names)


def asks(
    name: str,
    node: str = "n1",
    dns: tuple[str, ...] = ("n1",),
    ips: tuple[str, ...] = ("10.0.0.9",),
    *,
    subject: str = "",
    annotations: dict[str, str] | None = None,
    usages: Sequence[str] = USAGES,
) -> CertificateSigningRequest:
    """As ``node``, for ``subject`` if that is somebody else."""
    return CertificateSigningRequest(
        metadata=ObjectMeta(name=name, uid=name, annotations=annotations or {}),
        spec=CertificateSigningRequestSpec(
            request=pem(subject or node, dns, ips),
            signer_name=wellknown.KUBELET_SERVING_SIGNER,
            usages=list(usages),
            username=f"system:node:{node}",
            groups=[wellknown.NODES_GROUP, wellknown.AUTHENTICATED_GROUP],
        ),
    )


def node_with(name: str = "n1", addresses: Sequence[tuple[str, str]] = ADDRESSES, **labels: str) -> Node:
    status = NodeStatus(addresses=[NodeAddress(type=kind, address=address) for kind, address in addresses])
    return Node(metadata=ObjectMeta(name=name, labels=labels), status=status)


async def post(world: Any, csr: CertificateSigningRequest) -> CertificateSigningRequest:
    """As the node that ``csr`` is from."""
    client = world.as_user(csr.spec.username, wellknown.NODES_GROUP)
    made: CertificateSigningRequest = await client.create(CERTIFICATE_SIGNING_REQUESTS, csr)
    return made


async def report(world: Any, node: Node) -> None:
    """Make the Node, or have it report what ``node`` does."""
    try:
        await world.client.create(NODES, node)
    except APIStatusError as err:
        if err.code != 409:
            raise
        known = await world.client.get(NODES, node.metadata.name)
        meta = replace_metadata(known, labels=node.metadata.labels)
        await world.client.update(NODES, meta)
        known = await world.client.get(NODES, node.metadata.name)
        from msgspec.structs import replace

        await world.client.update(NODES, replace(known, status=node.status), subresource="status")


async def decision(world: Any, name: str) -> tuple[str, str]:
    """Type and reason of the condition, and Issued; empty while it waits."""
    csr: CertificateSigningRequest = await world.client.get(CERTIFICATE_SIGNING_REQUESTS, name)
    return (
        ("Pending", "")
        if not csr.status.conditions
        else (csr.status.conditions[0].type, csr.status.conditions[0].reason)
    )
