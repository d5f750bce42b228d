from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from asynctest import async_test
from kubevouch.api.catalog import CLUSTER_ROLES, CONFIG_MAPS
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.client.discovery import discover
from kubevouch.client.interface import APPLY_PATCH, Client, WriteOptions
from kubevouch.machinery.custom_object import CustomObject
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.standalone.attached import installation
from kubevouch.standalone.attached.installation import Action, Step, carry_out, is_ours, plan_of, state_of
from kubevouch.standalone.attached.manifest_parts import LABELS, Settings, labelled, trees
from kubevouch.testing.cluster import Cluster
from kubevouch.util.clock import SystemClock


async def planned(client: Client, wanted: Sequence[dict[str, Any]], *, force: bool = False) -> tuple[Step, ...]:
    return await plan_of(client, await discover(client), wanted, ("controllers",), force=force)


def role(name: str, verb: str = "get") -> dict[str, Any]:
    rules = [{"apiGroups": [""], "resources": ["nodes"], "verbs": [verb]}]
    tree = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": rules,
    }
    return labelled(tree, "controllers")


def told(plan: Sequence[Step]) -> dict[str, Action]:
    return {each.name: each.action for each in plan}


@async_test
async def test_a_plan_changes_nothing_and_what_is_carried_out_is_planned_no_more() -> None:
    async with Cluster(real_time=True) as cluster:
        client, done = cluster.client(), list[str]()
        first = await planned(client, [role("kubevouch:a"), role("kubevouch:b")])
        assert told(first) == {"kubevouch:a": Action.CREATE, "kubevouch:b": Action.CREATE}
        assert told(await planned(client, [role("kubevouch:a")])) == {"kubevouch:a": Action.CREATE}
        await carry_out(client, first, SystemClock(), lambda each: done.append(each.name))
        assert done == ["kubevouch:a", "kubevouch:b"]
        second = await planned(client, [role("kubevouch:a"), role("kubevouch:b", "list")])
        assert told(second) == {"kubevouch:a": Action.UNCHANGED, "kubevouch:b": Action.CHANGE}


@async_test
async def test_what_a_part_has_no_more_is_removed_and_what_is_not_ours_stays() -> None:
    async with Cluster(real_time=True) as cluster:
        client = cluster.client()
        foreign = ConfigMap(metadata=ObjectMeta(name="other", namespace="default", labels=dict(LABELS)))
        await client.create(CONFIG_MAPS, foreign)
        other_part = {**role("kubevouch:c"), "metadata": labelled(role("kubevouch:c"), "attestation")["metadata"]}
        for tree in (role("kubevouch:a"), role("kubevouch:b"), other_part):
            options = WriteOptions(field_manager=installation.FIELD_MANAGER)
            await client.patch(CLUSTER_ROLES, tree["metadata"]["name"], tree, APPLY_PATCH, "", options)
        plan = await planned(client, [role("kubevouch:a")])
        assert told(plan) == {"kubevouch:a": Action.UNCHANGED, "kubevouch:b": Action.REMOVE}
        await carry_out(client, plan, SystemClock(), lambda _each: None)
        assert told(await planned(client, [role("kubevouch:a")])) == {"kubevouch:a": Action.UNCHANGED}
        await client.get(CONFIG_MAPS, "other", "default")
        await client.get(CLUSTER_ROLES, "kubevouch:c")


@async_test
async def test_a_field_of_somebody_else_is_a_conflict_unless_it_is_forced() -> None:
    async with Cluster(real_time=True) as cluster:
        client = cluster.client()
        theirs = role("kubevouch:a", "watch")
        await client.patch(CLUSTER_ROLES, "kubevouch:a", theirs, APPLY_PATCH, "", WriteOptions(field_manager="others"))
        (step,) = await planned(client, [role("kubevouch:a")])
        assert step.action is Action.CONFLICT
        assert 'conflict with "others"' in step.note
        assert not step.is_work
        forced = await planned(client, [role("kubevouch:a")], force=True)
        assert told(forced) == {"kubevouch:a": Action.CHANGE}
        await carry_out(client, forced, SystemClock(), lambda _each: None, force=True)
        assert [each.verbs for each in (await client.get(CLUSTER_ROLES, "kubevouch:a")).rules or ()] == [["get"]]


@async_test
async def test_definitions_are_applied_before_what_follows_and_unserved_kinds_are_told() -> None:
    async with Cluster(real_time=True) as cluster:
        client = cluster.client()
        wanted = trees(("crds", "controllers"), Settings())
        plan = await planned(client, wanted)
        # A server without Deployments.
        unserved = {each.resource.kind for each in plan if each.action is Action.NOT_SERVED}
        assert "Deployment" in unserved
        kinds = list(dict.fromkeys(each.resource.kind for each in plan))
        assert kinds[:3] == ["Namespace", "CustomResourceDefinition", "ServiceAccount"]
        assert kinds[-1] == "Deployment"
        await carry_out(client, plan, SystemClock(), lambda _each: None)
        again = await planned(client, wanted)
        assert {each.action for each in again} == {Action.UNCHANGED, Action.NOT_SERVED}


@async_test
async def test_waiting_ends() -> None:
    async def never() -> bool:
        return False

    assert not await asyncio.wait_for(installation.until(never, SystemClock(), 0.0), 60)


@pytest.mark.parametrize(
    ("name", "labels", "ours"),
    [
        ("kubevouch-controllers", LABELS, True),
        ("writers.kubevouch.io", LABELS, True),
        ("other", LABELS, False),
        ("kubevouch-controllers", {}, False),
        ("kubevouch-controllers", {"app.kubernetes.io/managed-by": "kubevouch"}, False),
    ],
)
def test_what_is_ours(name: str, labels: dict[str, str], ours: bool) -> None:
    assert is_ours(CustomObject(metadata=ObjectMeta(name=name, labels=dict(labels)))) is ours


def deployment(**status: Any) -> CustomObject:
    meta = ObjectMeta(name="d", namespace="n", generation=3)
    return CustomObject(metadata=meta, content={"spec": {"replicas": 2}, "status": status})


@pytest.mark.parametrize(
    ("status", "ready"),
    [
        ({"observedGeneration": 3, "availableReplicas": 2, "updatedReplicas": 2}, 2),
        ({"observedGeneration": 3, "availableReplicas": 2, "updatedReplicas": 1}, 1),
        # What is told of the pods before this change.
        ({"observedGeneration": 2, "availableReplicas": 2, "updatedReplicas": 2}, 0),
        ({}, 0),
    ],
)
def test_how_many_pods_are_ready(status: dict[str, Any], ready: int) -> None:
    found = state_of(deployment(**status), ())
    assert (found.wanted, found.ready, found.is_ready) == (2, ready, ready == 2)


def test_why_pods_are_not_ready() -> None:
    failed = {"type": "ReplicaFailure", "message": "exceeded quota"}
    pods = [
        {"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}]},
        {"containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}]},
        {"containerStatuses": [{"state": {"running": {}}}]},
    ]
    trees_ = [replace(CustomObject(), content={"status": each}) for each in pods]
    assert state_of(deployment(conditions=[failed]), trees_).why == (
        "exceeded quota", "0/1 nodes are available", "ImagePullBackOff: no such image",
    )  # fmt: skip
