"""Service: kubevouch routes nothing, and keeps those that Kubernetes has written as they are.

Field numbers and order: k8s.io/api/core/v1 (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from kubevouch.api.meta_v1 import Condition
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


class ClientIPConfig(Struct):
    """Staying by the client's address."""

    timeout_seconds: Annotated[Int32 | None, wire(1, "How long.")] = None


class SessionAffinityConfig(Struct):
    """How a client stays with one pod."""

    client_ip: Annotated[ClientIPConfig | None, wire(1, "By its address.")] = named("clientIP", None)


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
    external_ips: Annotated[list[str], wire(5, "Addresses of nodes that lead to it too.", list_type="atomic")] = named(
        "externalIPs", []
    )
    session_affinity: Annotated[str, wire(7, "Whether a client stays with one pod.", enum=("ClientIP", "None"))] = ""
    load_balancer_ip: Annotated[str, wire(8, "The address that is wished for.")] = named("loadBalancerIP")
    load_balancer_source_ranges: Annotated[list[str], wire(9, "Networks of clients.", list_type="atomic")] = []
    external_name: Annotated[str, wire(10, "The name that an ExternalName service stands for.")] = ""
    external_traffic_policy: Annotated[
        str, wire(11, "Which pods get traffic from outside.", enum=("Cluster", "Local"))
    ] = ""
    health_check_node_port: Annotated[Int32, wire(12, "The port of nodes that says whether they have pods of it.")] = 0
    publish_not_ready_addresses: Annotated[bool, wire(13, "Pods that are not ready count too.")] = False
    session_affinity_config: Annotated[SessionAffinityConfig | None, wire(14, "How a client stays with one pod.")] = (
        None
    )
    ip_families: Annotated[list[str], wire(19, "IPv4, IPv6 or both.", list_type="atomic")] = []
    ip_family_policy: Annotated[
        str | None,
        wire(17, "How many families it has.", enum=("PreferDualStack", "RequireDualStack", "SingleStack")),
    ] = None
    allocate_load_balancer_node_ports: Annotated[bool | None, wire(20, "A load balancer gets ports on every node.")] = (
        None
    )
    load_balancer_class: Annotated[str | None, wire(21, "Which load balancer publishes it.")] = None
    internal_traffic_policy: Annotated[
        str | None, wire(22, "Which pods get traffic from inside.", enum=("Cluster", "Local"))
    ] = None
    traffic_distribution: Annotated[str | None, wire(23, "Which pods get it rather.")] = None


class PortStatus(Struct):
    """What became of a port of a load balancer."""

    port: Annotated[Int32, wire(1, "The port.", required=True)] = always(int)
    protocol: Annotated[str, wire(2, "TCP, UDP or SCTP.", required=True, enum=("SCTP", "TCP", "UDP"))] = always(str)
    error: Annotated[str | None, wire(3, "What is wrong with it.")] = None


class LoadBalancerIngress(Struct):
    """Where a load balancer is reached."""

    ip: Annotated[str, wire(1, "Its address.")] = ""
    hostname: Annotated[str, wire(2, "Its name.")] = ""
    ip_mode: Annotated[str | None, wire(3, "What becomes of its packets: VIP or Proxy.")] = None
    ports: Annotated[list[PortStatus], wire(4, "Its ports.", list_type="atomic")] = []


class LoadBalancerStatus(Struct):
    """Where load balancers of a Service are reached."""

    ingress: Annotated[list[LoadBalancerIngress], wire(1, "Each of them.", list_type="atomic")] = []


class ServiceStatus(Struct):
    """What is known of a Service from outside."""

    load_balancer: Annotated[LoadBalancerStatus, wire(1, "Its load balancer, if it has one.")] = always(
        LoadBalancerStatus
    )
    conditions: Annotated[
        list[Condition],
        wire(2, "What is observed of it.", list_type="map", map_keys=("type",), patch_merge_key="type"),
    ] = []


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
