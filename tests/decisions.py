"""Users, rules and admission requests for tests of decisions, in few words."""

from __future__ import annotations

from functools import cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec

from kubevouch.admission.interface import Operation, Request, Version
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.api.rbac_v1 import PolicyRule
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.policy import Policy, cluster_role, cluster_role_binding
from kubevouch.authorization.policy import user as user_subject
from kubevouch.authorization.rbac import RBACAuthorizer, RBACPolicy
from kubevouch.machinery.meta import Object, ObjectMeta
from kubevouch.machinery.scheme import Resource
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject

BOB = UserInfo("bob", groups=("system:authenticated",))


def node_user(name: str = "worker-1") -> UserInfo:
    return UserInfo(f"system:node:{name}", groups=("system:nodes", "system:authenticated"))


def rbac_policy(policy: Policy) -> RBACPolicy:
    """The policy, ready to be asked."""
    indexed = RBACPolicy()
    for role in policy.every_role:
        indexed.put_role(role)
    for binding in policy.every_binding:
        indexed.put_binding(binding)
    return indexed


def rights_of(user: UserInfo, *rules: PolicyRule) -> RBACAuthorizer:
    """RBAC in which the user's rules, cluster-wide, are all there is."""
    granted = Policy((cluster_role("rights", *rules),), (cluster_role_binding("rights", user_subject(user.name)),))
    return RBACAuthorizer(rbac_policy(granted))


def admission_request(
    operation: Operation,
    resource: Resource[Any],
    obj: Object | None = None,
    old: Object | None = None,
    *,
    user: UserInfo = BOB,
    subresource: str = "",
    name: str | None = None,
    namespace: str | None = None,
) -> Request:
    """Name and namespace are those of the object unless they are given."""
    about = obj or old
    metadata = about.metadata if about is not None else ObjectMeta()
    return Request(
        user=user,
        operation=operation,
        resource=resource.group_resource,
        kind=resource.gvk,
        subresource=subresource,
        namespace=metadata.namespace if namespace is None else namespace,
        name=metadata.name if name is None else name,
        obj=obj,
        old=old,
        versions=(Version(resource),),
    )


@cache
def request_pem(common_name: str, *organizations: str) -> bytes:
    """A PKCS #10 request; always of the same key."""
    return build_request(
        ec.derive_private_key(0x1234567, ec.SECP256R1()), Subject(common_name=common_name, organizations=organizations)
    )


def csr(signer_name: str, request: bytes = b"", name: str = "csr-1") -> CertificateSigningRequest:
    return CertificateSigningRequest(
        metadata=ObjectMeta(name=name),
        spec=CertificateSigningRequestSpec(request=request, signer_name=signer_name, usages=["client auth"]),
    )
