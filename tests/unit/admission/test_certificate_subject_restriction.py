from __future__ import annotations

from typing import Any

import pytest

from asynctest import async_test
from decisions import admission_request, csr, request_pem
from kubevouch.admission.certificate_subject_restriction import CertificateSubjectRestriction
from kubevouch.admission.interface import Operation
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, NODES
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.scheme import Resource

PLUGIN = CertificateSubjectRestriction()
CLIENT = "kubernetes.io/kube-apiserver-client"


@pytest.mark.parametrize(
    ("operation", "resource", "subresource", "handled"),
    [
        (Operation.CREATE, CERTIFICATE_SIGNING_REQUESTS, "", True),
        (Operation.CREATE, CERTIFICATE_SIGNING_REQUESTS, "approval", False),
        (Operation.UPDATE, CERTIFICATE_SIGNING_REQUESTS, "", False),
        (Operation.CREATE, NODES, "", False),
    ],
)
def test_handles_creations_only(operation: Operation, resource: Resource[Any], subresource: str, handled: bool) -> None:
    assert PLUGIN.handles(operation, resource.group_resource, subresource) is handled


@pytest.mark.parametrize(
    ("signer", "organizations", "allowed"),
    [
        (CLIENT, (), True),
        (CLIENT, ("developers",), True),
        (CLIENT, ("system:masters",), False),
        (CLIENT, ("developers", "system:masters"), False),
        (CLIENT, ("system:masters2",), True),
        (CLIENT, ("System:Masters",), True),
        ("kubernetes.io/kube-apiserver-client-kubelet", ("system:masters",), True),
        ("example.com/fleet", ("system:masters",), True),
    ],
)
@async_test
async def test_client_certificate_of_masters(signer: str, organizations: tuple[str, ...], allowed: bool) -> None:
    wanted = csr(signer, request_pem("alice", *organizations))
    request = admission_request(Operation.CREATE, CERTIFICATE_SIGNING_REQUESTS, wanted)
    if allowed:
        await PLUGIN.validate(request)
        return
    with pytest.raises(APIStatusError) as caught:
        await PLUGIN.validate(request)
    assert caught.value.code == 403
    assert caught.value.status.message == (
        'certificatesigningrequests.certificates.k8s.io "csr-1" is forbidden: '
        "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"
    )


@async_test
async def test_request_that_does_not_parse() -> None:
    request = admission_request(Operation.CREATE, CERTIFICATE_SIGNING_REQUESTS, csr(CLIENT, b"nonsense"))
    with pytest.raises(APIStatusError) as caught:
        await PLUGIN.validate(request)
    assert caught.value.status.message == (
        'certificatesigningrequests.certificates.k8s.io "csr-1" is forbidden: '
        "failed to parse CSR: PEM block type must be CERTIFICATE REQUEST"
    )
