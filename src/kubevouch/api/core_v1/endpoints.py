"""Endpoints: the types, for those of ``default/kubernetes``.

Field numbers and order: k8s.io/api/core/v1 (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Annotated

from kubevouch.api.core_v1.references import ObjectReference
from kubevouch.machinery.declaration import Int32, Struct, always, whole, wire
from kubevouch.machinery.meta import Object


@whole
class EndpointAddress(Struct):
    """Where one of them is reached."""

    ip: Annotated[str, wire(1, "Its address.", required=True)] = always(str)
    hostname: Annotated[str, wire(3, "Its host name.")] = ""
    node_name: Annotated[str | None, wire(4, "The node it is on.")] = None
    target_ref: Annotated[ObjectReference | None, wire(2, "What it stands for.")] = None


@whole
class EndpointPort(Struct):
    """A port of all of them."""

    name: Annotated[str, wire(1, "Its name in the Service.")] = ""
    port: Annotated[Int32, wire(2, "The port.", required=True)] = always(int)
    protocol: Annotated[str, wire(3, "TCP, UDP or SCTP.", enum=("SCTP", "TCP", "UDP"))] = ""
    app_protocol: Annotated[str | None, wire(4, "The protocol that is spoken over it.")] = None


class EndpointSubset(Struct):
    """Addresses that have the same ports."""

    addresses: Annotated[list[EndpointAddress], wire(1, "Those that take requests.", list_type="atomic")] = []
    not_ready_addresses: Annotated[list[EndpointAddress], wire(2, "Those that do not yet.", list_type="atomic")] = []
    ports: Annotated[list[EndpointPort], wire(3, "Their ports.", list_type="atomic")] = []


class Endpoints(Object):
    """What stands behind a Service of the same name."""

    subsets: Annotated[list[EndpointSubset], wire(2, "Addresses and ports.", list_type="atomic")] = []
