"""autoscaling/v1: Scale, as the ``/scale`` of custom resources shows it.

Field numbers and order: k8s.io/api/autoscaling/v1/generated.proto (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Annotated

from kubevouch.machinery.declaration import Int32, Struct, always, wire
from kubevouch.machinery.meta import Object

GROUP = "autoscaling"


class ScaleSpec(Struct):
    """How many there should be."""

    replicas: Annotated[Int32 | None, wire(1, "The wanted number of instances.")] = None


class ScaleStatus(Struct):
    """How many there are."""

    replicas: Annotated[Int32, wire(1, "The number of instances that there are.", required=True)] = always(int)
    selector: Annotated[str, wire(2, "The label selector of the instances, as text.")] = ""


class Scale(Object):
    """How many instances of something there are and should be."""

    spec: Annotated[ScaleSpec, wire(2, "How many there should be.")] = always(ScaleSpec)
    status: Annotated[ScaleStatus, wire(3, "How many there are.")] = always(ScaleStatus)
