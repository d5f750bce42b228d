from __future__ import annotations

from typing import Any

import msgspec
import pytest

from asynctest import async_test
from decisions import BOB, admission_request, csr, rights_of
from kubevouch.admission.certificate_approval import MAX_ANNOTATION, CertificateApproval
from kubevouch.admission.interface import Operation
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, NODES
from kubevouch.api.certificates_v1 import CertificateSigningRequestCondition, CertificateSigningRequestStatus
from kubevouch.authorization.policy import rule
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.scheme import Resource

OWN, OTHER = "example.com/own", "example.com/other"
AUTHORIZER = rights_of(BOB, rule("approve", "certificates.k8s.io", "signers", [OWN]))


@pytest.mark.parametrize(
    ("operation", "resource", "subresource", "handled"),
    [
        (Operation.UPDATE, CERTIFICATE_SIGNING_REQUESTS, "approval", True),
        (Operation.UPDATE, CERTIFICATE_SIGNING_REQUESTS, "status", False),
        (Operation.UPDATE, CERTIFICATE_SIGNING_REQUESTS, "", False),
        (Operation.CREATE, CERTIFICATE_SIGNING_REQUESTS, "approval", False),
        (Operation.DELETE, CERTIFICATE_SIGNING_REQUESTS, "", False),
        (Operation.UPDATE, NODES, "approval", False),
    ],
)
def test_handles_writes_of_approval_only(
    operation: Operation, resource: Resource[Any], subresource: str, handled: bool
) -> None:
    assert CertificateApproval(AUTHORIZER).handles(operation, resource.group_resource, subresource) is handled


@async_test
async def test_unchanged_write_needs_the_right_too() -> None:
    refused = csr(OTHER)
    with pytest.raises(APIStatusError) as caught:
        await CertificateApproval(AUTHORIZER).validate(
            admission_request(
                Operation.UPDATE, CERTIFICATE_SIGNING_REQUESTS, refused, refused, subresource="approval", user=BOB
            )
        )
    assert caught.value.code == 403
    assert caught.value.status.message == (
        'certificatesigningrequests.certificates.k8s.io "csr-1" is forbidden: '
        'user not permitted to approve requests with signerName "example.com/other"'
    )


@pytest.mark.parametrize(("new", "old", "allowed"), [(OWN, OWN, True), (OTHER, OWN, True), (OWN, OTHER, False)])
@async_test
async def test_stored_signer_counts_not_the_one_sent(new: str, old: str, allowed: bool) -> None:
    request = admission_request(
        Operation.UPDATE, CERTIFICATE_SIGNING_REQUESTS, csr(new), csr(old), subresource="approval"
    )
    plugin = CertificateApproval(AUTHORIZER)
    if allowed:
        await plugin.validate(request)
        return
    with pytest.raises(APIStatusError):
        await plugin.validate(request)


@async_test
async def test_a_decision_is_put_on_record_and_no_former_one() -> None:
    former = CertificateSigningRequestCondition(type="Approved", reason="AutoApproved", message="of old")
    said = CertificateSigningRequestCondition(
        type="Denied", reason="AttestationRefused", message="signature: bad" * 999
    )
    old = msgspec.structs.replace(csr(OWN), status=CertificateSigningRequestStatus(conditions=[former]))
    new = msgspec.structs.replace(old, status=CertificateSigningRequestStatus(conditions=[former, said]))
    request = admission_request(Operation.UPDATE, CERTIFICATE_SIGNING_REQUESTS, new, old, subresource="approval")
    await CertificateApproval(AUTHORIZER).validate(request)
    told = request.annotations["certificates.kubevouch.io/decision"]
    assert told.startswith("Denied: AttestationRefused: signature: bad") and len(told) == MAX_ANNOTATION

    again = admission_request(Operation.UPDATE, CERTIFICATE_SIGNING_REQUESTS, new, new, subresource="approval")
    await CertificateApproval(AUTHORIZER).validate(again)
    assert not again.annotations
