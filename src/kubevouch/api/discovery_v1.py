"""discovery.k8s.io/v1: EndpointSlice, for that of ``default/kubernetes``. Hints are left out.

Field numbers and order: k8s.io/api/discovery/v1 (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Annotated

from kubevouch.api.core_v1.references import ObjectReference
from kubevouch.machinery.declaration import Int32, Struct, always, null, whole, wire
from kubevouch.machinery.meta import Object

GROUP = "discovery.k8s.io"
SERVICE_NAME_LABEL = "kubernetes.io/service-name"


class EndpointConditions(Struct):
    """How an endpoint is; what is not said counts as ready."""

    ready: Annotated[bool | None, wire(1, "Takes new requests.")] = None
    serving: Annotated[bool | None, wire(2, "Answers, also while it ends.")] = None
    terminating: Annotated[bool | None, wire(3, "It ends.")] = None


class ForZone(Struct):
    """A zone."""

    name: Annotated[str, wire(1, "Its name.", required=True)] = always(str)


class ForNode(Struct):
    """A node."""

    name: Annotated[str, wire(1, "Its name.", required=True)] = always(str)


class EndpointHints(Struct):
    """Whom an endpoint is for."""

    for_zones: Annotated[list[ForZone], wire(1, "Clients in these zones.", list_type="atomic")] = []
    for_nodes: Annotated[list[ForNode], wire(2, "Clients on these nodes.", list_type="atomic")] = []


class Endpoint(Struct):
    """One of what stands behind a Service."""

    addresses: Annotated[list[str] | None, wire(1, "Where it is reached.", required=True, list_type="set")] = null()
    conditions: Annotated[EndpointConditions, wire(2, "How it is.")] = always(EndpointConditions)
    hostname: Annotated[str | None, wire(3, "Its host name.")] = None
    target_ref: Annotated[ObjectReference | None, wire(4, "What it stands for.")] = None
    deprecated_topology: Annotated[dict[str, str], wire(5, "No longer set.")] = {}
    node_name: Annotated[str | None, wire(6, "The node it is on.")] = None
    zone: Annotated[str | None, wire(7, "The zone it is in.")] = None
    hints: Annotated[EndpointHints | None, wire(8, "Whom it is for.")] = None


@whole
class EndpointPort(Struct):
    """A port of all of them."""

    name: Annotated[str | None, wire(1, "Its name in the Service.")] = None
    protocol: Annotated[str | None, wire(2, "TCP, UDP or SCTP.")] = None
    port: Annotated[Int32 | None, wire(3, "The port.")] = None
    app_protocol: Annotated[str | None, wire(4, "The protocol that is spoken over it.")] = None


class EndpointSlice(Object):
    """A part of what stands behind a Service."""

    address_type: Annotated[
        str, wire(4, "The kind of its addresses.", required=True, enum=("FQDN", "IPv4", "IPv6"))
    ] = always(str)
    endpoints: Annotated[list[Endpoint] | None, wire(2, "The endpoints.", required=True, list_type="atomic")] = null()
    ports: Annotated[list[EndpointPort] | None, wire(3, "Their ports.", list_type="atomic")] = null()
