"""Which trust bundle a machine has in use, told where it may write: in an annotation of its own Lease.

Its requests say the same, but they are rare and are cleaned after an hour. A Node object may not be there.
"""

from __future__ import annotations

from kubevouch import wellknown
from kubevouch.agent.trust_bundle import HASH_ANNOTATION
from kubevouch.api import catalog
from kubevouch.api.coordination_v1 import Lease, LeaseSpec
from kubevouch.client.interface import MERGE_PATCH, Client
from kubevouch.machinery.errors import APIStatusError, Reason
from kubevouch.machinery.meta import ObjectMeta


async def report(client: Client, node_name: str, bundle: str) -> None:
    """``bundle`` is its hash. A kubelet's heartbeat in the same Lease goes on.

    Raises:
        APIStatusError, TransportError
    """
    namespace = wellknown.KUBE_NODE_LEASE_NAMESPACE
    annotations = {HASH_ANNOTATION: bundle}
    patch = {"metadata": {"annotations": annotations}}
    try:
        await client.patch(catalog.LEASES, node_name, patch, MERGE_PATCH, namespace)
    except APIStatusError as err:
        if err.code != 404:
            raise
        meta = ObjectMeta(name=node_name, namespace=namespace, annotations=annotations)
        try:
            await client.create(catalog.LEASES, Lease(metadata=meta, spec=LeaseSpec(holder_identity=node_name)))
        except APIStatusError as late:
            if late.reason != Reason.ALREADY_EXISTS:
                raise
            # A kubelet's first heartbeat came in between.
            await client.patch(catalog.LEASES, node_name, patch, MERGE_PATCH, namespace)
