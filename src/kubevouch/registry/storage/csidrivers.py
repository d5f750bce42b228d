"""CSIDriver: an empty collection, for kubelets to watch (columns: pkg/printers/internalversion; Kubernetes 1.36)."""

from __future__ import annotations

import datetime as dt

from kubevouch.api import catalog, storage_v1
from kubevouch.api.storage_v1 import CSIDriver
from kubevouch.registry.interface import NO_WORKLOADS, READ_VERBS, Column, Definition, Printer, Strategy
from kubevouch.registry.printing import AGE, NAME, UNSET, age


def _cells(obj: CSIDriver, now: dt.datetime) -> list[object]:
    spec = obj.spec
    return [
        obj.metadata.name,
        spec.attach_required is not False,
        bool(spec.pod_info_on_mount),
        bool(spec.storage_capacity),
        ",".join(token.audience for token in spec.token_requests) or UNSET,
        bool(spec.requires_republish),
        ",".join(spec.volume_lifecycle_modes) or UNSET,
        age(obj.metadata.creation_timestamp, now),
    ]


DEFINITION = Definition(
    resource=catalog.CSI_DRIVERS,
    defaulter=storage_v1.default_csi_driver,
    strategy=Strategy[CSIDriver](),
    printer=Printer(
        (
            NAME,
            Column("AttachRequired", "boolean", description="Whether volumes are attached before they are mounted."),
            Column("PodInfoOnMount", "boolean", description="Whether the driver is told of the pod."),
            Column("StorageCapacity", "boolean", description="Whether the driver publishes its capacity."),
            Column("TokenRequests", description="For whom the driver wants tokens."),
            Column("RequiresRepublish", "boolean", description="Whether the driver is called again and again."),
            Column("Modes", description="Persistent, Ephemeral or both."),
            AGE,
        ),
        _cells,
    ),
    verbs=READ_VERBS,
    refuses_creation=NO_WORKLOADS,
)
