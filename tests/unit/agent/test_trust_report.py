"""agent/trust_report.py, with a node's own rights."""

from __future__ import annotations

import msgspec

from asynctest import async_test
from kubevouch import wellknown
from kubevouch.agent.trust_bundle import HASH_ANNOTATION
from kubevouch.agent.trust_report import report
from kubevouch.api import catalog
from kubevouch.api.coordination_v1 import Lease, LeaseSpec
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.scheme import Resource
from kubevouch.testing.cluster import Cluster

NAMESPACE = wellknown.KUBE_NODE_LEASE_NAMESPACE


@async_test
async def test_with_and_without_a_kubelets_lease() -> None:
    async with Cluster() as cluster:
        node = cluster.client("system:node:worker-1", [wellknown.NODES_GROUP])
        await report(node, "worker-1", "sha256:1")
        found = await node.get(catalog.LEASES, "worker-1", NAMESPACE)
        assert (found.metadata.annotations[HASH_ANNOTATION], found.spec.holder_identity) == ("sha256:1", "worker-1")
        # A heartbeat goes on beside it, in either order.
        beating = msgspec.structs.replace(found.spec, lease_duration_seconds=40)
        await node.update(catalog.LEASES, msgspec.structs.replace(found, spec=beating))
        await report(node, "worker-1", "sha256:2")
        found = await node.get(catalog.LEASES, "worker-1", NAMESPACE)
        assert (found.metadata.annotations[HASH_ANNOTATION], found.spec.lease_duration_seconds) == ("sha256:2", 40)


@async_test
async def test_a_kubelet_that_comes_in_between() -> None:
    async with Cluster() as cluster:
        node = cluster.client("system:node:worker-1", [wellknown.NODES_GROUP])

        class Between:
            """Makes the kubelet's Lease just before ours would be made."""

            def __getattr__(self, name: str) -> object:
                return getattr(node, name)

            async def create(self, resource: Resource[Lease], obj: Lease) -> Lease:
                meta = ObjectMeta(name="worker-1", namespace=NAMESPACE)
                spec = LeaseSpec(holder_identity="worker-1", lease_duration_seconds=40)
                await node.create(catalog.LEASES, Lease(metadata=meta, spec=spec))
                return await node.create(resource, obj)

        await report(Between(), "worker-1", "sha256:1")  # type: ignore[arg-type]  # it forwards every method
        found = await node.get(catalog.LEASES, "worker-1", NAMESPACE)
        assert (found.metadata.annotations[HASH_ANNOTATION], found.spec.lease_duration_seconds) == ("sha256:1", 40)
