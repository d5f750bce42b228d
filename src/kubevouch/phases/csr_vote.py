"""Says, in the name of who asks, what he thinks of a request that several people have to agree on."""

from __future__ import annotations

import hashlib

from kubevouch.api.authentication_v1 import SelfSubjectReview
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, SELF_SUBJECT_REVIEWS
from kubevouch.api.certificates_v1 import is_undecided
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_APPROVALS
from kubevouch.api.kubevouch_v1alpha1.certificate_approvals import APPROVE, CertificateApproval, CertificateApprovalSpec
from kubevouch.client.interface import Client
from kubevouch.machinery.errors import APIStatusError, Reason
from kubevouch.machinery.meta import ObjectMeta, OwnerReference
from kubevouch.reviews.csr_review import fetch_named
from kubevouch.wellknown import CREDENTIAL_ID_EXTRA


class VoteError(Exception):
    """Nothing can be said of the request; ``hint`` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


async def vote(client: Client, name: str, decision: str, comment: str) -> CertificateApproval:
    """Store what the client's user says of the request ``name``. Saying the other thing later counts as a denial.

    Args:
        decision: ``Approve`` or ``Deny``.

    Raises:
        ReviewError: there is no such request.
        VoteError: the request is decided, or is the user's own, or the user has said that already.
        APIStatusError, TransportError
    """
    (csr,) = await fetch_named(client, [name])
    if not is_undecided(csr):
        raise VoteError(f"the request {name} is decided", f"kubevouch csr show {name} says how")
    review = await client.create(SELF_SUBJECT_REVIEWS, SelfSubjectReview())
    user = review.status.user_info
    if user.username == csr.spec.username:
        raise VoteError(f"{user.username} has made the request {name} and cannot decide about it", "ask somebody else")
    uid = csr.metadata.uid
    digest = hashlib.sha256(f"{uid}\0{user.username}\0{decision}".encode()).hexdigest()[:20]
    # It goes with the request, and whoever says the same again says nothing new.
    owner = OwnerReference(
        api_version=CERTIFICATE_SIGNING_REQUESTS.api_version, kind=CERTIFICATE_SIGNING_REQUESTS.kind, name=name, uid=uid
    )
    wanted = CertificateApproval(
        metadata=ObjectMeta(name=f"{digest}", owner_references=[owner]),
        spec=CertificateApprovalSpec(
            request_name=name, request_uid=uid, approver=user.username, groups=sorted(set(user.groups)),
            decision=decision, comment=comment,
            credential=next(iter(user.extra.get(CREDENTIAL_ID_EXTRA, ())), ""),
        ),
    )  # fmt: skip
    try:
        return await client.create(CERTIFICATE_APPROVALS, wanted)
    except APIStatusError as err:
        if err.reason != Reason.ALREADY_EXISTS:
            raise
        side = "for" if decision == APPROVE else "against"
        raise VoteError(
            f"{user.username} has already spoken {side} {name}, and that cannot be changed",
            f"kubevouch csr show {name} says what it waits for",
        ) from err
