"""CSINode, which the kubelet of the node of the same name writes (pkg/registry/storage/csinode; Kubernetes 1.36)."""

from __future__ import annotations

import datetime as dt

from kubevouch.api import catalog, storage_v1
from kubevouch.api.storage_v1 import CSINode
from kubevouch.machinery.field import FieldError
from kubevouch.registry.interface import Column, Context, Definition, Printer, Strategy
from kubevouch.registry.printing import AGE, NAME, age


class CSINodeStrategy(Strategy[CSINode]):
    unconditional_update = False

    def validate(self, _ctx: Context, obj: CSINode) -> list[FieldError]:
        return storage_v1.validate_csi_node(obj)

    def validate_update(self, _ctx: Context, new: CSINode, old: CSINode) -> list[FieldError]:
        return storage_v1.validate_csi_node_update(new, old)


def _cells(obj: CSINode, now: dt.datetime) -> list[object]:
    return [obj.metadata.name, len(obj.spec.drivers or ()), age(obj.metadata.creation_timestamp, now)]


DEFINITION = Definition(
    resource=catalog.CSI_NODES,
    strategy=CSINodeStrategy(),
    printer=Printer(
        (NAME, Column("Drivers", "integer", description="How many volume drivers the node has."), AGE), _cells
    ),
)
