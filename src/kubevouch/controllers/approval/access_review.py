"""Asking the API server whether whoever posted a CSR may have it approved by itself."""

from __future__ import annotations

from kubevouch.api.authorization_v1 import ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, SUBJECT_ACCESS_REVIEWS
from kubevouch.api.certificates_v1 import GROUP, CertificateSigningRequestSpec
from kubevouch.client.interface import Client


async def may_create(client: Client, spec: CertificateSigningRequestSpec, subresource: str) -> bool:
    """Whether the requester may create ``certificatesigningrequests/<subresource>``. Raises APIStatusError,
    TransportError."""
    asked = ResourceAttributes(
        group=GROUP,
        version="*",
        resource=CERTIFICATE_SIGNING_REQUESTS.plural,
        subresource=subresource,
        verb="create",
    )
    return await is_allowed(client, spec, asked)


async def is_allowed(client: Client, spec: CertificateSigningRequestSpec, asked: ResourceAttributes) -> bool:
    """Whether the requester may do that. Raises APIStatusError, TransportError."""
    review = SubjectAccessReviewSpec(
        user=spec.username, uid=spec.uid, groups=spec.groups, extra=spec.extra, resource_attributes=asked
    )
    answer = await client.create(SUBJECT_ACCESS_REVIEWS, SubjectAccessReview(spec=review))
    return answer.status.allowed
