"""Service: ``default/kubernetes`` and no other (columns: pkg/printers/internalversion; Kubernetes 1.36)."""

from __future__ import annotations

import datetime as dt
import ipaddress

import msgspec

from kubevouch.api import catalog, core_v1
from kubevouch.api.core_v1 import Service
from kubevouch.registry.interface import (
    NO_SERVICE_NETWORK,
    READ_VERBS,
    Column,
    Context,
    Definition,
    Printer,
    Strategy,
    Subresource,
)
from kubevouch.registry.printing import AGE, NAME, NONE, age, or_none


class ServiceStrategy(Strategy[Service]):
    def prepare_for_create(self, _ctx: Context, obj: Service) -> Service:
        return _allocated(obj)

    def prepare_for_update(self, _ctx: Context, new: Service, _old: Service) -> Service:
        return _allocated(new)


def _allocated(service: Service) -> Service:
    """With the lists that Kubernetes derives from the address when it allocates one; nobody owns them."""
    address = service.spec.cluster_ip
    families = [f"IPv{ipaddress.ip_address(address).version}"]
    spec = msgspec.structs.replace(service.spec, cluster_ips=[address], ip_families=families)
    return msgspec.structs.replace(service, spec=spec)


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
    strategy=ServiceStrategy(),
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
