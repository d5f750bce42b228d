"""Policies for certificate requests, and requests of users that they are about."""

from __future__ import annotations

import functools
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec

from controller_world import World
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REQUEST_POLICIES
from kubevouch.api.kubevouch_v1alpha1.certificate_request_policies import (
    AllowedHosts,
    AllowedSubject,
    AllowedTexts,
    CertificateRequestPolicy,
    CertificateRequestPolicySpec,
    ExpirationBounds,
    PolicySelector,
)
from kubevouch.api.rbac_v1 import PolicyRule
from kubevouch.authorization.policy import cluster_role, cluster_role_binding
from kubevouch.authorization.policy import user as user_subject
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames

SIGNER = "example.com/hosts"
HOST = "a.k8s.example.com"


@functools.cache
def pem(key: int, names: tuple[str, ...], common_name: str) -> bytes:
    private = ec.derive_private_key(key, ec.SECP256R1())
    return build_request(private, Subject(common_name=common_name), SubjectAltNames(dns_names=names))


async def ask(
    at: World, name: str, *, user: str = "alice", key: int = 7, names: tuple[str, ...] = (HOST,), seconds: int = 3600,
    signer: str = SIGNER, common_name: str = HOST,
) -> CertificateSigningRequest:  # fmt: skip
    spec = CertificateSigningRequestSpec(
        request=pem(key, names, common_name), signer_name=signer, usages=["server auth"], expiration_seconds=seconds
    )
    client = at.as_user(user, "system:masters") if user == "root" else at.as_user(user)
    made = CertificateSigningRequest(metadata=ObjectMeta(name=name), spec=spec)
    return await client.create(CERTIFICATE_SIGNING_REQUESTS, made)


async def rights(at: World, *users: str, policy: str = "hosts") -> None:
    """May post requests, and use the policy."""
    rules = [
        PolicyRule(
            verbs=["create", "get"], api_groups=["certificates.k8s.io"], resources=["certificatesigningrequests"]
        ),
        PolicyRule(
            verbs=["use"],
            api_groups=["kubevouch.io"],
            resources=["certificaterequestpolicies"],
            resource_names=[policy],
        ),
    ]
    for user in users:
        await at.client.create(CLUSTER_ROLES, cluster_role(f"r-{user}", *(rules[:1] if user == "eve" else rules)))
        await at.client.create(CLUSTER_ROLE_BINDINGS, cluster_role_binding(f"r-{user}", user_subject(user)))


async def policy(at: World, name: str = "hosts", **spec: Any) -> CertificateRequestPolicy:
    hosts = ["*.k8s.example.com"]
    declared = CertificateRequestPolicySpec(
        **{
            "effect": "ApproveOrDeny",
            "selector": PolicySelector(signer_names=[SIGNER]),
            "subject": AllowedSubject(common_name=AllowedTexts(patterns=hosts)),
            "dns_names": AllowedHosts(patterns=hosts),
            "usages": ["server auth"],
            "expiration_seconds": ExpirationBounds(maximum=2592000),
            **spec,
        }
    )
    made = CertificateRequestPolicy(metadata=ObjectMeta(name=name), spec=declared)
    return await at.client.create(CERTIFICATE_REQUEST_POLICIES, made)
