"""CertificateApproval: who writes ``/approval`` needs verb ``approve`` on the signer, whatever the write changes.

Source: plugin/pkg/admission/certificates/approval (Kubernetes 1.36).
"""

from __future__ import annotations

from kubevouch.admission.interface import Operation, Request
from kubevouch.admission.refusal import refused
from kubevouch.admission.signer_permission import may_use_signer
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS
from kubevouch.authorization.interface import Authorizer
from kubevouch.machinery.scheme import GroupResource
from kubevouch.machinery.text.gotext import quote


class CertificateApproval:
    """A validating plug-in: a body that is invalid is 422 before its sender is 403."""

    name = "CertificateApproval"

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return (
            operation is Operation.UPDATE
            and resource == CERTIFICATE_SIGNING_REQUESTS.group_resource
            and subresource == "approval"
        )

    async def validate(self, request: Request) -> None:
        signer_name = request.old.spec.signer_name
        if not await may_use_signer(self._authorizer, request.user, "approve", signer_name):
            raise refused(request, f"user not permitted to approve requests with signerName {quote(signer_name)}")
