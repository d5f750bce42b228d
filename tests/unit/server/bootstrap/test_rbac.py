"""The shipped policy is made, repaired and left alone, as its annotation says."""

from __future__ import annotations

import msgspec
import pytest

from asynctest import async_test
from kubevouch.api import catalog
from kubevouch.api.rbac_v1 import ClusterRole, PolicyRule
from kubevouch.authorization.policy import cluster_role, cluster_role_binding, user
from kubevouch.client.interface import Client
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import replace_metadata
from kubevouch.server.bootstrap import rbac
from kubevouch.testing import Cluster

READ = PolicyRule(verbs=["get"], api_groups=[""], resources=["secrets"])
WRITE = PolicyRule(verbs=["update"], api_groups=[""], resources=["secrets"])
AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"


def shipped(*rules: PolicyRule) -> ClusterRole:
    made: ClusterRole = replace_metadata(cluster_role("shipped", *rules), annotations={AUTOUPDATE: "true"})
    return made


async def role(client: Client) -> ClusterRole:
    return await client.get(catalog.CLUSTER_ROLES, "shipped")


@async_test
async def test_what_is_missing_is_made_and_made_once() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        binding = cluster_role_binding("shipped", user("jane"))
        # Bindings first in the list: roles are still made before them.
        await rbac.reconcile(client, [binding, shipped(READ)])
        made = await role(client)
        assert made.rules == [READ]
        bound = await client.get(catalog.CLUSTER_ROLE_BINDINGS, "shipped")
        assert [subject.name for subject in bound.subjects] == ["jane"]
        await rbac.reconcile(client, [binding, shipped(READ)])
        assert await role(client) == made
        assert await client.get(catalog.CLUSTER_ROLE_BINDINGS, "shipped") == bound


@async_test
async def test_of_more_than_a_page_of_roles_each_shipped_one_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rbac, "PAGE", 1)
    monkeypatch.setattr(rbac, "ATTEMPTS", 1)
    async with Cluster() as cluster:
        client = cluster.client()
        await client.create(catalog.CLUSTER_ROLES, cluster_role("before-it-in-the-list", READ))
        await client.create(catalog.CLUSTER_ROLES, shipped(WRITE))
        await rbac.reconcile(client, [shipped(READ)])
        assert sorted((rule.verbs or [""])[0] for rule in (await role(client)).rules or []) == ["get", "update"]


@async_test
async def test_missing_rules_come_back_and_additional_ones_stay() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        await client.create(catalog.CLUSTER_ROLES, shipped(WRITE))
        await rbac.reconcile(client, [shipped(READ)])
        assert sorted((rule.verbs or [""])[0] for rule in (await role(client)).rules or []) == ["get", "update"]


@async_test
async def test_who_turned_it_off_is_left_alone() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        await client.create(catalog.CLUSTER_ROLES, replace_metadata(shipped(WRITE), annotations={AUTOUPDATE: "false"}))
        await rbac.reconcile(client, [shipped(READ)])
        assert (await role(client)).rules == [WRITE]


@async_test
async def test_a_binding_to_another_role_is_made_anew() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        wanted = replace_metadata(cluster_role_binding("shipped", user("jane")), annotations={AUTOUPDATE: "true"})
        other = msgspec.structs.replace(wanted.role_ref, name="view")
        stored = await client.create(catalog.CLUSTER_ROLE_BINDINGS, msgspec.structs.replace(wanted, role_ref=other))
        await rbac.reconcile(client, [wanted])
        found = await client.get(catalog.CLUSTER_ROLE_BINDINGS, "shipped")
        assert found.role_ref.name == "shipped"
        assert found.metadata.uid != stored.metadata.uid


@async_test
async def test_who_may_not_write_policy_is_an_error() -> None:
    async with Cluster() as cluster:
        with pytest.raises(APIStatusError) as caught:
            await rbac.reconcile(cluster.client("stranger"), [shipped(READ)])
        assert caught.value.code == 403
