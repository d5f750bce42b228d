"""Discovery follows definitions as they come, change and go."""

from __future__ import annotations

import json
from typing import Any

from asynctest import async_test
from custom_world import GROUP, ask, definition, put, remove, version
from kubevouch.api.apidiscovery_v2 import APIGroupDiscoveryList
from kubevouch.client.interface import Client
from kubevouch.machinery.codec import json_codec, protobuf
from kubevouch.server.discovery import AGGREGATED_PROTOBUF_TYPE, AGGREGATED_TYPE
from kubevouch.testing import Cluster

VERBS = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
SCALE = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}


def named(group: str, *versions: str, plural: str = "widgets") -> Any:
    """A definition in a group of its own; its last version is stored."""
    tree = definition(*(version(name, storage=name == versions[-1]) for name in versions), plural=plural)
    tree["spec"]["group"] = group
    return {**tree, "metadata": {"name": f"{plural}.{group}"}}


async def tree(client: Client, path: str) -> Any:
    return json.loads((await ask(client, "GET", path)).body)


async def aggregated(client: Client, accept: str = AGGREGATED_TYPE, **headers: str) -> tuple[int, bytes, str]:
    answer = await client.raw("GET", "/apis", None, {"Accept": accept} | headers)
    return answer.status, answer.body, answer.headers["ETag"]


@async_test
async def test_a_kind_and_its_subresources() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        manifest = definition(version(subresources={"status": {}, "scale": SCALE}), version("v0", storage=False))
        manifest["spec"]["names"] |= {"shortNames": ["w"], "categories": ["all", "demo"], "singular": "wdg"}
        await put(cluster.server, manifest)
        shown = await tree(client, f"/apis/{GROUP}/v1")
        main, status, scale = shown["resources"]
        assert main == {
            "name": "widgets", "singularName": "wdg", "namespaced": True, "kind": "Widget", "verbs": VERBS,
            "shortNames": ["w"], "categories": ["all", "demo"], "storageVersionHash": main["storageVersionHash"],
        }  # fmt: skip
        common = {"singularName": "", "namespaced": True, "verbs": ["get", "patch", "update"]}
        assert status == {"name": "widgets/status", "kind": "Widget", **common}
        assert scale == {
            "name": "widgets/scale", "group": "autoscaling", "version": "v1", "kind": "Scale", **common,
        }  # fmt: skip
        _, body, _ = await aggregated(client)
        group = next(each for each in json.loads(body)["items"] if each["metadata"]["name"] == GROUP)
        first, second = group["versions"]
        assert (first["version"], first["freshness"], second["version"]) == ("v1", "Current", "v0")
        assert first["resources"] == [{
            "resource": "widgets", "responseKind": {"group": "", "version": "", "kind": "Widget"},
            "scope": "Namespaced", "singularResource": "wdg", "verbs": VERBS, "shortNames": ["w"],
            "categories": ["all", "demo"],
            "subresources": [
                {"subresource": "status", "responseKind": {"group": "", "version": "", "kind": "Widget"},
                 "verbs": ["get", "patch", "update"]},
                {"subresource": "scale", "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                 "verbs": ["get", "patch", "update"]},
            ],
        }]  # fmt: skip


@async_test
async def test_a_stored_version_that_is_not_served_has_no_hash() -> None:
    async with Cluster() as cluster:
        await put(cluster.server, definition(version(served=False), version("v2", storage=False)))
        (main,) = (await tree(cluster.client(), f"/apis/{GROUP}/v2"))["resources"]
        assert "storageVersionHash" not in main
        assert (await ask(cluster.client(), "GET", f"/apis/{GROUP}/v1")).body == b"404 page not found\n"


@async_test
async def test_a_kind_on_its_way_out_is_only_read_and_deleted() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        manifest = definition()
        await put(cluster.server, manifest)
        _, _, before = await aggregated(client)
        manifest["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a.example.com/b"]}
        await put(cluster.server, manifest)
        (main,) = (await tree(client, f"/apis/{GROUP}/v1"))["resources"]
        assert main["verbs"] == ["delete", "deletecollection", "get", "list", "watch"]
        _, body, etag = await aggregated(client)
        assert json.loads(body)["items"][-1]["versions"][0]["resources"][0]["verbs"] == main["verbs"]
        assert etag != before


@async_test
async def test_versions_are_in_order_of_preference_and_groups_of_their_names() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        versions = ("v1beta1", "v2", "v10", "v2alpha3", "foo", "v1", "v1beta2", "bar")
        await put(cluster.server, named("a.example.com", "v3"))
        await put(cluster.server, named("b.example.com", *versions))
        # Its first label is that of a group of Kubernetes.
        await put(cluster.server, named("apps.example.com", "v3"))
        group = await tree(client, "/apis/b.example.com")
        in_order = ["v10", "v2", "v1", "v1beta2", "v1beta1", "v2alpha3", "bar", "foo"]
        assert [each["version"] for each in group["versions"]] == in_order
        assert group["preferredVersion"] == {"groupVersion": "b.example.com/v10", "version": "v10"}
        listed = [each["name"] for each in (await tree(client, "/apis"))["groups"]]
        # By the names of their APIServices: bar.b.example.com, v3.a.example.com, v3.apps.example.com.
        assert listed[-3:] == ["b.example.com", "a.example.com", "apps.example.com"]
        items = json.loads((await aggregated(client))[1])["items"]
        assert [each["metadata"]["name"] for each in items[-3:]] == [
            "a.example.com", "apps.example.com", "b.example.com",
        ]  # fmt: skip
        assert [each["version"] for each in items[-1]["versions"]] == in_order


@async_test
async def test_a_group_goes_with_its_last_definition() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        _, empty, before = await aggregated(client)
        await put(cluster.server, definition())
        await put(cluster.server, definition(version("v2"), plural="gadgets", kind="Gadget"))
        assert [each["version"] for each in (await tree(client, f"/apis/{GROUP}"))["versions"]] == ["v2", "v1"]
        await remove(cluster.server, f"widgets.{GROUP}")
        assert [each["version"] for each in (await tree(client, f"/apis/{GROUP}"))["versions"]] == ["v2"]
        assert (await ask(client, "GET", f"/apis/{GROUP}/v1")).body == b"404 page not found\n"
        await remove(cluster.server, f"gadgets.{GROUP}")
        gone = await ask(client, "GET", f"/apis/{GROUP}")
        assert (gone.status, gone.body) == (404, b"404 page not found\n")
        assert GROUP not in [each["name"] for each in (await tree(client, "/apis"))["groups"]]
        assert await aggregated(client) == (200, empty, before)


@async_test
async def test_the_tag_says_whether_anything_has_changed() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        for accept in (AGGREGATED_TYPE, AGGREGATED_PROTOBUF_TYPE):
            await put(cluster.server, definition())
            _, body, etag = await aggregated(client, accept)
            unchanged, _, _ = await aggregated(client, accept, **{"If-None-Match": etag})
            assert unchanged == 304
            await put(cluster.server, definition(version(), version("v2", storage=False)))
            status, newer, another = await aggregated(client, accept, **{"If-None-Match": etag})
            assert (status, another != etag, newer != body) == (200, True, True)


@async_test
async def test_both_forms_of_the_document_say_the_same() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        await put(cluster.server, definition())
        _, text, etag = await aggregated(client)
        _, sealed, same_etag = await aggregated(client, AGGREGATED_PROTOBUF_TYPE)
        unsealed = protobuf.codec_for(APIGroupDiscoveryList).decode(protobuf.unseal(sealed).raw)
        assert (unsealed.items, etag) == (json_codec.decode(text, APIGroupDiscoveryList).items, same_etag)
