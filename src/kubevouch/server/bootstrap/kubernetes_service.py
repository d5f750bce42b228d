"""``default/kubernetes``: the Service that programs find the API server by, and what stands behind it.

Nothing routes its address here; clients and end-to-end tests look for the objects. They are written to the store past
the API, which lets nobody make or change Services.
Source: pkg/controlplane/controller/kubernetesservice and pkg/controlplane/reconcilers (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import msgspec

from kubevouch import wellknown
from kubevouch.api import catalog, core_v1, discovery_v1
from kubevouch.api.core_v1 import EndpointAddress, Endpoints, EndpointSubset, Service, ServicePort, ServiceSpec
from kubevouch.api.discovery_v1 import Endpoint, EndpointConditions, EndpointSlice
from kubevouch.authentication.interface import UserInfo
from kubevouch.client.stored import unopposed
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


def objects(service_address: Address, addresses: Sequence[Address], port: int) -> dict[str, Object]:
    """By resource: what there shall be.

    Args:
        service_address: the first of the service range.
        addresses: where API servers are reached, on ``port``; at least one, of one family.
    """
    family, labels = f"IPv{addresses[0].version}", {"endpointslice.kubernetes.io/skip-mirror": "true"}
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
        addresses=[EndpointAddress(ip=str(each)) for each in addresses],
        ports=[core_v1.EndpointPort(name=_PORT_NAME, port=port, protocol=_TCP)],
    )
    ready = EndpointConditions(ready=True)
    return {
        catalog.SERVICES.plural: core_v1.default_service(service),
        catalog.ENDPOINTS.plural: Endpoints(
            metadata=ObjectMeta(name=NAME, namespace=NAMESPACE, labels=labels), subsets=[subset]
        ),
        catalog.ENDPOINT_SLICES.plural: EndpointSlice(
            metadata=ObjectMeta(name=NAME, namespace=NAMESPACE, labels={discovery_v1.SERVICE_NAME_LABEL: NAME}),
            address_type=family,
            endpoints=[Endpoint(addresses=[str(each)], conditions=ready) for each in addresses],
            ports=[discovery_v1.EndpointPort(name=_PORT_NAME, protocol=_TCP, port=port)],
        ),
    }


async def ensure(
    stores: Mapping[str, ResourceStore[Any]],
    wanted: Callable[[], Awaitable[Mapping[str, Object]]],
    user: UserInfo,
    clock: Clock,
) -> None:
    """Make what is missing, and correct what tells of other addresses.

    Args:
        wanted: what there shall be by now. It is asked once the object that is there was read: of two servers that
            write at once the second has to know of the first.

    Raises:
        APIStatusError, and whatever ``wanted`` raises
    """
    for plural in (catalog.SERVICES.plural, catalog.ENDPOINTS.plural, catalog.ENDPOINT_SLICES.plural):
        ctx = Context(user, clock.now(), field_manager=_FIELD_MANAGER, own=True)
        # Another server may be making the same.
        await unopposed(partial(_ensure_one, stores[plural], ctx, plural, wanted))


async def _ensure_one(
    store: ResourceStore[Any], ctx: Context, plural: str, wanted: Callable[[], Awaitable[Mapping[str, Object]]]
) -> None:
    async def tell(stored: Object | None) -> Object:
        assert stored is not None  # none of these is created by an update
        return msgspec.structs.replace((await wanted())[plural], metadata=stored.metadata)

    try:
        await store.update(ctx, NAMESPACE, NAME, tell)
    except APIStatusError as err:
        if err.code != 404:
            raise
        await store.create(ctx, NAMESPACE, (await wanted())[plural])
