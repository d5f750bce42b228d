"""Requests for certificates by whoever asks, in a :class:`Cluster` that a test drives without coroutines."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Sequence
from typing import Any

from kubevouch import wellknown
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.authentication.interface import UserInfo
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import NONE, SubjectAltNames
from kubevouch.testing.cluster import Cluster

NODE_CLIENT = wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER
NODE_SERVING = wellknown.KUBELET_SERVING_SIGNER
CLIENT = wellknown.KUBE_APISERVER_CLIENT_SIGNER
LEGACY = wellknown.LEGACY_UNKNOWN_SIGNER
CLIENT_USAGES, SERVING_USAGES = ("digital signature", "client auth"), ("digital signature", "server auth")
TOKEN_GROUPS = (wellknown.BOOTSTRAPPERS_GROUP, wellknown.DEFAULT_NODE_TOKEN_GROUP)

_numbers = itertools.count(1)


def new_key(algorithm: KeyAlgorithm = KeyAlgorithm.ECDSA_P256) -> PrivateKey:
    return keys.generate(algorithm)


def token_user(token_id: str = "abcdef") -> UserInfo:
    return UserInfo(f"system:bootstrap:{token_id}", groups=(*TOKEN_GROUPS, wellknown.AUTHENTICATED_GROUP))


def node_user(name: str) -> UserInfo:
    return UserInfo(f"system:node:{name}", groups=(wellknown.NODES_GROUP, wellknown.AUTHENTICATED_GROUP))


def node_subject(name: str) -> Subject:
    return Subject(common_name=f"system:node:{name}", organizations=("system:nodes",))


def node_request(name: str, key: PrivateKey | None = None) -> bytes:
    """What a machine sends that wants to be the node ``name``."""
    return build_request(key or new_key(), node_subject(name))


def request(subject: Subject, key: PrivateKey | None = None, names: SubjectAltNames = NONE) -> bytes:
    return build_request(key or new_key(), subject, names)


def ask(
    cluster: Cluster,
    user: UserInfo,
    pem: bytes,
    *,
    signer: str = NODE_CLIENT,
    usages: Sequence[str] | None = None,
    name: str = "",
    metadata: dict[str, Any] | None = None,
) -> str:
    """Post a request as ``user``; its name."""
    wanted = usages or (SERVING_USAGES if signer == NODE_SERVING else CLIENT_USAGES)
    manifest = {
        "apiVersion": "certificates.k8s.io/v1beta1" if signer == LEGACY else "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name or f"csr-{next(_numbers)}", **(metadata or {})},
        "spec": {"request": base64.b64encode(pem).decode(), "signerName": signer, "usages": list(wanted)},
    }
    made = cluster.as_user(user).create(manifest)
    posted: str = made.metadata.name
    return posted


def approve(cluster: Cluster, name: str) -> None:
    """As a person does."""
    csr = cluster.get("CertificateSigningRequest", name)
    condition = {"type": "Approved", "status": "True", "reason": "ByHand", "message": "by hand"}
    cluster.apply(
        {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": name, "uid": csr.metadata.uid},
            "status": {"conditions": [condition]},
        },
        subresource="approval",
    )


def settled(cluster: Cluster, name: str) -> CertificateSigningRequest:
    """The request once the controllers have done with it."""
    cluster.settle()
    csr: CertificateSigningRequest = cluster.get("CertificateSigningRequest", name)
    return csr


def outcome(cluster: Cluster, name: str) -> str:
    """The types of the conditions and ``Issued``, by commas, and the message of what refused it."""
    csr = settled(cluster, name)
    words = [condition.type for condition in csr.status.conditions]
    if csr.status.certificate:
        words.append("Issued")
    why = [each.message for each in csr.status.conditions if each.type in ("Denied", "Failed")]
    return ": ".join([",".join(words) or "Pending", *why])
