"""RuntimeClass: an empty collection, for kubelets to watch (columns: pkg/printers/internalversion; Kubernetes 1.36)."""

from __future__ import annotations

import datetime as dt

from kubevouch.api import catalog
from kubevouch.api.node_v1 import RuntimeClass
from kubevouch.registry.interface import NO_WORKLOADS, Column, Definition, Printer, Strategy
from kubevouch.registry.printing import AGE, NAME, age


def _cells(obj: RuntimeClass, now: dt.datetime) -> list[object]:
    return [obj.metadata.name, obj.handler, age(obj.metadata.creation_timestamp, now)]


DEFINITION = Definition(
    resource=catalog.RUNTIME_CLASSES,
    strategy=Strategy[RuntimeClass](),
    printer=Printer((NAME, Column("Handler", description="The container runtime's name for it."), AGE), _cells),
    refuses_creation=NO_WORKLOADS,
)
