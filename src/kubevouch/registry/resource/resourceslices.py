"""ResourceSlice: an empty collection that kubelets clear at their start (pkg/registry/resource; Kubernetes 1.36)."""

from __future__ import annotations

import datetime as dt

from kubevouch.api import catalog
from kubevouch.api.resource_v1 import ResourceSlice
from kubevouch.registry.interface import NO_WORKLOADS, Column, Definition, Printer, Strategy
from kubevouch.registry.printing import AGE, NAME, UNSET, age


def _cells(obj: ResourceSlice, now: dt.datetime) -> list[object]:
    spec = obj.spec
    return [
        obj.metadata.name,
        spec.node_name or UNSET,
        spec.driver,
        spec.pool.name,
        age(obj.metadata.creation_timestamp, now),
    ]


DEFINITION = Definition(
    resource=catalog.RESOURCE_SLICES,
    strategy=Strategy[ResourceSlice](),
    printer=Printer(
        (
            NAME,
            Column("Node", description="The node that has the resources."),
            Column("Driver", description="The driver that offers them."),
            Column("Pool", description="The pool that it is a part of."),
            AGE,
        ),
        _cells,
    ),
    selectable_fields={
        "spec.nodeName": lambda obj: obj.spec.node_name or "",
        "spec.driver": lambda obj: obj.spec.driver,
    },
    refuses_creation=NO_WORKLOADS,
)
