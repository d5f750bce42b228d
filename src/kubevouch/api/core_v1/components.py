"""ComponentStatus: how the parts of a control plane are. Deprecated, and still what some programs ask for first.

Field numbers and order: k8s.io/api/core/v1 (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Annotated

from kubevouch.machinery.declaration import Struct, always, wire
from kubevouch.machinery.meta import Object

HEALTHY = "Healthy"


class ComponentCondition(Struct):
    """What is known of a part."""

    type: Annotated[str, wire(1, "Healthy.", required=True)] = always(str)
    status: Annotated[str, wire(2, "True, False or Unknown.", required=True)] = always(str)
    message: Annotated[str, wire(3, "What it says of itself.")] = ""
    error: Annotated[str, wire(4, "Why it could not be asked.")] = ""


class ComponentStatus(Object):
    """How a part of the control plane is."""

    conditions: Annotated[
        list[ComponentCondition],
        wire(2, "What is known of it.", list_type="map", map_keys=("type",), patch_merge_key="type"),
    ] = []
