"""How far a machine has come, told by a real cluster in each of the states."""

from __future__ import annotations

import datetime as dt

import msgspec

from asynctest import async_test
from join_requests import ask
from kubevouch import wellknown
from kubevouch.api import catalog
from kubevouch.api.coordination_v1 import Lease, LeaseSpec
from kubevouch.api.core_v1 import Node
from kubevouch.api.core_v1.nodes import NodeCondition, NodeStatus
from kubevouch.api.rbac_v1 import ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import MicroTime
from kubevouch.phases import bootstrap_token
from kubevouch.reviews import csr_review
from kubevouch.reviews.join_status import JoinStatus, Progress, look
from kubevouch.testing.cluster import Cluster


async def status(cluster: Cluster, name: str = "worker-1") -> JoinStatus:
    return await look(cluster.client(), name, now=cluster.clock.now())


@async_test
async def test_nothing_was_seen() -> None:
    async with Cluster() as cluster:
        found = await status(cluster)
        assert (found.progress, found.stuck) == (Progress.NOTHING, True)
        assert "kubevouch doctor join says why" in found.reason


@async_test
async def test_undecided_then_denied() -> None:
    async with Cluster() as cluster:
        token_id = (await cluster.token_async())[:6]
        await ask(cluster, token_id)
        found = await status(cluster)
        assert (found.progress, found.stuck) == (Progress.REQUESTED, True)
        assert found.reason == (
            "nobody has decided: the approving controller approves it as nodeclient; is it running? "
            "csr explain says more"
        )
        assert (found.request, found.requester) == ("csr-1", f"system:bootstrap:{token_id}")
        assert found.token == f"{token_id}, which is valid"
        client = cluster.client()
        shown = await client.get(catalog.CERTIFICATE_SIGNING_REQUESTS, "csr-1")
        await csr_review.decide(client, shown, wellknown.CSR_DENIED, "not one of ours")
        found = await status(cluster)
        assert (found.progress, found.stuck) == (Progress.REQUESTED, True)
        assert found.reason == "the request was denied: KubevouchDeny: not one of ours"


@async_test
async def test_approved_and_never_signed() -> None:
    async with Cluster(controllers=(wellknown.CSR_APPROVING_CONTROLLER,)) as cluster:
        token_id = (await cluster.token_async(ttl=dt.timedelta(minutes=30)))[:6]
        await ask(cluster, token_id)
        cluster.clock.advance(1801)
        found = await status(cluster)
        assert (found.progress, found.stuck) == (Progress.APPROVED, True)
        assert "does the signing controller run?" in found.reason
        assert found.token == f"{token_id}, which has expired"
        await bootstrap_token.delete(cluster.client(), token_id)
        assert (await status(cluster)).token == f"{token_id}, which is deleted or has expired"


@async_test
async def test_issued_registered_ready() -> None:
    async with Cluster(controllers=("*",)) as cluster:
        token_id = (await cluster.token_async())[:6]
        await ask(cluster, token_id, node="worker-2", name="other")
        await ask(cluster, token_id)
        found = await status(cluster)
        assert (found.progress, found.stuck, found.request) == (Progress.ISSUED, False, "csr-1")
        assert found.reason.startswith("AutoApproved: Auto approving kubelet client certificate")
        assert "valid until " in found.reason
        client = cluster.client()
        node = await client.create(catalog.NODES, Node(metadata=ObjectMeta(name="worker-1")))
        found = await status(cluster)
        assert (found.progress, found.stuck) == (Progress.REGISTERED, True)
        assert found.reason == "the node is not ready: its kubelet has not said anything yet"
        for state, progress in (("False", Progress.REGISTERED), ("True", Progress.READY)):
            condition = NodeCondition(type="Ready", status=state, reason="KubeletNotReady", message="no network")
            node = msgspec.structs.replace(node, status=NodeStatus(conditions=[condition]))
            node = await client.update(catalog.NODES, node, subresource="status")
            found = await status(cluster)
            assert found.progress is progress
            assert found.stuck is (state == "False")
        # The request may be cleaned away meanwhile.
        await client.delete(catalog.CERTIFICATE_SIGNING_REQUESTS, "csr-1")
        found = await status(cluster)
        assert (found.progress, found.request, found.token) == (Progress.READY, "", "")


@async_test
async def test_a_ready_that_nobody_renews_is_not_believed() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        node = await client.create(catalog.NODES, Node(metadata=ObjectMeta(name="worker-1")))
        said = NodeStatus(conditions=[NodeCondition(type="Ready", status="True")])
        await client.update(catalog.NODES, msgspec.structs.replace(node, status=said), subresource="status")
        meta = ObjectMeta(name="worker-1", namespace=wellknown.KUBE_NODE_LEASE_NAMESPACE)
        renewed = MicroTime.of(cluster.clock.now())
        await client.create(catalog.LEASES, Lease(metadata=meta, spec=LeaseSpec(renew_time=renewed)))
        cluster.clock.advance(50)
        assert (await status(cluster)).progress is Progress.READY
        cluster.clock.advance(70)
        found = await status(cluster)
        assert (found.progress, found.stuck) == (Progress.REGISTERED, True)
        assert found.reason.startswith("the node is not ready: its kubelet has not renewed its Lease for 2m, since 20")
        # Who may see requests and Nodes only hears what those say.
        seer = cluster.client("seer")
        for name, rule in (("csr", ("certificates.k8s.io", "certificatesigningrequests")), ("nodes", ("", "nodes"))):
            rules = [PolicyRule(verbs=["get", "list"], api_groups=[rule[0]], resources=[rule[1]])]
            await client.create(catalog.CLUSTER_ROLES, ClusterRole(metadata=ObjectMeta(name=name), rules=rules))
            binding = ClusterRoleBinding(
                metadata=ObjectMeta(name=name),
                role_ref=RoleRef(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name=name),
                subjects=[Subject(kind="User", name="seer", api_group="rbac.authorization.k8s.io")],
            )
            await client.create(catalog.CLUSTER_ROLE_BINDINGS, binding)
        assert (await look(seer, "worker-1", now=cluster.clock.now())).progress is Progress.READY
