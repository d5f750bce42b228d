"""controllers/garbage_collector.py: what goes with its owners, what stays, and when owners go."""

from __future__ import annotations

from typing import Any

import pytest

from asynctest import async_test
from controller_world import World, answer, world
from kubevouch.api.catalog import CLUSTER_ROLES, CONFIG_MAPS, EVENTS, NAMESPACES, NODES, SECRETS
from kubevouch.api.core_v1 import ConfigMap, Namespace, Node, Secret
from kubevouch.api.rbac_v1 import ClusterRole, PolicyRule
from kubevouch.controllers.garbage_collector import NAME, Owners, blocks
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import DeleteOptions, Object, ObjectMeta, OwnerReference, replace_metadata
from kubevouch.machinery.scheme import Resource
from kubevouch.machinery.text.times import Time

HOLD = "example.com/hold"


def owned_by(
    owner: Object, resource: Resource[Any] = CONFIG_MAPS, *, uid: str = "", block: bool | None = None
) -> OwnerReference:
    meta = owner.metadata
    return OwnerReference(
        api_version=resource.api_version, kind=resource.kind, name=meta.name, uid=uid or meta.uid,
        block_owner_deletion=block,
    )  # fmt: skip


async def config_map(at: World, name: str, *owners: OwnerReference, hold: bool = False) -> ConfigMap:
    finalizers = [HOLD] if hold else []
    meta = ObjectMeta(name=name, namespace="default", owner_references=list(owners), finalizers=finalizers)
    return await at.client.create(CONFIG_MAPS, ConfigMap(metadata=meta))


async def names(at: World, resource: Resource[Any] = CONFIG_MAPS, namespace: str = "default") -> list[str]:
    return [obj.metadata.name for obj in (await at.client.list(resource, namespace)).items]


async def delete(at: World, name: str, policy: str = "Background") -> None:
    await at.client.delete(CONFIG_MAPS, name, "default", DeleteOptions(propagation_policy=policy))


async def let_go(at: World, name: str) -> None:
    held = await at.client.get(CONFIG_MAPS, name, "default")
    rest = [finalizer for finalizer in held.metadata.finalizers if finalizer != HOLD]
    await at.client.update(CONFIG_MAPS, replace_metadata(held, finalizers=rest))


@async_test
async def test_background_takes_dependents_of_dependents() -> None:
    async with world() as at:
        running = await at.run(NAME)
        top = await config_map(at, "top")
        middle = await config_map(at, "middle", owned_by(top))
        await config_map(at, "bottom", owned_by(middle))
        await config_map(at, "free")
        await running.settle()
        assert await names(at) == ["bottom", "free", "middle", "top"]
        await delete(at, "top")
        await running.settle()
        assert await names(at) == ["free"]


@async_test
async def test_orphans_stay_without_the_reference() -> None:
    async with world() as at:
        running = await at.run(NAME)
        owner, other = await config_map(at, "owner"), await config_map(at, "other")
        await config_map(at, "child", owned_by(owner), owned_by(other))
        await delete(at, "owner", "Orphan")
        await running.settle()
        assert await names(at) == ["child", "other"]
        child = await at.client.get(CONFIG_MAPS, "child", "default")
        assert [ref.name for ref in child.metadata.owner_references] == ["other"]


@async_test
async def test_foreground_keeps_the_owner_until_the_blocking_dependent_has_gone() -> None:
    async with world() as at:
        running = await at.run(NAME)
        owner = await config_map(at, "owner")
        await config_map(at, "blocking", owned_by(owner, block=True), hold=True)
        await config_map(at, "other", owned_by(owner), hold=True)
        await delete(at, "owner", "Foreground")
        await running.settle()
        stored = {name: await at.client.get(CONFIG_MAPS, name, "default") for name in await names(at)}
        assert stored["owner"].metadata.finalizers == ["foregroundDeletion"]
        assert all(obj.metadata.deletion_timestamp is not None for obj in stored.values())
        await let_go(at, "blocking")
        await running.settle()
        assert await names(at) == ["other"]


@async_test
async def test_a_dependent_with_another_owner_only_loses_the_reference() -> None:
    async with world() as at:
        running = await at.run(NAME)
        going, staying = await config_map(at, "going"), await config_map(at, "staying")
        await config_map(at, "child", owned_by(going, block=True), owned_by(staying))
        await delete(at, "going", "Foreground")
        await running.settle()
        assert await names(at) == ["child", "staying"]
        child = await at.client.get(CONFIG_MAPS, "child", "default")
        assert [ref.name for ref in child.metadata.owner_references] == ["staying"]


@async_test
async def test_a_circle_in_the_foreground_ends() -> None:
    async with world() as at:
        running = await at.run(NAME)
        first = await config_map(at, "first")
        second = await config_map(at, "second", owned_by(first, block=True))
        reference = owned_by(second, block=True)
        await at.client.update(CONFIG_MAPS, replace_metadata(first, owner_references=[reference]))
        await running.settle()
        await delete(at, "first", "Foreground")
        await running.settle()
        assert await names(at) == []


@async_test
async def test_an_owner_of_that_name_but_another_uid_is_no_owner() -> None:
    async with world() as at:
        running = await at.run(NAME)
        owner = await config_map(at, "owner")
        await config_map(at, "child", owned_by(owner, uid="0b9a1c2d-0000-4000-8000-000000000001"))
        await running.settle()
        assert await names(at) == ["owner"]


@async_test
async def test_an_owner_in_another_namespace_is_no_owner() -> None:
    async with world() as at:
        running = await at.run(NAME)
        owner = await config_map(at, "owner")
        secret = Secret(metadata=ObjectMeta(name="far", namespace="kube-public", owner_references=[owned_by(owner)]))
        await at.client.create(SECRETS, secret)
        await running.settle()
        assert await names(at, SECRETS, "kube-public") == []
        [event] = (await at.client.list(EVENTS, "kube-public")).items
        assert (event.type, event.reason, event.source.component) == ("Warning", "OwnerRefInvalidNamespace", NAME)
        about = event.involved_object
        assert (about.kind, about.api_version, about.namespace, about.name) == ("Secret", "v1", "kube-public", "far")
        assert event.message == (
            f"ownerRef [v1/ConfigMap, namespace: kube-public, name: owner, uid: {owner.metadata.uid}] does not exist "
            'in namespace "kube-public"'
        )


@async_test
async def test_an_owner_in_a_namespace_is_none_of_a_cluster_object() -> None:
    async with world() as at:
        running = await at.run(NAME)
        owner = await config_map(at, "owner")
        await at.client.create(NODES, Node(metadata=ObjectMeta(name="worker", owner_references=[owned_by(owner)])))
        await running.settle()
        assert await names(at, NODES, "") == ["worker"]
        [event] = (await at.client.list(EVENTS, "default")).items
        assert event.message == (
            f"ownerRef [v1/ConfigMap, namespace: , name: owner, uid: {owner.metadata.uid}] does not exist in "
            'namespace ""'
        )


@async_test
async def test_a_missing_owner_is_nothing_to_report() -> None:
    async with world() as at:
        running = await at.run(NAME)
        owner = await config_map(at, "owner")
        await config_map(at, "child", owned_by(owner))
        await delete(at, "owner")
        await running.settle()
        assert (await at.client.list(EVENTS)).items == []


@async_test
async def test_a_cluster_object_owns_objects_of_namespaces() -> None:
    async with world() as at:
        running = await at.run(NAME)
        node = await at.client.create(NODES, Node(metadata=ObjectMeta(name="worker")))
        await config_map(at, "child", owned_by(node, NODES))
        await running.settle()
        assert await names(at) == ["child"]
        await at.client.delete(NODES, "worker")
        await running.settle()
        assert await names(at) == []


@pytest.mark.parametrize(("api_version", "kind"), [("apps/v1", "Deployment"), ("v1", "ConfigMap")])
@async_test
async def test_what_nobody_can_find_out_keeps_a_cluster_object(api_version: str, kind: str) -> None:
    async with world() as at:
        running = await at.run(NAME)
        reference = OwnerReference(api_version=api_version, kind=kind, name="x", uid="u")
        await at.client.create(NODES, Node(metadata=ObjectMeta(name="worker", owner_references=[reference])))
        await running.settle()
        assert await names(at, NODES, "") == ["worker"]


@async_test
async def test_a_start_finds_what_was_left() -> None:
    async with world() as at:
        first, second = await config_map(at, "first"), await config_map(at, "second")
        third = await config_map(at, "third")
        await config_map(at, "of-first", owned_by(first))
        await config_map(at, "of-second", owned_by(second))
        await config_map(at, "of-third", owned_by(third, block=True))
        await delete(at, "first")
        await delete(at, "second", "Orphan")
        await delete(at, "third", "Foreground")
        assert len(await names(at)) == 5
        await at.run(NAME)
        assert await names(at) == ["of-second"]


@async_test
async def test_a_refused_deletion_is_tried_again() -> None:
    async with world() as at:
        running = await at.run(NAME)
        at.failures["DELETE"] = answer(500)
        owner = await config_map(at, "owner")
        await config_map(at, "child", owned_by(owner))
        await delete(at, "owner")
        await running.settle()
        assert await names(at) == ["child"]
        at.failures.clear()
        await at.clock.run(1)
        await running.settle()
        assert await names(at) == []


@async_test
async def test_deletions_are_of_the_object_that_was_looked_at() -> None:
    async with world() as at:
        running = await at.run(NAME)
        owner = await config_map(at, "owner")
        child = await config_map(at, "child", owned_by(owner))
        await delete(at, "owner")
        await running.settle()
        ((_, options),) = at.writes("DELETE")
        unchanged = options.preconditions
        assert (unchanged.uid, unchanged.resource_version) == (child.metadata.uid, child.metadata.resource_version)


@async_test
async def test_a_role_beyond_the_collectors_own_rights_is_released() -> None:
    async with world() as at:
        running = await at.run(NAME)
        node = await at.client.create(NODES, Node(metadata=ObjectMeta(name="worker")))
        role = ClusterRole(
            metadata=ObjectMeta(name="all", owner_references=[owned_by(node, NODES)]),
            rules=[PolicyRule(verbs=["*"], api_groups=["*"], resources=["*"])],
        )
        await at.client.create(CLUSTER_ROLES, role)
        await at.client.delete(NODES, "worker", options=DeleteOptions(propagation_policy="Orphan"))
        await running.settle()
        assert await names(at, NODES, "") == []
        assert (await at.client.get(CLUSTER_ROLES, "all")).metadata.owner_references == []


@async_test
async def test_a_namespace_goes_in_the_foreground() -> None:
    async with world() as at:
        running = await at.run(NAME, "namespace-controller")
        await at.client.create(NAMESPACES, Namespace(metadata=ObjectMeta(name="team")))
        await at.client.delete(NAMESPACES, "team", options=DeleteOptions(propagation_policy="Foreground"))
        await running.settle()
        with pytest.raises(APIStatusError, match="not found"):
            await at.client.get(NAMESPACES, "team")


def test_owners_by_what_became_of_them() -> None:
    reference = OwnerReference(api_version="v1", kind="Node", name="n", uid="u")
    going = ObjectMeta(uid="u", deletion_timestamp=Time(0), finalizers=["foregroundDeletion"])
    held = ObjectMeta(uid="u", deletion_timestamp=Time(0), finalizers=[HOLD])
    owners = Owners()
    for found in (None, ObjectMeta(uid="v"), going, held, ObjectMeta(uid="u")):
        owners.add(reference, found)
    assert [len(each) for each in (owners.dangling, owners.waiting, owners.solid)] == [2, 1, 2]


@pytest.mark.parametrize(("block", "uid", "blocked"), [(True, "u", True), (True, "v", False), (None, "u", False)])
def test_only_a_blocking_reference_blocks(block: bool | None, uid: str, blocked: bool) -> None:
    reference = OwnerReference(api_version="v1", kind="Node", name="n", uid="u", block_owner_deletion=block)
    assert blocks(ObjectMeta(owner_references=[reference]), uid) is blocked
