"""Stores CertificateRequestPolicies with the record of who writes them, which some API servers do not fill in.

Source: docs/adr/0063-guards-by-what-the-server-serves.md; the records are those of
:mod:`kubevouch.api.kubevouch_v1alpha1.guards`, which the API server holds every writer to.
"""

from __future__ import annotations

from msgspec.structs import replace

from kubevouch.api.authentication_v1 import SelfSubjectReview, UserInfo
from kubevouch.api.catalog import SELF_SUBJECT_REVIEWS
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REQUEST_POLICIES
from kubevouch.api.kubevouch_v1alpha1.certificate_request_policies import CertificateRequestPolicy
from kubevouch.api.kubevouch_v1alpha1.guards import AUTHORS_ANNOTATION
from kubevouch.api.kubevouch_v1alpha1.writer_guards import WRITER_ANNOTATION
from kubevouch.client import stored
from kubevouch.client.interface import Client


def recorded(
    wanted: CertificateRequestPolicy, found: CertificateRequestPolicy | None, user: UserInfo
) -> CertificateRequestPolicy:
    """``wanted`` as this user has to send it. Whoever applies a policy answers for it, also if it says nothing new.

    Args:
        found: the policy of that name as the server has it; None for none. Its labels and annotations stay.
    """
    writer = "\n".join((user.username, *user.groups))
    if found is None:
        annotations = {**wanted.metadata.annotations, AUTHORS_ANNOTATION: user.username, WRITER_ANNOTATION: writer}
        metadata = replace(wanted.metadata, annotations=annotations)
        return replace(wanted, metadata=metadata)
    former = found.metadata.annotations.get(AUTHORS_ANNOTATION, "")
    authors = former.split("\n") if former else []
    if found.spec != wanted.spec and user.username not in authors:
        authors.append(user.username)
    annotations = {**found.metadata.annotations, **wanted.metadata.annotations}
    annotations |= {AUTHORS_ANNOTATION: "\n".join(authors), WRITER_ANNOTATION: writer}
    labels = {**found.metadata.labels, **wanted.metadata.labels}
    metadata = replace(found.metadata, annotations=annotations, labels=labels)
    return replace(found, metadata=metadata, spec=wanted.spec)


async def apply(client: Client, wanted: CertificateRequestPolicy) -> str:
    """Create or change the policy, as whoever the client is; gives the user's name.

    Raises:
        APIStatusError, TransportError
    """
    user = (await client.create(SELF_SUBJECT_REVIEWS, SelfSubjectReview())).status.user_info
    await stored.change(
        client, CERTIFICATE_REQUEST_POLICIES, wanted.metadata.name, "", lambda found: recorded(wanted, found, user)
    )
    return user.username
