from __future__ import annotations

import asyncio

import pytest

from decisions import admission_request, csr, request_pem
from kubevouch import wellknown
from kubevouch.admission.interface import Operation
from kubevouch.admission.node_recovery_restriction import NodeRecoveryRestriction
from kubevouch.api import catalog
from kubevouch.authentication.interface import UserInfo
from kubevouch.machinery.errors import APIStatusError
from kubevouch.pki.x509 import x509_request
from kubevouch.records import node_recovery
from kubevouch.records.node_recovery import Use

PEM = request_pem("system:node:a", "system:nodes")
KEY = node_recovery.digest(x509_request.parse_pem(PEM).public_key)
CLIENT, SERVING = wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER, wellknown.KUBELET_SERVING_SIGNER


def validate(username: str, signer: str, *, request: bytes = PEM, key: str = KEY) -> None:
    extra = node_recovery.user_extra(Use("1" * 64, "2" * 64, key))
    user = UserInfo(username, groups=(node_recovery.RECOVERERS_GROUP,), extra=extra)
    made = admission_request(Operation.CREATE, catalog.CERTIFICATE_SIGNING_REQUESTS, csr(signer, request), user=user)
    asyncio.run(NodeRecoveryRestriction().validate(made))


def test_the_one_request() -> None:
    validate("kubevouch:recovery:a", CLIENT)


def test_it_is_nobody_elses_business() -> None:
    validate("system:node:a", SERVING, request=b"x")


@pytest.mark.parametrize(
    ("username", "signer", "key"),
    [
        ("kubevouch:recovery:b", CLIENT, KEY),
        ("kubevouch:recovery:a", SERVING, KEY),
        ("kubevouch:recovery:a", CLIENT, "3" * 64),
    ],
)
def test_another_request_is_refused(username: str, signer: str, key: str) -> None:
    with pytest.raises(APIStatusError, match="and no other") as caught:
        validate(username, signer, key=key)
    assert caught.value.code == 403


def test_it_looks_at_creations_of_requests_only() -> None:
    plugin, csrs = NodeRecoveryRestriction(), catalog.CERTIFICATE_SIGNING_REQUESTS.group_resource
    assert plugin.handles(Operation.CREATE, csrs, "")
    assert not plugin.handles(Operation.CREATE, csrs, "approval")
    assert not plugin.handles(Operation.UPDATE, csrs, "")
    assert not plugin.handles(Operation.CREATE, catalog.SECRETS.group_resource, "")
