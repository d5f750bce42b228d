"""server/bootstrap/kubernetes_service.py: default/kubernetes at every start, and out of everybody's reach."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest

from kubevouch.api import catalog
from kubevouch.authentication.interface import UserInfo
from kubevouch.client.interface import MERGE_PATCH
from kubevouch.machinery.declaration import IntOrString
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import Object, replace_metadata
from kubevouch.machinery.scheme import Resource
from kubevouch.server.bootstrap import kubernetes_service
from kubevouch.standalone import network
from kubevouch.testing import Cluster

KINDS = (catalog.SERVICES, catalog.ENDPOINTS, catalog.ENDPOINT_SLICES)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


def test_it_says_where_the_server_is(cluster: Cluster) -> None:
    host, port = cluster.server.endpoint.host, cluster.server.endpoint.port
    service = cluster.get(catalog.SERVICES, "kubernetes", "default")
    assert (service.spec.cluster_ip, service.spec.cluster_ips) == ("10.96.0.1", ["10.96.0.1"])
    assert [(each.name, each.port, each.protocol) for each in service.spec.ports] == [("https", 443, "TCP")]
    assert service.spec.ports[0].target_port == IntOrString(port)
    subset = cluster.get(catalog.ENDPOINTS, "kubernetes", "default").subsets[0]
    assert (subset.addresses[0].ip, subset.ports[0].port) == (host, port)
    part = cluster.get(catalog.ENDPOINT_SLICES, "kubernetes", "default")
    assert part.endpoints is not None and part.ports is not None
    assert (part.address_type, part.endpoints[0].addresses, part.ports[0].port) == ("IPv4", [host], port)
    assert part.metadata.labels == {"kubernetes.io/service-name": "kubernetes"}
    assert part.metadata.generation == 1


def test_who_owns_its_fields(cluster: Cluster) -> None:
    """Those that the API server names when it creates it; what is allocated or counted is nobody's."""
    owned: dict[str, set[str]] = {}
    for resource in KINDS:
        (entry,) = cluster.get(resource, "kubernetes", "default").metadata.managed_fields
        assert (entry.manager, entry.operation) == ("kube-apiserver", "Update") and entry.fields_v1 is not None
        tree = msgspec.json.decode(entry.fields_v1.raw)
        owned[resource.plural] = set(tree) | set(tree.get("f:spec", ()))
    assert owned == {
        "services": {
            "f:metadata", "f:spec", "f:clusterIP", "f:internalTrafficPolicy", "f:ipFamilyPolicy", "f:ports",
            "f:sessionAffinity", "f:type",
        },
        "endpoints": {"f:metadata", "f:subsets"},
        "endpointslices": {"f:metadata", "f:addressType", "f:endpoints", "f:ports"},
    }  # fmt: skip


@pytest.mark.parametrize("resource", KINDS, ids=lambda each: each.plural)
def test_nobody_may_change_it(cluster: Cluster, resource: Resource[Any]) -> None:
    """An administrator neither: what it says is what the server was started with."""
    client, before = cluster.client(), cluster.get(resource, "kubernetes", "default")
    changed = replace_metadata(before, labels={"a": "b"})
    merge = {"metadata": {"labels": {"a": "b"}}, "spec": {"clusterIP": "10.96.0.66"}}
    for attempt in (
        client.update(resource, changed),
        client.update(resource, changed, subresource="status"),
        client.patch(resource, "kubernetes", merge, MERGE_PATCH, "default"),
        client.patch(resource, "kubernetes", merge, MERGE_PATCH, "default", subresource="status"),
        client.delete(resource, "kubernetes", "default"),
        client.delete_collection(resource, "default"),
    ):
        with pytest.raises(APIStatusError) as caught:
            cluster.run(attempt)
        assert caught.value.code in (404, 405)
    assert cluster.get(resource, "kubernetes", "default") == before


def test_a_start_changes_only_what_is_another_now(cluster: Cluster) -> None:
    server = cluster.server
    versions = [cluster.get(each, "kubernetes", "default").metadata.resource_version for each in KINDS]
    cluster.restart()
    assert [cluster.get(each, "kubernetes", "default").metadata.resource_version for each in KINDS] == versions
    wanted = kubernetes_service.objects(
        ipaddress.ip_address("fd00:96::1"), [ipaddress.ip_address("fd00::7")], server.endpoint.port
    )
    user = UserInfo("system:apiserver")

    async def moved() -> Mapping[str, Object]:
        return wanted

    cluster.run(kubernetes_service.ensure(cluster.server.api.stores, moved, user, cluster.clock))
    service = cluster.get(catalog.SERVICES, "kubernetes", "default")
    assert (service.spec.cluster_ip, service.spec.ip_families) == ("fd00:96::1", ["IPv6"])
    part = cluster.get(catalog.ENDPOINT_SLICES, "kubernetes", "default")
    assert (part.address_type, part.metadata.generation) == ("IPv6", 2)
    endpoints = cluster.server.api.stores["endpoints"]
    printed = endpoints.definition.printer.cells(
        cluster.get(catalog.ENDPOINTS, "kubernetes", "default"), cluster.clock.now()
    )
    assert printed[1] == f"[fd00::7]:{server.endpoint.port}"


@pytest.mark.parametrize(
    ("ranges", "addresses"),
    [
        ("10.96.0.0/12", ("10.96.0.1",)),
        ("10.0.0.0/24", ("10.0.0.1",)),
        ("10.96.0.0/12, fd00:96::/112", ("10.96.0.1", "fd00:96::1")),
    ],
)
def test_the_first_address_of_a_range(ranges: str, addresses: tuple[str, ...]) -> None:
    assert network.service_addresses(ranges) == addresses


@pytest.mark.parametrize("ranges", ["", "10.96.0.0", "10.96.0.1/12", "ten/8", "10.96.0.0/12,"])
def test_what_is_no_range(ranges: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        network.service_addresses(ranges)


def test_a_name_stands_for_this_machine() -> None:
    assert str(network.parsed("192.0.2.7")) == "192.0.2.7"
    assert network.parsed("api.example.com") == ipaddress.ip_address(network.default_address())
