"""certificatesigningrequest-approving-controller: approves kubelets' client certificates that their poster may have.

Source: pkg/controller/certificates/approver/sarapprove.go (Kubernetes 1.36). It never denies.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kubevouch.api import wellknown
from kubevouch.api.authorization_v1 import ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, SUBJECT_ACCESS_REVIEWS
from kubevouch.api.certificates_v1 import (
    GROUP,
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestSpec,
    has_condition,
)
from kubevouch.client.cache.lister import Lister
from kubevouch.client.interface import Client, TransportError
from kubevouch.client.rate_limiters import CSR_BASE_SECONDS, controller_rate_limiter
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import DONE, Context, IgnorableError, ReconcileError, Request, Result, request_of
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.gotext import quote
from kubevouch.pki import x509_request
from kubevouch.pki.errors import ParseError
from kubevouch.pki.recognizers import APPROVED_REASON, not_approved, recognize

NAME = wellknown.CSR_APPROVING_CONTROLLER

# Kubernetes has five; here they share commits of the store, and a waiting worker costs next to nothing.
WORKERS = 32


def is_open(csr: CertificateSigningRequest) -> bool:
    """Whether nobody has decided. The status of a decision is not looked at."""
    return not (
        csr.status.certificate or has_condition(csr, wellknown.CSR_APPROVED) or has_condition(csr, wellknown.CSR_DENIED)
    )


class CSRApprover:
    """Recognises, asks, approves."""

    def __init__(self, client: Client, csrs: Lister[CertificateSigningRequest]) -> None:
        self._client = client
        self._csrs = csrs

    async def reconcile(self, request: Request) -> Result:
        csr = self._csrs.get(request.name)
        if csr is None or not is_open(csr):
            return DONE
        spec = csr.spec
        try:
            wanted = x509_request.parse_pem(spec.request or b"")
        except ParseError as err:
            raise ReconcileError(f"unable to parse csr {quote(request.name)}: {err}") from err
        recognized = recognize(spec.signer_name, wanted, spec.usages, username=spec.username)
        for recognition in recognized:
            if await self._is_allowed(spec, recognition.subresource):
                await self._approve(csr, recognition.message)
                return DONE
        if recognized:
            raise IgnorableError(not_approved(request.name, recognized))
        return DONE

    async def _is_allowed(self, spec: CertificateSigningRequestSpec, subresource: str) -> bool:
        review = SubjectAccessReview(
            spec=SubjectAccessReviewSpec(
                user=spec.username,
                uid=spec.uid,
                groups=spec.groups,
                extra=spec.extra,
                resource_attributes=ResourceAttributes(
                    group=GROUP,
                    version="*",
                    resource=CERTIFICATE_SIGNING_REQUESTS.plural,
                    subresource=subresource,
                    verb="create",
                ),
            )
        )
        answer = await self._client.create(SUBJECT_ACCESS_REVIEWS, review)
        return answer.status.allowed

    async def _approve(self, csr: CertificateSigningRequest, message: str) -> None:
        # The server fills in the times.
        approved = CertificateSigningRequestCondition(
            type=wellknown.CSR_APPROVED, status=wellknown.CONDITION_TRUE, reason=APPROVED_REASON, message=message
        )
        status = msgspec.structs.replace(csr.status, conditions=[*csr.status.conditions, approved])
        try:
            await self._client.update(
                CERTIFICATE_SIGNING_REQUESTS, msgspec.structs.replace(csr, status=status), subresource="approval"
            )
        except (APIStatusError, TransportError) as err:
            raise ReconcileError(f"error updating approval for csr: {err}") from err


def _requests(csr: CertificateSigningRequest) -> Iterable[Request]:
    return (request_of(csr),) if is_open(csr) else ()


def build(context: Context) -> QueueController:
    client = context.connect(NAME)
    informer = context.informers.informer(CERTIFICATE_SIGNING_REQUESTS, client=client)
    controller = QueueController(
        NAME,
        CSRApprover(client, informer.lister),
        context.clock,
        workers=WORKERS,
        limiter=controller_rate_limiter(context.clock, CSR_BASE_SECONDS),
    )
    controller.watch(informer, on_add=_requests, on_update=_requests)
    return controller
