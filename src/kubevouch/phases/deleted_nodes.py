"""Whether a cluster refuses the certificates of a node whose Node was deleted: decided once, and stored in the cluster.

Kubernetes goes on to let such a node in until its certificate ends, and to renew it. The first start of a cluster
decides for the safe way. A cluster that was started before there was this decision keeps Kubernetes' way.
"""

from __future__ import annotations

from kubevouch import wellknown
from kubevouch.api.catalog import NAMESPACES
from kubevouch.client.interface import MERGE_PATCH, Client
from kubevouch.client.stored import find

ANNOTATION = wellknown.LOCK_OUT_DELETED_NODES_ANNOTATION
"""Of the Namespace ``kube-system``, which nobody can delete; only administrators take it back (OwnKindProtection)."""


async def stored(client: Client) -> bool | None:
    """What the cluster has decided; None where it has not. Raises what the client raises."""
    found = await find(client, NAMESPACES, wellknown.KUBE_SYSTEM_NAMESPACE)
    value = "" if found is None else found.metadata.annotations.get(ANNOTATION, "")
    # Whatever somebody else wrote there opens nothing.
    return value != "false" if value else None


async def settle(client: Client, wanted: bool | None, *, otherwise: bool) -> bool:
    """What counts from now on, which is stored.

    Args:
        wanted: what the operator says now; None keeps what is stored.
        otherwise: where nothing is stored either.

    Raises:
        APIStatusError, TransportError
    """
    before = await stored(client)
    decided = wanted if wanted is not None else before if before is not None else otherwise
    if decided != before:
        change = {"metadata": {"annotations": {ANNOTATION: "true" if decided else "false"}}}
        await client.patch(NAMESPACES, wellknown.KUBE_SYSTEM_NAMESPACE, change, MERGE_PATCH)
    return decided
