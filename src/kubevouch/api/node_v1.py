"""node.k8s.io/v1: RuntimeClass, which kubelets watch.

Field numbers and order: k8s.io/api/node/v1 (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Annotated

from kubevouch.api.core_v1.scheduling import Toleration
from kubevouch.machinery.declaration import Quantity, Struct, always, wire
from kubevouch.machinery.meta import Object

GROUP = "node.k8s.io"


class Overhead(Struct):
    """What a pod costs besides its containers."""

    pod_fixed: Annotated[dict[str, Quantity], wire(1, "Resources for each pod.")] = {}


class Scheduling(Struct):
    """Which nodes can run pods of a class."""

    node_selector: Annotated[dict[str, str], wire(1, "Labels the node must have.", atomic=True)] = {}
    tolerations: Annotated[list[Toleration], wire(2, "Taints its pods tolerate.", list_type="atomic")] = []


class RuntimeClass(Object):
    """A way of running containers."""

    handler: Annotated[str, wire(2, "The container runtime's name for it.", required=True)] = always(str)
    overhead: Annotated[Overhead | None, wire(3, "What a pod costs besides its containers.")] = None
    scheduling: Annotated[Scheduling | None, wire(4, "Which nodes can run it.")] = None
