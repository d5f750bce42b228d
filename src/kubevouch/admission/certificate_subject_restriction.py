"""CertificateSubjectRestriction: nobody, cluster admins included, gets a client certificate for ``system:masters``.

Source: plugin/pkg/admission/certificates/subjectrestriction (Kubernetes 1.36).
"""

from __future__ import annotations

from kubevouch.admission.certificate_requests import creates_one
from kubevouch.admission.interface import Operation, Request
from kubevouch.admission.refusal import refused
from kubevouch.machinery.scheme import GroupResource
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import x509_request
from kubevouch.wellknown import KUBE_APISERVER_CLIENT_SIGNER, MASTERS_GROUP


class CertificateSubjectRestriction:
    """A validating plug-in. It looks at one signer only: the rules of the others leave no room for such a group."""

    name = "CertificateSubjectRestriction"

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return creates_one(operation, resource, subresource)

    async def validate(self, request: Request) -> None:
        spec = request.obj.spec
        if spec.signer_name != KUBE_APISERVER_CLIENT_SIGNER:
            return
        try:
            requested = x509_request.parse_pem(spec.request or b"")
        except ParseError as err:
            raise refused(request, f"failed to parse CSR: {err}") from err
        if MASTERS_GROUP in requested.subject.organizations:
            raise refused(
                request, f"use of {KUBE_APISERVER_CLIENT_SIGNER} signer with {MASTERS_GROUP} group is not allowed"
            )
