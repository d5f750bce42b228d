"""Which resource a stored key belongs to: the other direction of a definition's key prefix.

Built-in kinds lie under their plural or an older name, without a group; custom ones, and those of the two servers that
kube-apiserver runs beside itself, under group and plural (Kubernetes 1.36).
"""

from __future__ import annotations

from functools import cache

from kubevouch.api import catalog
from kubevouch.machinery.scheme import GroupResource

ROOT = "/registry/"

# Of kinds that are served under another name than their keys have, or not at all.
_OTHERS = {
    "controllers": GroupResource("", "replicationcontrollers"),
    "ingress": GroupResource("networking.k8s.io", "ingresses"),
    "leasecandidates": GroupResource("coordination.k8s.io", "leasecandidates"),
    "devicetaintrules": GroupResource("resource.k8s.io", "devicetaintrules"),
    "storageversions": GroupResource("internal.apiserver.k8s.io", "storageversions"),
    "storageversionmigrations": GroupResource("storagemigration.k8s.io", "storageversionmigrations"),
    "workloads": GroupResource("scheduling.k8s.io", "workloads"),
}


def group_resource_of(key: str) -> GroupResource | None:
    """The resource of an object's key; None for what is none, such as ``/registry/ranges/servicenodeports``."""
    part = prefix_part(key)
    known = _built_in().get(part)
    if known is None and "." in part:
        group, _, resource = part.partition("/")
        return GroupResource(group, resource)
    return known


def prefix_part(key: str) -> str:
    """What of a key names its resource: one segment, or two where only both do. Only groups have dots."""
    first, _, rest = key.removeprefix(ROOT).partition("/")
    return f"{first}/{rest.partition('/')[0]}" if first == "services" or "." in first else first


@cache
def _built_in() -> dict[str, GroupResource]:
    resources = (*catalog.EMPTY.values(), *catalog.STORED)
    return _OTHERS | {each.storage_prefix or each.plural: each.group_resource for each in resources}
