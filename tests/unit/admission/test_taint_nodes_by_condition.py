from __future__ import annotations

from typing import Any

import pytest

from asynctest import async_test
from decisions import admission_request
from kubevouch.admission.interface import Operation
from kubevouch.admission.taint_nodes_by_condition import TaintNodesByCondition
from kubevouch.api.catalog import NODES, PODS
from kubevouch.api.core_v1.nodes import Node, NodeSpec, Taint
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.scheme import Resource

PLUGIN = TaintNodesByCondition()
NOT_READY = Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule")
EVICTING = Taint(key="node.kubernetes.io/not-ready", effect="NoExecute")
OWN = Taint(key="dedicated", effect="NoSchedule")
WITH_VALUE = Taint(key="node.kubernetes.io/not-ready", value="x", effect="NoSchedule")


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ([], [NOT_READY]),
        ([OWN], [OWN, NOT_READY]),
        ([NOT_READY], [NOT_READY]),
        ([EVICTING], [EVICTING, NOT_READY]),
        ([WITH_VALUE], [WITH_VALUE]),
    ],
)
@async_test
async def test_new_node_is_not_ready(given: list[Taint], made: list[Taint]) -> None:
    node = Node(metadata=ObjectMeta(name="worker-1"), spec=NodeSpec(taints=given))
    admitted = await PLUGIN.admit(admission_request(Operation.CREATE, NODES, node))
    assert admitted.spec.taints == made
    assert node.spec.taints == given


@pytest.mark.parametrize(
    ("operation", "resource", "subresource", "handled"),
    [
        (Operation.CREATE, NODES, "", True),
        (Operation.CREATE, NODES, "status", False),
        (Operation.UPDATE, NODES, "", False),
        (Operation.CREATE, PODS, "", False),
    ],
)
def test_handles_creation_of_nodes(
    operation: Operation, resource: Resource[Any], subresource: str, handled: bool
) -> None:
    assert PLUGIN.handles(operation, resource.group_resource, subresource) is handled
