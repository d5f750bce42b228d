"""ResourceSlice: kubelets clear theirs at their start (pkg/registry/resource/resourceslice; Kubernetes 1.36)."""

from __future__ import annotations

import datetime as dt

from kubevouch.api import catalog, resource_v1
from kubevouch.api.resource_v1 import ResourceSlice
from kubevouch.machinery import field
from kubevouch.machinery.field import FieldError
from kubevouch.registry.generations import CountingStrategy
from kubevouch.registry.interface import Column, Context, Definition, Printer
from kubevouch.registry.printing import AGE, NAME, UNSET, age


class SliceStrategy(CountingStrategy[ResourceSlice]):
    def validate(self, _ctx: Context, obj: ResourceSlice) -> list[FieldError]:
        return resource_v1.validate_slice(obj)

    def validate_update(self, ctx: Context, new: ResourceSlice, old: ResourceSlice) -> list[FieldError]:
        found = self.validate(ctx, new)
        for name in ("driver", "node_name"):
            if getattr(new.spec, name) != getattr(old.spec, name):
                wire_name = "spec.driver" if name == "driver" else "spec.nodeName"
                found.append(field.invalid(wire_name, getattr(new.spec, name) or "", "field is immutable"))
        return found


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
    strategy=SliceStrategy(),
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
)
