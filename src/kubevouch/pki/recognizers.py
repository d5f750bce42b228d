"""Which CSRs the approving controller knows how to approve (Kubernetes 1.36 ``certificates/approver/sarapprove.go``).

Recognising says what a request *is*; whether its poster may have it is asked by a SubjectAccessReview on the
subresource. Nothing here ever denies.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kubevouch.machinery.text.gotext import quote
from kubevouch.pki.errors import PolicyError
from kubevouch.pki.policy import verify_shape
from kubevouch.pki.x509.x509_request import CertificateRequest
from kubevouch.wellknown import KUBE_APISERVER_CLIENT_KUBELET_SIGNER

APPROVED_REASON = "AutoApproved"
RECOVERY_USER_PREFIX = "kubevouch:recovery:"
"""Before the name of a node, for whoever has proven to be that node with its recovery key."""


class Recognition(msgspec.Struct, frozen=True):
    """``subresource`` of certificatesigningrequests to ask for; ``message`` of the Approved condition."""

    subresource: str
    message: str


SELF_NODE_CLIENT = Recognition(
    "selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview."
)
NODE_CLIENT = Recognition("nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview.")
RECOVERED_NODE_CLIENT = Recognition(
    "recoverednodeclient", "Auto approving recovered kubelet client certificate after SubjectAccessReview."
)


def recognize_kubelet_client(signer_name: str, request: CertificateRequest, usages: Sequence[str]) -> bool:
    """A request for the client certificate of some node."""
    if signer_name != KUBE_APISERVER_CLIENT_KUBELET_SIGNER:
        return False
    try:
        verify_shape(signer_name, request, usages)
    except PolicyError:
        return False
    return True


def recognize(
    signer_name: str, request: CertificateRequest, usages: Sequence[str], *, username: str
) -> tuple[Recognition, ...]:
    """What the request may be approved as, in the order in which to ask.

    Args:
        username: ``spec.username``, which the API server stamped. A node that renews its own certificate is recognised
            as that first, and as any node's second.
    """
    if not recognize_kubelet_client(signer_name, request, usages):
        return ()
    if username.startswith(RECOVERY_USER_PREFIX):
        # Never as any node's: its own rights and the record of its key are to decide.
        return (RECOVERED_NODE_CLIENT,)
    if username == request.subject.common_name:
        return (SELF_NODE_CLIENT, NODE_CLIENT)
    return (NODE_CLIENT,)


def not_approved(name: str, recognized: Sequence[Recognition]) -> str:
    """The error of a CSR that was recognised while no SubjectAccessReview allowed it."""
    tried = " ".join(recognition.subresource for recognition in recognized)
    return f"recognized csr {quote(name)} as [{tried}] but subject access review was not approved"
