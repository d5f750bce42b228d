from __future__ import annotations

import pytest

from asynctest import async_test
from decisions import BOB, admission_request, csr, node_user, rights_of
from kubevouch.admission.catalog import MUTATING, VALIDATING, Dependencies, default_chain
from kubevouch.admission.interface import Operation
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, NODES
from kubevouch.api.core_v1.nodes import Node
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.testing.clock import FakeClock


async def refresh() -> None: ...


NEEDS = Dependencies(rights_of(BOB), lambda name: None, refresh, FakeClock())


def test_order_is_kubernetes_own() -> None:
    kubernetes = (
        "NamespaceLifecycle",
        "NodeRestriction",
        "TaintNodesByCondition",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionWebhook",
        "CertificateApproval",
        "CertificateSigning",
        "ClusterTrustBundleAttest",
        "CertificateSubjectRestriction",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionWebhook",
        "ResourceQuota",
    )
    assert tuple(name for name in MUTATING if name in kubernetes) == kubernetes[:5]
    assert tuple(name for name in VALIDATING if name in kubernetes) == kubernetes[5:]


@async_test
async def test_restriction_precedes_taint() -> None:
    node = Node(metadata=ObjectMeta(name="worker-1"))
    chain = default_chain(NEEDS)
    admitted = await chain.admit(admission_request(Operation.CREATE, NODES, node, user=node_user("worker-1")))
    assert [taint.key for taint in admitted.spec.taints] == ["node.kubernetes.io/not-ready"]
    with pytest.raises(APIStatusError, match="is not allowed to modify node"):
        await chain.admit(admission_request(Operation.CREATE, NODES, node, user=node_user("worker-2")))


@async_test
async def test_disabled_plugin_does_not_run() -> None:
    node = Node(metadata=ObjectMeta(name="worker-1"))
    chain = default_chain(NEEDS, ["NodeRestriction"])
    admitted = await chain.admit(admission_request(Operation.CREATE, NODES, node, user=node_user("worker-2")))
    assert len(admitted.spec.taints) == 1
    stored = csr("example.com/x")
    approval = admission_request(Operation.UPDATE, CERTIFICATE_SIGNING_REQUESTS, stored, stored, subresource="approval")
    with pytest.raises(APIStatusError, match="not permitted to approve"):
        await chain.validate(approval)
    await default_chain(NEEDS, ["CertificateApproval"]).validate(approval)


@pytest.mark.parametrize("name", ["NodeRestrictions", "noderestriction", ""])
def test_unknown_plugin(name: str) -> None:
    with pytest.raises(ValueError) as caught:
        default_chain(NEEDS, ["NodeRestriction", name])
    known = ", ".join((*MUTATING, *VALIDATING))
    assert str(caught.value) == f"got admission plug-in {name!r}, expected one of {known}"
