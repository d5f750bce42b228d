"""TaintNodesByCondition: a new node takes no pods until it is ready.

Source: plugin/pkg/admission/nodetaint (Kubernetes 1.36).
"""

from __future__ import annotations

import msgspec

from kubevouch.admission.interface import Operation, Request
from kubevouch.api.catalog import NODES
from kubevouch.api.core_v1.nodes import NO_SCHEDULE, Node, Taint
from kubevouch.machinery.scheme import GroupResource
from kubevouch.wellknown import NOT_READY_TAINT

_NOT_READY = Taint(key=NOT_READY_TAINT, effect=NO_SCHEDULE)


class TaintNodesByCondition:
    """A mutating plug-in."""

    name = "TaintNodesByCondition"

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return operation is Operation.CREATE and resource == NODES.group_resource and not subresource

    async def admit(self, request: Request) -> Node:
        node: Node = request.obj
        if any(taint.key == NOT_READY_TAINT and taint.effect == NO_SCHEDULE for taint in node.spec.taints):
            return node
        spec = msgspec.structs.replace(node.spec, taints=[*node.spec.taints, _NOT_READY])
        return msgspec.structs.replace(node, spec=spec)
