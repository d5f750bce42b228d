"""apidiscovery.k8s.io/v2: API discovery in one document.

Field numbers and order: k8s.io/api/apidiscovery/v2 (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Annotated

from kubevouch.api.meta_v1 import GroupVersionKind
from kubevouch.machinery.declaration import Struct, always, null, wire
from kubevouch.machinery.meta import ListMeta, ObjectMeta

GROUP = "apidiscovery.k8s.io"

CURRENT = "Current"
STALE = "Stale"
SCOPE_CLUSTER = "Cluster"
SCOPE_NAMESPACED = "Namespaced"


class APISubresourceDiscovery(Struct):
    """One subresource."""

    subresource: Annotated[str, wire(1, "Its name.", required=True)] = always(str)
    response_kind: Annotated[GroupVersionKind | None, wire(2, "The kind it returns.")] = None
    accepted_types: Annotated[
        list[GroupVersionKind],
        wire(3, "The kinds it takes.", list_type="map", map_keys=("group", "version", "kind")),
    ] = []
    verbs: Annotated[list[str] | None, wire(4, "The verbs that are served.", required=True, list_type="set")] = null()


class APIResourceDiscovery(Struct):
    """One resource."""

    resource: Annotated[str, wire(1, "Its plural name.", required=True)] = always(str)
    response_kind: Annotated[
        GroupVersionKind | None, wire(2, "Its kind; an empty group and version mean the enclosing ones.")
    ] = None
    scope: Annotated[str, wire(3, "Cluster or Namespaced.", required=True)] = always(str)
    singular_resource: Annotated[str, wire(4, "Its singular name.", required=True)] = always(str)
    verbs: Annotated[list[str] | None, wire(5, "The verbs that are served.", required=True, list_type="set")] = null()
    short_names: Annotated[list[str], wire(6, "Short names.", list_type="set")] = []
    categories: Annotated[
        list[str], wire(7, "Groups of resources that kubectl knows as one word.", list_type="set")
    ] = []
    subresources: Annotated[
        list[APISubresourceDiscovery],
        wire(8, "Its subresources.", list_type="map", map_keys=("subresource",)),
    ] = []


class APIVersionDiscovery(Struct):
    """One version of a group."""

    version: Annotated[str, wire(1, "Its name.", required=True)] = always(str)
    resources: Annotated[
        list[APIResourceDiscovery], wire(2, "Its resources.", list_type="map", map_keys=("resource",))
    ] = []
    freshness: Annotated[str, wire(3, "Current, or Stale if its server could not be asked.")] = ""


class APIGroupDiscovery(Struct):
    """One group; its versions are in order of preference."""

    kind: Annotated[str, wire(0)] = ""
    api_version: Annotated[str, wire(0)] = ""
    metadata: Annotated[ObjectMeta, wire(1, "Its name is the name of the group.")] = always(ObjectMeta)
    versions: Annotated[
        list[APIVersionDiscovery], wire(2, "Its versions.", list_type="map", map_keys=("version",))
    ] = []


class APIGroupDiscoveryList(Struct):
    """All groups, in order of priority."""

    kind: Annotated[str, wire(0)] = ""
    api_version: Annotated[str, wire(0)] = ""
    metadata: Annotated[ListMeta, wire(1, "Empty: discovery has no versions.")] = always(ListMeta)
    items: Annotated[list[APIGroupDiscovery] | None, wire(2, "The groups.", required=True)] = null()
