"""controllers/clusterrole_aggregation.py"""

from __future__ import annotations

from asynctest import async_test
from controller_world import world
from kubevouch.api.catalog import CLUSTER_ROLES
from kubevouch.api.rbac_v1 import AggregationRule, ClusterRole, PolicyRule
from kubevouch.controllers import clusterrole_aggregation
from kubevouch.machinery.meta import LabelSelector, ObjectMeta


def part(name: str, resource: str) -> ClusterRole:
    rule = PolicyRule(verbs=["get"], api_groups=["example.com"], resources=[resource])
    return ClusterRole(metadata=ObjectMeta(name=name, labels={"part-of": "whole"}), rules=[rule])


@async_test
async def test_a_role_follows_its_parts() -> None:
    async with world() as at:
        running = await at.run(clusterrole_aggregation.NAME)
        rule = AggregationRule(cluster_role_selectors=[LabelSelector(match_labels={"part-of": "whole"})])
        whole = ClusterRole(metadata=ObjectMeta(name="whole"), aggregation_rule=rule, rules=[])
        for role in (whole, part("b", "bs"), part("a", "as")):
            await at.client.create(CLUSTER_ROLES, role)
        await running.settle()
        stored = await at.client.get(CLUSTER_ROLES, "whole")
        assert [rule.resources for rule in stored.rules or []] == [["as"], ["bs"]]
        await at.client.delete(CLUSTER_ROLES, "a")
        await running.settle()
        stored = await at.client.get(CLUSTER_ROLES, "whole")
        assert [rule.resources for rule in stored.rules or []] == [["bs"]]


@async_test
async def test_shipped_roles_are_filled_and_then_left_alone() -> None:
    async with world() as at:
        running = await at.run(clusterrole_aggregation.NAME)
        assert (await at.client.get(CLUSTER_ROLES, "admin")).rules
        at.calls.clear()
        await at.client.create(CLUSTER_ROLES, ClusterRole(metadata=ObjectMeta(name="other"), rules=[]))
        await running.settle()
        assert at.calls == []
