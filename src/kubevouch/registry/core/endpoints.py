"""Endpoints: those of ``default/kubernetes`` (columns: pkg/printers/internalversion; Kubernetes 1.36)."""

from __future__ import annotations

import datetime as dt

from kubevouch.api import catalog
from kubevouch.api.core_v1 import Endpoints
from kubevouch.registry.interface import NO_SERVICE_NETWORK, READ_VERBS, Column, Definition, Printer, Strategy
from kubevouch.registry.printing import AGE, NAME, age, or_none


def _cells(endpoints: Endpoints, now: dt.datetime) -> list[object]:
    reached = [
        f"[{address.ip}]:{port.port}" if ":" in address.ip else f"{address.ip}:{port.port}"
        for subset in endpoints.subsets
        for port in subset.ports
        for address in subset.addresses
    ]
    return [
        endpoints.metadata.name, or_none(",".join(reached)), age(endpoints.metadata.creation_timestamp, now)
    ]  # fmt: skip


DEFINITION = Definition(
    resource=catalog.ENDPOINTS,
    strategy=Strategy[Endpoints](),
    printer=Printer((NAME, Column("Endpoints", description="Where they are reached."), AGE), _cells),
    verbs=READ_VERBS,
    refuses_creation=NO_SERVICE_NETWORK,
    deprecation="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
)
