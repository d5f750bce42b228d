"""resource.k8s.io/v1: ResourceSlice, which kubelets delete when they start.

Devices, shared counters and node selectors are left out: nothing here publishes them.

Field numbers and order: k8s.io/api/resource/v1 (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Annotated

from kubevouch.machinery.declaration import Int64, Struct, always, wire
from kubevouch.machinery.meta import Object

GROUP = "resource.k8s.io"


class ResourcePool(Struct):
    """The pool that a slice is a part of."""

    name: Annotated[str, wire(1, "Its name.", required=True)] = always(str)
    generation: Annotated[Int64, wire(2, "Counts its changes; only the highest counts.", required=True)] = always(int)
    resource_slice_count: Annotated[Int64, wire(3, "Of how many slices it is made.", required=True)] = always(int)


class ResourceSliceSpec(Struct):
    """What a driver offers."""

    driver: Annotated[str, wire(1, "The driver.", required=True)] = always(str)
    pool: Annotated[ResourcePool, wire(2, "The pool.", required=True)] = always(ResourcePool)
    node_name: Annotated[str | None, wire(3, "The node that has the resources.")] = None
    all_nodes: Annotated[bool | None, wire(5, "Every node has access to them.")] = None
    per_device_node_selection: Annotated[bool | None, wire(7, "Each device says for itself.")] = None


class ResourceSlice(Object):
    """Resources that a driver offers, or a part of them."""

    spec: Annotated[ResourceSliceSpec, wire(2, "What is offered.", required=True)] = always(ResourceSliceSpec)
