"""admission/resource_quota.py and controllers/resource_quota.py: so many objects of a kind, and no more."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from kubevouch.admission.interface import Operation, Request
from kubevouch.admission.resource_quota import ResourceQuotaPlugin
from kubevouch.api.catalog import CONFIG_MAPS, RESOURCE_QUOTAS
from kubevouch.api.coordination_v1 import Lease
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.api.core_v1.quotas import ResourceQuota, ResourceQuotaSpec
from kubevouch.authentication.interface import UserInfo
from kubevouch.client.interface import WriteOptions
from kubevouch.machinery.declaration import Quantity
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.testing import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(controllers=("resourcequota", "namespace")) as cluster:
        yield cluster


def namespace(cluster: Cluster, name: str, **hard: str) -> None:
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": name}}
    cluster.create({**quota, "spec": {"hard": {key.replace("__", "/"): value for key, value in hard.items()}}})


def config_map(name: str, where: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=where))


def used(cluster: Cluster, where: str) -> dict[str, str]:
    cluster.settle()
    cluster.clock.advance(5)
    cluster.settle()
    status = cluster.get(RESOURCE_QUOTAS, "q", where).status
    return {name: amount.text for name, amount in status.used.items()}


def test_one_too_many_is_refused_and_room_comes_back(cluster: Cluster) -> None:
    namespace(cluster, "one", configmaps="2", secrets="0", cpu="4", **{"count__leases.coordination.k8s.io": "1"})
    assert used(cluster, "one") == {
        "configmaps": "0", "secrets": "0", "cpu": "0", "count/leases.coordination.k8s.io": "0",
    }  # fmt: skip
    for name in "ab":
        cluster.create(config_map(name, "one"))
    with pytest.raises(APIStatusError) as caught:
        cluster.create(config_map("c", "one"))
    assert caught.value.code == 403
    assert str(caught.value) == (
        'configmaps "c" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=2, '
        "limited: configmaps=2"
    )
    assert used(cluster, "one")["configmaps"] == "2"
    cluster.delete(CONFIG_MAPS, "a", "one")
    cluster.create(config_map("c", "one"))
    meta = ObjectMeta(name="x", namespace="one")
    cluster.create(Lease(metadata=meta))
    with pytest.raises(APIStatusError, match=r"count/leases.coordination.k8s.io=1"):
        cluster.create(Lease(metadata=replace(meta, name="y")))
    with pytest.raises(APIStatusError, match="exceeded quota: q, requested: secrets=1"):
        cluster.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "one"}})


def test_of_many_at_once_only_so_many_get_in(cluster: Cluster) -> None:
    namespace(cluster, "many", configmaps="3")
    client = cluster.client()

    async def create(number: int) -> int:
        try:
            await cluster.server.client.create(CONFIG_MAPS, config_map(f"c{number}", "many"))
        except APIStatusError as err:
            return err.code
        return 201

    async def all_at_once() -> list[int]:
        return await asyncio.gather(*map(create, range(20)))

    answers = cluster.run(all_at_once())
    assert sorted(answers) == [201] * 3 + [403] * 17
    assert len(cluster.run(client.list(CONFIG_MAPS, "many")).items) == 3


def test_room_is_there_as_soon_as_a_creation_has_failed_or_its_object_is_deleted(cluster: Cluster) -> None:
    """The clock stands still: nobody has to wait until a note of what is not there has grown old."""
    namespace(cluster, "room", configmaps="1")
    for number in range(5):
        meta = ObjectMeta(name=f"failed{number}", namespace="room", resource_version="7")
        with pytest.raises(APIStatusError, match="resourceVersion should not be set"):
            cluster.create(ConfigMap(metadata=meta))
    for number in range(5):
        cluster.create(config_map(f"c{number}", "room"))
        cluster.delete(CONFIG_MAPS, f"c{number}", "room")


def test_of_many_for_one_name_one_counts(cluster: Cluster) -> None:
    namespace(cluster, "same", configmaps="2")

    async def create(name: str) -> int:
        try:
            await cluster.server.client.create(CONFIG_MAPS, config_map(name, "same"))
        except APIStatusError as err:
            return err.code
        return 201

    async def all_at_once() -> list[int]:
        return await asyncio.gather(*map(create, ["a"] * 5))

    assert sorted(cluster.run(all_at_once())) == [201] + [409] * 4
    cluster.create(config_map("b", "same"))


def test_no_note_outlives_its_request() -> None:
    """One for each namespace that there ever was would be memory that a client chooses."""
    quota = ResourceQuota(spec=ResourceQuotaSpec(hard={"configmaps": Quantity("1")}))

    async def refresh() -> None: ...

    plugin = ResourceQuotaPlugin(lambda _: [quota], lambda *_: (0, set[str]().__contains__), refresh)

    async def scenario() -> None:
        for number in range(100):
            asked = Request(
                user=UserInfo("alice"),
                operation=Operation.CREATE,
                resource=CONFIG_MAPS.group_resource,
                kind=CONFIG_MAPS.gvk,
                subresource="",
                namespace=f"n{number}",
                name="c",
                obj=None,
                old=None,
            )
            await plugin.validate(asked)
            with pytest.raises(APIStatusError, match="used: configmaps=1"):
                await plugin.validate(replace(asked, name="d", at_end=[]))
            for end in asked.at_end:
                end()
            assert plugin._under_way == {}

    asyncio.run(scenario())


def test_a_dry_run_is_refused_too_and_takes_no_room(cluster: Cluster) -> None:
    namespace(cluster, "dry", configmaps="1")
    dry = WriteOptions(dry_run=True)
    for _ in range(3):
        cluster.run(cluster.client().create(CONFIG_MAPS, config_map("a", "dry"), dry))
    cluster.create(config_map("a", "dry"))
    with pytest.raises(APIStatusError, match="exceeded quota"):
        cluster.run(cluster.client().create(CONFIG_MAPS, config_map("b", "dry"), dry))


def test_another_namespace_is_not_limited(cluster: Cluster) -> None:
    namespace(cluster, "limited", configmaps="0")
    cluster.create(config_map("free", "default"))
    cluster.run(cluster.client().delete(CONFIG_MAPS, "free", "default"))


@pytest.mark.parametrize(
    ("hard", "fault"),
    [
        ({"configmaps": "-1"}, 'spec.hard[configmaps]: Invalid value: "-1": must be greater than or equal to 0'),
        ({"secrets": "1500m"}, 'spec.hard[secrets]: Invalid value: "1500m": must be an integer'),
        ({"not a name": "1"}, "spec.hard[not a name]: Invalid value"),
    ],
)
def test_what_is_no_quota(cluster: Cluster, hard: dict[str, str], fault: str) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "bad", "namespace": "default"}}
    with pytest.raises(APIStatusError) as caught:
        cluster.create({**quota, "spec": {"hard": hard}})
    assert caught.value.code == 422 and fault in str(caught.value)


def test_a_limit_range_gets_its_defaults(cluster: Cluster) -> None:
    limits = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "default"}}
    item = {"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}, "default": {"memory": "8Mi"}}
    made = cluster.create({**limits, "spec": {"limits": [item]}}).spec.limits[0]
    assert {key: each.text for key, each in made.default.items()} == {"cpu": "2", "memory": "8Mi"}
    assert {key: each.text for key, each in made.default_request.items()} == {"cpu": "2", "memory": "8Mi"}
    limits["metadata"] = {"name": "bad", "namespace": "default"}
    bad = {"type": "Pod", "min": {"cpu": "3"}, "max": {"cpu": "2"}}
    with pytest.raises(APIStatusError, match="min value 3 is greater than max value 2"):
        cluster.create({**limits, "spec": {"limits": [bad]}})


def test_a_runtime_class_is_kept_and_its_handler_stays(cluster: Cluster) -> None:
    kind = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "kata"}}
    cluster.create({**kind, "handler": "kata"})
    with pytest.raises(APIStatusError, match='handler: Invalid value: "other": field is immutable'):
        cluster.apply({**kind, "handler": "other"})
    with pytest.raises(APIStatusError, match='handler: Invalid value: "Not A Label"'):
        cluster.create({**kind, "metadata": {"name": "bad"}, "handler": "Not A Label"})
