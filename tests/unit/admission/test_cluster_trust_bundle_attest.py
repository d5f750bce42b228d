from __future__ import annotations

from typing import Any

import pytest

from asynctest import async_test
from decisions import BOB, admission_request, rights_of
from kubevouch.admission.cluster_trust_bundle_attest import ClusterTrustBundleAttest
from kubevouch.admission.interface import Operation
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, CLUSTER_TRUST_BUNDLES
from kubevouch.api.certificates_v1beta1 import ClusterTrustBundle, ClusterTrustBundleSpec
from kubevouch.authorization.policy import rule
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta, OwnerReference, replace_metadata
from kubevouch.machinery.scheme import Resource

OWN, OTHER = "example.com/own", "example.com/other"
PLUGIN = ClusterTrustBundleAttest(rights_of(BOB, rule("attest", "certificates.k8s.io", "signers", [OWN])))


def bundle(signer: str, anchors: str = "a") -> ClusterTrustBundle:
    return ClusterTrustBundle(
        metadata=ObjectMeta(name="roots"), spec=ClusterTrustBundleSpec(signer_name=signer, trust_bundle=anchors)
    )


@pytest.mark.parametrize(
    ("operation", "resource", "subresource", "handled"),
    [
        (Operation.CREATE, CLUSTER_TRUST_BUNDLES, "", True),
        (Operation.UPDATE, CLUSTER_TRUST_BUNDLES, "", True),
        (Operation.DELETE, CLUSTER_TRUST_BUNDLES, "", False),
        (Operation.UPDATE, CLUSTER_TRUST_BUNDLES, "status", False),
        (Operation.CREATE, CERTIFICATE_SIGNING_REQUESTS, "", False),
    ],
)
def test_handles_writes_of_bundles(
    operation: Operation, resource: Resource[Any], subresource: str, handled: bool
) -> None:
    assert PLUGIN.handles(operation, resource.group_resource, subresource) is handled


GARBAGE_COLLECTED = replace_metadata(
    bundle(OTHER),
    owner_references=[OwnerReference(api_version="v1", kind="Node", name="n", uid="1")],
    finalizers=["example.com/hold"],
)


@pytest.mark.parametrize(
    ("new", "old", "allowed"),
    [
        (bundle(OWN), None, True),
        (bundle(OTHER), None, False),
        (bundle(""), None, True),
        (bundle(OWN, "b"), bundle(OWN), True),
        (bundle(OTHER, "b"), bundle(OTHER), False),
        (replace_metadata(bundle(OTHER), labels={"a": "b"}), bundle(OTHER), False),
        (bundle(OTHER), bundle(OTHER), True),
        (GARBAGE_COLLECTED, bundle(OTHER), True),
        (replace_metadata(GARBAGE_COLLECTED, annotations={"a": "b"}), bundle(OTHER), False),
    ],
)
@async_test
async def test_speaking_for_a_signer_needs_attest(
    new: ClusterTrustBundle, old: ClusterTrustBundle | None, allowed: bool
) -> None:
    operation = Operation.CREATE if old is None else Operation.UPDATE
    request = admission_request(operation, CLUSTER_TRUST_BUNDLES, new, old)
    if allowed:
        await PLUGIN.validate(request)
        return
    with pytest.raises(APIStatusError) as caught:
        await PLUGIN.validate(request)
    assert caught.value.status.message == (
        'clustertrustbundles.certificates.k8s.io "roots" is forbidden: '
        'user not permitted to attest for signerName "example.com/other"'
    )
