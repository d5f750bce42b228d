from __future__ import annotations

from kubevouch.api.apidiscovery_v2 import (
    APIGroupDiscovery,
    APIGroupDiscoveryList,
    APIResourceDiscovery,
    APIVersionDiscovery,
)
from kubevouch.api.meta_v1 import GroupVersionKind
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.meta import ObjectMeta


def test_discovery_prints_as_in_go() -> None:
    resource = APIResourceDiscovery(
        resource="leases",
        response_kind=GroupVersionKind(kind="Lease"),
        scope="Namespaced",
        singular_resource="lease",
        verbs=["get"],
    )
    version = APIVersionDiscovery(version="v1", resources=[resource], freshness="Current")
    group = APIGroupDiscovery(metadata=ObjectMeta(name="coordination.k8s.io"), versions=[version])
    assert json_codec.encode(APIGroupDiscoveryList(items=[group])) == (
        b'{"metadata":{},"items":[{"metadata":{"name":"coordination.k8s.io"},"versions":[{"version":"v1","resources":'
        b'[{"resource":"leases","responseKind":{"group":"","version":"","kind":"Lease"},"scope":"Namespaced",'
        b'"singularResource":"lease","verbs":["get"]}],"freshness":"Current"}]}]}'
    )
