"""What somebody may do, asked of the API server, as far as joins and renewals need it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from kubevouch import wellknown
from kubevouch.api.authorization_v1 import (
    ResourceAttributes,
    SelfSubjectAccessReview,
    SelfSubjectAccessReviewSpec,
    SubjectAccessReview,
    SubjectAccessReviewSpec,
)
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, SELF_SUBJECT_ACCESS_REVIEWS, SUBJECT_ACCESS_REVIEWS
from kubevouch.api.certificates_v1 import GROUP
from kubevouch.client.interface import Client
from kubevouch.doctor.findings import Code, Finding

# pkg/controller/certificates/approver (Kubernetes 1.36): who may "create" these is approved without a person.
NODE_CLIENT, SELF_NODE_CLIENT = "nodeclient", "selfnodeclient"


def requests(subresource: str = "") -> ResourceAttributes:
    """Creating a CertificateSigningRequest, or having one approved as ``subresource``."""
    return ResourceAttributes(
        group=GROUP,
        version="*",
        resource=CERTIFICATE_SIGNING_REQUESTS.plural,
        subresource=subresource,
        verb="create",
    )


READ_CLUSTER_INFO = ResourceAttributes(
    version="*",
    resource="configmaps",
    namespace=wellknown.KUBE_PUBLIC_NAMESPACE,
    name=wellknown.CLUSTER_INFO_CONFIGMAP,
    verb="get",
)


async def may(client: Client, attributes: ResourceAttributes) -> bool:
    """Whether the client itself may. Raises APIStatusError, TransportError."""
    asked = SelfSubjectAccessReview(spec=SelfSubjectAccessReviewSpec(resource_attributes=attributes))
    return (await client.create(SELF_SUBJECT_ACCESS_REVIEWS, asked)).status.allowed


async def may_somebody(client: Client, user: str, groups: Sequence[str], attributes: ResourceAttributes) -> bool:
    """Whether ``user`` in ``groups`` may. Raises APIStatusError, TransportError."""
    spec = SubjectAccessReviewSpec(user=user, groups=list(groups), resource_attributes=attributes)
    return (await client.create(SUBJECT_ACCESS_REVIEWS, SubjectAccessReview(spec=spec))).status.allowed


async def of_token(client: Client) -> AsyncIterator[Finding]:
    """What a bootstrap token lacks. Raises APIStatusError, TransportError."""
    if not await may(client, requests()):
        yield Code.REQUESTS_FORBIDDEN.found(
            "the token is accepted, and may not create CertificateSigningRequests (403)"
        )
    elif not await may(client, requests(NODE_CLIENT)):
        yield Code.APPROVAL_NOT_AUTOMATIC.found("nobody but a person approves what the token asks for")


async def of_node(client: Client) -> AsyncIterator[Finding]:
    """What a node lacks to renew its certificate. Raises APIStatusError, TransportError."""
    if not await may(client, requests()):
        yield Code.NODE_FORBIDDEN.found("the node may not create CertificateSigningRequests (403)")
    elif not await may(client, requests(SELF_NODE_CLIENT)):
        yield Code.RENEWAL_NOT_AUTOMATIC.found("nobody but a person approves a renewal of this node")
