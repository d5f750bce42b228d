"""CertificateApproval: who writes ``/approval`` needs verb ``approve`` on the signer, whatever the write changes.

Source: plugin/pkg/admission/certificates/approval (Kubernetes 1.36).
"""

from __future__ import annotations

from kubevouch.admission.audit_annotations import annotate
from kubevouch.admission.interface import Operation, Request
from kubevouch.admission.refusal import refused
from kubevouch.admission.signer_permission import may_use_signer
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS
from kubevouch.authorization.interface import Authorizer
from kubevouch.machinery.scheme import GroupResource
from kubevouch.machinery.text.gotext import quote
from kubevouch.wellknown import CSR_APPROVED, CSR_DENIED

DECISION_ANNOTATION = "certificates.kubevouch.io/decision"
MAX_ANNOTATION = 2048


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
        self._put_on_record(request)

    def _put_on_record(self, request: Request) -> None:
        """What was decided and why, of an attested machine what it has proven: audit events of the level Metadata hold
        no conditions."""
        former = {each.type for each in request.old.status.conditions}
        for each in request.obj.status.conditions:
            if each.type in (CSR_APPROVED, CSR_DENIED) and each.type not in former:
                told = f"{each.type}: {each.reason}: {each.message}"
                annotate(request, DECISION_ANNOTATION, told[:MAX_ANNOTATION])
