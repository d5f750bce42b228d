"""Service, in part: enough to show ``default/kubernetes`` and an otherwise empty collection.

Other fields are left out; kubevouch routes nothing.

Field numbers and order: k8s.io/api/core/v1 (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from kubevouch.machinery.declaration import Int32, IntOrString, Struct, always, named, wire
from kubevouch.machinery.meta import Object


class ServicePort(Struct):
    """One port of a Service."""

    name: Annotated[str, wire(1, "Its name.")] = ""
    protocol: Annotated[str, wire(2, "TCP, UDP or SCTP.", enum=("SCTP", "TCP", "UDP"))] = ""
    app_protocol: Annotated[str | None, wire(6, "The protocol that is spoken over it.")] = None
    port: Annotated[Int32, wire(3, "The port.", required=True)] = always(int)
    target_port: Annotated[IntOrString, wire(4, "The port behind it, or its name.")] = always(IntOrString)
    node_port: Annotated[Int32, wire(5, "The port on every node.")] = 0


class ServiceSpec(Struct):
    """Where a Service is reached, and what is behind it."""

    ports: Annotated[
        list[ServicePort],
        wire(1, "Its ports.", list_type="map", map_keys=("port", "protocol"), patch_merge_key="port"),
    ] = []
    selector: Annotated[dict[str, str], wire(2, "Labels of the pods behind it.", atomic=True)] = {}
    cluster_ip: Annotated[str, wire(3, "Its address.")] = named("clusterIP")
    cluster_ips: Annotated[list[str], wire(18, "Its addresses.", list_type="atomic")] = named("clusterIPs", [])
    type: Annotated[
        str,
        wire(4, "How it is published.", enum=("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")),
    ] = ""
    session_affinity: Annotated[str, wire(7, "Whether a client stays with one pod.", enum=("ClientIP", "None"))] = ""
    external_name: Annotated[str, wire(10, "The name that an ExternalName service stands for.")] = ""
    ip_families: Annotated[list[str], wire(19, "IPv4, IPv6 or both.", list_type="atomic")] = []
    ip_family_policy: Annotated[
        str | None,
        wire(17, "How many families it has.", enum=("PreferDualStack", "RequireDualStack", "SingleStack")),
    ] = None
    internal_traffic_policy: Annotated[
        str | None, wire(22, "Which pods get traffic from inside.", enum=("Cluster", "Local"))
    ] = None


class LoadBalancerStatus(Struct):
    """Where a load balancer is reached; its addresses are left out."""


class ServiceStatus(Struct):
    """What is known of a Service from outside."""

    load_balancer: Annotated[LoadBalancerStatus, wire(1, "Its load balancer, if it has one.")] = always(
        LoadBalancerStatus
    )


class Service(Object):
    """A stable address for a set of pods."""

    spec: Annotated[ServiceSpec, wire(2, "Where it is reached.")] = always(ServiceSpec)
    status: Annotated[ServiceStatus, wire(3, "What is known of it from outside.")] = always(ServiceStatus)


def default_service(service: Service) -> Service:
    """Type, session affinity, traffic policy, protocols and target ports get their usual values."""
    spec = service.spec
    ports = [
        msgspec.structs.replace(
            port,
            protocol=port.protocol or "TCP",
            target_port=port.target_port if port.target_port.value else IntOrString(port.port),
        )
        for port in spec.ports
    ]
    kind = spec.type or "ClusterIP"
    filled = msgspec.structs.replace(
        spec,
        ports=ports,
        type=kind,
        session_affinity=spec.session_affinity or "None",
        internal_traffic_policy=spec.internal_traffic_policy or (None if kind == "ExternalName" else "Cluster"),
    )
    return service if filled == spec else msgspec.structs.replace(service, spec=filled)
