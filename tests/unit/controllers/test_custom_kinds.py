"""Controllers that work on whatever there is take custom kinds in."""

from __future__ import annotations

import json
from typing import Any

from asynctest import async_test
from custom_world import GROUP, WIDGETS_PATH, ask, definition, put, remove, version, widget
from kubevouch.client.interface import Client
from kubevouch.controllers import garbage_collector, namespace, resource_quota
from kubevouch.testing import Cluster


def _owned_by(owner: Any, **more: Any) -> Any:
    reference = {
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], **more,
    }  # fmt: skip
    return [reference]


async def _made(client: Client, name: str, owners: Any = None, path: str = WIDGETS_PATH) -> Any:
    manifest = widget(name)
    if owners is not None:
        manifest["metadata"]["ownerReferences"] = owners
    answer = await ask(client, "POST", path, manifest)
    assert answer.status == 201, answer.body
    return json.loads(answer.body)


async def _names(client: Client, path: str = WIDGETS_PATH) -> list[str]:
    return [each["metadata"]["name"] for each in json.loads((await ask(client, "GET", path)).body)["items"]]


@async_test
async def test_custom_objects_go_with_their_owners_and_let_built_in_ones_go() -> None:
    async with Cluster(controllers=(garbage_collector.NAME,)) as cluster:
        client = cluster.client()
        await put(cluster.server, definition())
        owner = await _made(client, "owner")
        await _made(client, "owned", _owned_by(owner))
        config = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "c", "ownerReferences": _owned_by(owner)},
        }
        config_maps = "/api/v1/namespaces/default/configmaps"
        assert (await ask(client, "POST", config_maps, config)).status == 201
        await cluster.settle_async()
        assert await _names(client) == ["owned", "owner"]
        await ask(client, "DELETE", f"{WIDGETS_PATH}/owner")
        await cluster.settle_async()
        assert await _names(client) == []
        assert "c" not in await _names(client, config_maps)


@async_test
async def test_an_object_keeps_the_owner_that_is_left() -> None:
    async with Cluster(controllers=(garbage_collector.NAME,)) as cluster:
        client = cluster.client()
        await put(cluster.server, definition(version(), version("v2", storage=False)))
        first, second = await _made(client, "first"), await _made(client, "second")
        second["apiVersion"] = f"{GROUP}/v2"
        await _made(client, "owned", [*_owned_by(first), *_owned_by(second)])
        await cluster.settle_async()
        await ask(client, "DELETE", f"{WIDGETS_PATH}/first")
        await cluster.settle_async()
        owned = json.loads((await ask(client, "GET", f"{WIDGETS_PATH}/owned")).body)
        assert [each["name"] for each in owned["metadata"]["ownerReferences"]] == ["second"]


@async_test
async def test_an_owner_waits_for_custom_objects_and_a_kind_that_goes_is_forgotten() -> None:
    async with Cluster(controllers=(garbage_collector.NAME,)) as cluster:
        client = cluster.client()
        await put(cluster.server, definition())
        owner = await _made(client, "owner")
        await _made(client, "owned", _owned_by(owner, blockOwnerDeletion=True))
        await cluster.settle_async()
        await ask(client, "DELETE", f"{WIDGETS_PATH}/owner", {"propagationPolicy": "Foreground"})
        await cluster.settle_async()
        assert await _names(client) == []
        await remove(cluster.server, f"widgets.{GROUP}")
        await cluster.settle_async()


@async_test
async def test_a_namespace_takes_custom_objects_with_it() -> None:
    async with Cluster(controllers=(namespace.NAME,)) as cluster:
        client = cluster.client()
        await put(cluster.server, definition())
        await ask(
            client, "POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}
        )
        path = WIDGETS_PATH.replace("default", "n")
        await _made(client, "w", path=path)
        await cluster.settle_async()
        await ask(client, "DELETE", "/api/v1/namespaces/n")
        await cluster.settle_async()
        assert (await ask(client, "GET", "/api/v1/namespaces/n")).status == 404
        assert await _names(client, path) == []


@async_test
async def test_a_quota_counts_and_bounds_custom_objects() -> None:
    async with Cluster(controllers=(resource_quota.NAME,)) as cluster:
        client = cluster.client()
        await put(cluster.server, definition())
        quotas = "/api/v1/namespaces/default/resourcequotas"
        quota = {
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
            "spec": {"hard": {f"count/widgets.{GROUP}": "1"}},
        }  # fmt: skip
        await _made(client, "w")
        await ask(client, "POST", quotas, quota)
        refused = await ask(client, "POST", WIDGETS_PATH, widget("x"))
        assert refused.status == 403
        assert "exceeded quota: q" in json.loads(refused.body)["message"]
        await cluster.settle_async()
        seen = json.loads((await ask(client, "GET", f"{quotas}/q")).body)
        assert seen["status"]["used"] == {f"count/widgets.{GROUP}": "1"}
