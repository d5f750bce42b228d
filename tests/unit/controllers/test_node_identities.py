"""controllers/node_identities.py: a claim goes with its Node, a refused renewal has consequences, claims are labels."""

from __future__ import annotations

import msgspec
import pytest

from asynctest import async_test
from attested_world import NULL, Machine, attested_world, events, identity, outcome, shown
from controller_world import World
from kubevouch.api.catalog import EVENTS, NODES
from kubevouch.api.core_v1.nodes import Node, NodeSpec, Taint
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REVOCATIONS, NODE_IDENTITIES
from kubevouch.api.kubevouch_v1alpha1.node_identities import NodeIdentitySpec
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta

STRICT = NULL + "onFailedRenewal: {revoke: true, taint: {effect: NoExecute}}\n"


async def register(at: World, name: str = "worker-7") -> None:
    await at.client.create(NODES, Node(metadata=ObjectMeta(name=name, labels={"a": "b"})))
    await at.settle()


async def owner(at: World, name: str = "worker-7") -> str:
    found = await identity(at, name)
    return "" if found is None else found.status.identity


async def failed_taints(at: World) -> list[str]:
    taints = (await at.client.get(NODES, "worker-7")).spec.taints
    return [each.effect for each in taints if each.key == "kubevouch.io/attestation-failed"]


@async_test
async def test_the_claim_goes_with_the_node_and_not_before_there_was_one() -> None:
    async with attested_world() as at:
        await Machine(at, "worker-7", "m-1").join()
        # Another Node goes, and the machine has not registered its own yet.
        await register(at, "worker-8")
        await at.client.delete(NODES, "worker-8")
        await at.settle()
        assert await owner(at) == "m-1"
        await register(at)
        found = await identity(at, "worker-7")
        assert found is not None
        assert found.status.node_uid == (await at.client.get(NODES, "worker-7")).metadata.uid
        await at.client.delete(NODES, "worker-7")
        await at.settle()
        assert await owner(at) == ""
        assert outcome(await Machine(at, "worker-7", "m-2").join()) == "issued"


@async_test
async def test_a_deletion_that_nobody_saw_lets_the_name_go_as_well() -> None:
    async with attested_world() as at:
        await Machine(at, "worker-7", "m-1").join()
        await register(at)
        found = await identity(at, "worker-7")
        assert found is not None
        # As if the Node had been made anew while no controller ran.
        stale = msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, node_uid="another"))
        await at.client.update(NODE_IDENTITIES, stale, subresource="status")
        await at.settle()
        assert await owner(at) == ""


@async_test
async def test_a_node_never_lets_its_name_go_by_its_own_hand() -> None:
    async with attested_world() as at:
        await Machine(at, "worker-7", "m-1").join()
        await register(at)
        # Whatever rights somebody has given it.
        node = at.as_user("system:node:worker-7", "system:nodes", "system:masters")
        for deletes in (node.delete(NODES, "worker-7"), node.delete_collection(NODES)):
            with pytest.raises(APIStatusError, match="a node deletes no Nodes"):
                await deletes
        plain = at.as_user("system:node:worker-7", "system:nodes")
        with pytest.raises(APIStatusError, match="forbidden"):
            await plain.delete(NODE_IDENTITIES, "worker-7")
        await at.settle()
        assert await owner(at) == "m-1"


@async_test
async def test_a_ban_outlives_the_node() -> None:
    async with attested_world() as at:
        machine = Machine(at, "worker-7", "m-1")
        await machine.join()
        await register(at)
        found = await identity(at, "worker-7")
        assert found is not None
        await at.client.update(NODE_IDENTITIES, msgspec.structs.replace(found, spec=NodeIdentitySpec(banned=True)))
        await at.client.delete(NODES, "worker-7")
        await at.settle()
        machine.name = "worker-9"
        assert outcome(await machine.join()) == "denied: banned"


@async_test
async def test_a_renewal_that_is_refused_costs_the_node_what_it_has_until_the_machine_proves_itself() -> None:
    async with attested_world(STRICT) as at:
        machine = Machine(at, "worker-7", "m-1")
        await machine.join()
        await register(at)
        own = Taint(key="mine", effect="NoSchedule")
        node = await at.client.get(NODES, "worker-7")
        await at.client.update(NODES, msgspec.structs.replace(node, spec=NodeSpec(taints=[own])))
        machine.become_node()
        shown(machine, identity="m-2")
        assert outcome(await machine.join()) == "denied: name-taken"
        found = await identity(at, "worker-7")
        assert found is not None
        assert [each.event for each in found.status.history] == ["Claimed", "RenewalFailed"]
        assert found.status.identity == "m-1"
        revoked = (await at.client.list(CERTIFICATE_REVOCATIONS)).items
        assert [each.spec.revoked.nodes for each in revoked] == [["worker-7"]]
        taints = (await at.client.get(NODES, "worker-7")).spec.taints
        assert [(each.key, each.effect) for each in taints] == [
            ("mine", "NoSchedule"), ("kubevouch.io/attestation-failed", "NoExecute"),
        ]  # fmt: skip
        assert "AttestationFailed" in await events(at)
        # With a token, as at its first join: the machine itself comes back, and the taint goes.
        back = Machine(at, "worker-7", "m-1")
        at.clock.advance(2)
        assert outcome(await back.join()) == "issued"
        assert (await at.client.get(NODES, "worker-7")).spec.taints == [own]


@async_test
async def test_without_a_policy_a_refused_renewal_is_told_and_nothing_more() -> None:
    async with attested_world() as at:
        machine = Machine(at, "worker-7", "m-1")
        await machine.join()
        await register(at)
        machine.become_node()
        shown(machine, refuse="signature")
        assert outcome(await machine.join()) == "denied: signature"
        assert (await at.client.list(CERTIFICATE_REVOCATIONS)).items == []
        assert await failed_taints(at) == []
        assert "AttestationRefused" in await events(at)


@async_test
async def test_who_is_slow_or_asks_in_a_wrong_form_loses_nothing() -> None:
    async with attested_world(STRICT) as at:
        machine = Machine(at, "worker-7", "m-1")
        await machine.join()
        await register(at)
        machine.become_node()
        bare = await machine.evidence(None)
        assert outcome(await machine.file(machine.request(bare))) == "denied: challenge"
        assert outcome(await machine.file(machine.request())) == "denied: provider"
        # Nor does anybody else harm it.
        thief = Machine(at, "worker-7", "m-2")
        assert outcome(await thief.join()) == "denied: name-taken"
        assert (await at.client.list(CERTIFICATE_REVOCATIONS)).items == []
        assert await failed_taints(at) == []


@async_test
async def test_what_was_proven_becomes_labels_where_the_operator_says_so() -> None:
    async with attested_world(NULL + "nodeLabels: {topology.kubernetes.io/region: cloud.region}\n") as at:
        await Machine(at, "worker-7", "m-1", claims={"cloud.region": "eu-1", "other": "x"}).join()
        await register(at)
        labels = (await at.client.get(NODES, "worker-7")).metadata.labels
        assert labels == {"a": "b", "topology.kubernetes.io/region": "eu-1"}


@async_test
async def test_no_tag_that_a_tenant_writes_becomes_a_label_that_decides_where_pods_run() -> None:
    """As aws.tag/…, gcp.label.… and azure.tag.… are: whoever rents the machine changes them."""
    labels = (
        "nodeLabels: {node-restriction.kubernetes.io/pool: cloud.tag, node-role.kubernetes.io/pool: cloud.tag, "
        "example.com/pool: cloud.tag, node-restriction.kubernetes.io/region: cloud.region}\n"
    )
    async with attested_world(NULL + labels) as at:
        claims = {"cloud.tag": "payments", "cloud.region": "eu-1"}
        await Machine(at, "worker-7", "m-1", claims=claims, tenant_claims=("cloud.tag",)).join()
        await register(at)
        found = (await at.client.get(NODES, "worker-7")).metadata.labels
        assert found == {
            "a": "b",
            # As it can write it itself.
            "example.com/pool": "payments",
            "node-restriction.kubernetes.io/region": "eu-1",
        }
        events = (await at.client.list(EVENTS)).items
        (told,) = [each.message for each in events if each.reason == "LabelRefused"]
        assert "node-restriction.kubernetes.io/pool, node-role.kubernetes.io/pool" in told
