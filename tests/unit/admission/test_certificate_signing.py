from __future__ import annotations

import msgspec
import pytest

from asynctest import async_test
from decisions import BOB, admission_request, csr, rights_of
from kubevouch.admission.certificate_signing import CertificateSigning
from kubevouch.admission.interface import Operation
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestStatus,
)
from kubevouch.authorization.policy import rule
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import replace_metadata

OWN, OTHER = "example.com/own", "example.com/other"
AUTHORIZER = rights_of(BOB, rule("sign", "certificates.k8s.io", "signers", [OWN]))
FAILED = CertificateSigningRequestCondition(type="Failed", status="True", reason="Broken")


def with_status(
    signer: str, certificate: bytes = b"", *conditions: CertificateSigningRequestCondition
) -> CertificateSigningRequest:
    status = CertificateSigningRequestStatus(conditions=list(conditions), certificate=certificate)
    return msgspec.structs.replace(csr(signer), status=status)


def labelled(request: CertificateSigningRequest) -> CertificateSigningRequest:
    changed: CertificateSigningRequest = replace_metadata(request, labels={"a": "b"})
    return changed


@pytest.mark.parametrize(
    ("operation", "subresource", "handled"),
    [
        (Operation.UPDATE, "status", True),
        (Operation.UPDATE, "approval", False),
        (Operation.UPDATE, "", False),
        (Operation.CREATE, "status", False),
    ],
)
def test_handles_writes_of_status_only(operation: Operation, subresource: str, handled: bool) -> None:
    resource = CERTIFICATE_SIGNING_REQUESTS.group_resource
    assert CertificateSigning(AUTHORIZER).handles(operation, resource, subresource) is handled


@pytest.mark.parametrize(
    ("new", "old", "allowed"),
    [
        (with_status(OTHER), with_status(OTHER), True),
        (labelled(with_status(OTHER, b"pem", FAILED)), with_status(OTHER, b"pem", FAILED), True),
        (with_status(OTHER, b"pem"), with_status(OTHER), False),
        (with_status(OTHER), with_status(OTHER, b"pem"), False),
        (with_status(OTHER, b"", FAILED), with_status(OTHER), False),
        (with_status(OTHER), with_status(OTHER, b"", FAILED), False),
        (with_status(OWN, b"pem", FAILED), with_status(OWN), True),
        (with_status(OWN, b"pem"), with_status(OTHER), False),
    ],
    ids=[
        "nothing",
        "labels",
        "certificate",
        "certificate-removed",
        "condition",
        "condition-removed",
        "permitted",
        "sent-signer-does-not-count",
    ],
)
@async_test
async def test_change_of_certificate_or_conditions_needs_sign(
    new: CertificateSigningRequest, old: CertificateSigningRequest, allowed: bool
) -> None:
    request = admission_request(Operation.UPDATE, CERTIFICATE_SIGNING_REQUESTS, new, old, subresource="status")
    plugin = CertificateSigning(AUTHORIZER)
    if allowed:
        await plugin.validate(request)
        return
    with pytest.raises(APIStatusError) as caught:
        await plugin.validate(request)
    assert caught.value.status.message == (
        'certificatesigningrequests.certificates.k8s.io "csr-1" is forbidden: '
        'user not permitted to sign requests with signerName "example.com/other"'
    )
