"""The mark-control-plane phase: what a Node says of a machine that runs a control plane (kubeadm 1.36)."""

from __future__ import annotations

from typing import Any

from kubevouch.api import catalog
from kubevouch.api.core_v1 import Node
from kubevouch.api.core_v1.nodes import NO_SCHEDULE, Taint
from kubevouch.client.interface import STRATEGIC_MERGE_PATCH, Client
from kubevouch.client.stored import find
from kubevouch.wellknown import CONTROL_PLANE_LABEL

LABELS = {CONTROL_PLANE_LABEL: "", "node.kubernetes.io/exclude-from-external-load-balancers": ""}


def patch_for(node: Node) -> dict[str, Any]:
    """What lacks; empty if nothing does."""
    patch: dict[str, Any] = {}
    missing = {key: value for key, value in LABELS.items() if node.metadata.labels.get(key) != value}
    if missing:
        patch["metadata"] = {"labels": missing}
    if not any(taint.key == CONTROL_PLANE_LABEL and taint.effect == NO_SCHEDULE for taint in node.spec.taints):
        patch["spec"] = {
            "taints": [
                *map(_tree, node.spec.taints),
                {"key": CONTROL_PLANE_LABEL, "effect": NO_SCHEDULE},
            ]
        }
    return patch


def _tree(taint: Taint) -> dict[str, str]:
    tree = {"key": taint.key, "value": taint.value, "effect": taint.effect}
    return tree if taint.time_added is None else {**tree, "timeAdded": str(taint.time_added)}


async def mark(client: Client, node_name: str) -> bool:
    """Label and taint the Node; whether it is there. Raises APIStatusError, TransportError."""
    node = await find(client, catalog.NODES, node_name)
    if node is None:
        return False
    patch = patch_for(node)
    if patch:
        await client.patch(catalog.NODES, node_name, patch, STRATEGIC_MERGE_PATCH)
    return True
