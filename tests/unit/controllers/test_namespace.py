"""controllers/namespace.py: emptying a namespace, and what its status says while that takes long."""

from __future__ import annotations

import pytest

from asynctest import async_test
from controller_world import NOW, World, world
from kubevouch.api.catalog import CONFIG_MAPS, NAMESPACES, SECRETS
from kubevouch.api.core_v1 import ConfigMap, Namespace, Secret
from kubevouch.controllers import namespace
from kubevouch.controllers.namespace import Remains, conditions
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta, replace_metadata
from kubevouch.machinery.text.times import Time


async def _gone(at: World, name: str) -> bool:
    try:
        await at.client.get(NAMESPACES, name)
    except APIStatusError as err:
        return err.code == 404
    return False


@async_test
async def test_content_goes_before_the_namespace() -> None:
    async with world() as at:
        running = await at.run(namespace.NAME)
        await at.client.create(NAMESPACES, Namespace(metadata=ObjectMeta(name="team")))
        await at.client.create(CONFIG_MAPS, ConfigMap(metadata=ObjectMeta(name="c", namespace="team")))
        await at.client.create(SECRETS, Secret(metadata=ObjectMeta(name="s", namespace="team")))
        await at.client.delete(NAMESPACES, "team")
        await running.settle()
        assert await _gone(at, "team")
        assert (await at.client.list(SECRETS, "team")).items == []


@async_test
async def test_a_finalizer_holds_the_namespace_and_its_status_says_so() -> None:
    async with world() as at:
        running = await at.run(namespace.NAME)
        await at.client.create(NAMESPACES, Namespace(metadata=ObjectMeta(name="team")))
        held = ConfigMap(metadata=ObjectMeta(name="c", namespace="team", finalizers=["example.com/hold"]))
        await at.client.create(CONFIG_MAPS, held)
        await at.client.delete(NAMESPACES, "team")
        await running.settle()
        stored = await at.client.get(NAMESPACES, "team")
        told = {condition.type: (condition.status, condition.message) for condition in stored.status.conditions}
        assert told["NamespaceContentRemaining"] == (
            "True", "Some resources are remaining: configmaps. has 1 resource instances",
        )  # fmt: skip
        assert told["NamespaceFinalizersRemaining"] == (
            "True",
            "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances",
        )
        assert told["NamespaceDeletionContentFailure"][0] == "False"
        stuck = await at.client.get(CONFIG_MAPS, "c", "team")
        await at.client.update(CONFIG_MAPS, replace_metadata(stuck, finalizers=[]))
        await at.clock.run(namespace.REMAINING_SECONDS + 0.001)
        await running.settle()
        assert await _gone(at, "team")


@async_test
async def test_a_restart_goes_on_where_the_last_one_was_killed() -> None:
    async with world() as at:
        await at.client.create(NAMESPACES, Namespace(metadata=ObjectMeta(name="team")))
        await at.client.create(CONFIG_MAPS, ConfigMap(metadata=ObjectMeta(name="c", namespace="team")))
        await at.client.delete(NAMESPACES, "team")
        first = at.start(namespace.NAME)
        await first.close()
        assert not await _gone(at, "team")
        await at.run(namespace.NAME)
        assert await _gone(at, "team")


def test_a_condition_keeps_its_time_while_its_status_stays() -> None:
    remains = Remains()
    remains.failures.append("secrets: forbidden")
    first = conditions(remains, Time.of(NOW), [])
    assert first == conditions(remains, Time.of(NOW.replace(hour=13)), first)
    assert [condition.status for condition in first] == ["False", "False", "True", "False", "False"]


@pytest.mark.parametrize("failures", [[], ["x"]])
def test_remains_are_what_is_left_or_what_failed(failures: list[str]) -> None:
    assert bool(Remains(failures=failures)) is bool(failures)
