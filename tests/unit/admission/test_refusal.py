from __future__ import annotations

import pytest

from decisions import admission_request
from kubevouch.admission.interface import Operation
from kubevouch.admission.refusal import refused, requested_name
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, NODES
from kubevouch.api.core_v1.nodes import Node
from kubevouch.machinery.meta import ObjectMeta


@pytest.mark.parametrize(
    ("metadata", "name", "shown"),
    [
        (ObjectMeta(name="a"), "a", "a"),
        (ObjectMeta(name="a"), "", "a"),
        (ObjectMeta(generate_name="a-"), "", "a-"),
        (ObjectMeta(name="a", generate_name="b-"), "", "a"),
        (ObjectMeta(name="a"), "b", "b"),
        (ObjectMeta(), "", "Unknown"),
    ],
)
def test_what_is_refused_by_name(metadata: ObjectMeta, name: str, shown: str) -> None:
    request = admission_request(Operation.CREATE, NODES, Node(metadata=metadata), name=name)
    status = refused(request, "why").status
    assert (status.code, status.reason) == (403, "Forbidden")
    assert status.message == f'nodes "{shown}" is forbidden: why'
    assert requested_name(request) == ("" if shown == "Unknown" else shown)


def test_resource_carries_its_group_and_not_its_subresource() -> None:
    request = admission_request(Operation.DELETE, CERTIFICATE_SIGNING_REQUESTS, name="x", subresource="approval")
    assert (
        refused(request, "why").status.message == 'certificatesigningrequests.certificates.k8s.io "x" is forbidden: why'
    )
    assert requested_name(request) == "x"
