"""``default/kubernetes``: the Service that programs find the API server by, and what stands behind it.

Nothing routes its address here; clients and end-to-end tests look for the objects. They are written to the store past
the API, which lets nobody make or change Services.
Source: pkg/controlplane/controller/kubernetesservice and pkg/controlplane/reconcilers (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import msgspec

from kubevouch import wellknown
from kubevouch.api import catalog, core_v1, discovery_v1
from kubevouch.api.core_v1 import EndpointAddress, Endpoints, EndpointSubset, Service, ServicePort, ServiceSpec
from kubevouch.api.discovery_v1 import Endpoint, EndpointConditions, EndpointSlice
from kubevouch.authentication.interface import UserInfo
from kubevouch.machinery.declaration import IntOrString
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import Object, ObjectMeta
from kubevouch.registry.interface import Context
from kubevouch.registry.store import ResourceStore
from kubevouch.util.clock import Clock

NAMESPACE, NAME = wellknown.DEFAULT_NAMESPACE, "kubernetes"
# The program name in the user agent of the original.
_FIELD_MANAGER = "kube-apiserver"
_PORT_NAME, _PORT, _TCP = "https", 443, "TCP"

Address = IPv4Address | IPv6Address


def objects(service_address: Address, address: Address, port: int) -> dict[str, Object]:
    """By resource: what there shall be.

    Args:
        service_address: the first of the service range.
        address: where the API server is reached, on ``port``.
    """
    family, labels = f"IPv{address.version}", {"endpointslice.kubernetes.io/skip-mirror": "true"}
    service = Service(
        metadata=ObjectMeta(
            name=NAME, namespace=NAMESPACE, labels={"component": "apiserver", "provider": "kubernetes"}
        ),
        spec=ServiceSpec(
            ports=[ServicePort(name=_PORT_NAME, protocol=_TCP, port=_PORT, target_port=IntOrString(port))],
            cluster_ip=str(service_address),
            ip_family_policy="SingleStack",
        ),
    )
    subset = EndpointSubset(
        addresses=[EndpointAddress(ip=str(address))],
        ports=[core_v1.EndpointPort(name=_PORT_NAME, port=port, protocol=_TCP)],
    )
    endpoint = Endpoint(addresses=[str(address)], conditions=EndpointConditions(ready=True))
    return {
        catalog.SERVICES.plural: core_v1.default_service(service),
        catalog.ENDPOINTS.plural: Endpoints(
            metadata=ObjectMeta(name=NAME, namespace=NAMESPACE, labels=labels), subsets=[subset]
        ),
        catalog.ENDPOINT_SLICES.plural: EndpointSlice(
            metadata=ObjectMeta(name=NAME, namespace=NAMESPACE, labels={discovery_v1.SERVICE_NAME_LABEL: NAME}),
            address_type=family,
            endpoints=[endpoint],
            ports=[discovery_v1.EndpointPort(name=_PORT_NAME, protocol=_TCP, port=port)],
        ),
    }


async def ensure(
    stores: Mapping[str, ResourceStore[Any]], wanted: Mapping[str, Object], user: UserInfo, clock: Clock
) -> None:
    """Make what is missing, and correct what tells of another address. Raises APIStatusError."""
    for plural, obj in wanted.items():
        store, ctx = stores[plural], Context(user, clock.now(), field_manager=_FIELD_MANAGER, own=True)

        async def tell(stored: Object | None, told: Object = obj) -> Object:
            assert stored is not None  # none of these is created by an update
            return msgspec.structs.replace(told, metadata=stored.metadata)

        try:
            await store.update(ctx, NAMESPACE, NAME, tell)
        except APIStatusError as err:
            if err.code != 404:
                raise
            await store.create(ctx, NAMESPACE, obj)
