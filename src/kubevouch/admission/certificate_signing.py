"""CertificateSigning: who changes certificate or conditions through ``/status`` needs verb ``sign`` on the signer.

Source: plugin/pkg/admission/certificates/signing (Kubernetes 1.36).
"""

from __future__ import annotations

from kubevouch.admission.interface import Operation, Request
from kubevouch.admission.refusal import refused
from kubevouch.admission.signer_permission import may_use_signer
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS
from kubevouch.authorization.interface import Authorizer
from kubevouch.machinery.scheme import GroupResource
from kubevouch.machinery.text.gotext import quote


class CertificateSigning:
    """A validating plug-in: it compares what the strategy has left of the write with what is stored."""

    name = "CertificateSigning"

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return (
            operation is Operation.UPDATE
            and resource == CERTIFICATE_SIGNING_REQUESTS.group_resource
            and subresource == "status"
        )

    async def validate(self, request: Request) -> None:
        new, old = request.obj.status, request.old.status
        if (new.certificate or b"") == (old.certificate or b"") and new.conditions == old.conditions:
            return
        signer_name = request.old.spec.signer_name
        if not await may_use_signer(self._authorizer, request.user, "sign", signer_name):
            raise refused(request, f"user not permitted to sign requests with signerName {quote(signer_name)}")
