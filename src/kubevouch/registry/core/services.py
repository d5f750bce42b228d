"""Service: ``default/kubernetes`` and no other (columns: pkg/printers/internalversion; Kubernetes 1.36)."""

from __future__ import annotations

import datetime as dt

from kubevouch.api import catalog, core_v1
from kubevouch.api.core_v1 import Service
from kubevouch.registry.interface import (
    NO_SERVICE_NETWORK,
    READ_VERBS,
    Column,
    Definition,
    Printer,
    Strategy,
    Subresource,
)
from kubevouch.registry.printing import AGE, NAME, NONE, age, or_none


def _ports(service: Service) -> str:
    return ",".join(
        f"{port.port}:{port.node_port}/{port.protocol}" if port.node_port else f"{port.port}/{port.protocol}"
        for port in service.spec.ports
    )


def _cells(service: Service, now: dt.datetime) -> list[object]:
    spec = service.spec
    return [
        service.metadata.name,
        spec.type,
        or_none(spec.cluster_ip),
        spec.external_name or ("<pending>" if spec.type == "LoadBalancer" else NONE),
        or_none(_ports(service)),
        age(service.metadata.creation_timestamp, now),
        or_none(",".join(f"{key}={value}" for key, value in sorted(spec.selector.items()))),
    ]


DEFINITION = Definition(
    resource=catalog.SERVICES,
    defaulter=core_v1.default_service,
    strategy=Strategy[Service](),
    printer=Printer(
        (
            NAME,
            Column("Type", description="How it is published."),
            Column("Cluster-IP", description="Its address inside of the cluster."),
            Column("External-IP", description="Its addresses outside of the cluster."),
            Column("Port(s)", description="Its ports."),
            AGE,
            Column("Selector", description="Labels of the pods behind it.", priority=1),
        ),
        _cells,
    ),
    subresources=(Subresource("status", Strategy[Service](), verbs=("get",)),),
    selectable_fields={
        "spec.clusterIP": lambda obj: obj.spec.cluster_ip,
        "spec.type": lambda obj: obj.spec.type,
    },
    categories=("all",),
    verbs=READ_VERBS,
    refuses_creation=NO_SERVICE_NETWORK,
)
