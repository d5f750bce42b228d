"""Kinds that come, change and go while the server runs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from asynctest import async_test
from custom_world import GROUP, SCHEMA, WIDGETS, WIDGETS_PATH, ask, definition, put, remove, version, widget
from kubevouch.client.interface import EventType
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.testing import Cluster

MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


def _tree(answer: Any) -> Any:
    return json.loads(answer.body)


@async_test
async def test_an_object_lives_a_whole_life() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        await put(cluster.server, definition(version(subresources={"status": {}})))
        made = await ask(client, "POST", WIDGETS_PATH, widget(spec={"color": "red", "shade": 1}, status={"size": 9}))
        assert made.status == 201
        assert made.headers["warning"] == '299 - "unknown field \\"spec.shade\\""'
        tree = _tree(made)
        assert (tree["spec"], tree["metadata"]["generation"]) == ({"color": "red", "size": 3}, 1)
        assert "status" not in tree
        listed = _tree(await ask(client, "GET", WIDGETS_PATH))
        assert (listed["kind"], listed["apiVersion"]) == ("WidgetList", f"{GROUP}/v1")
        assert listed["items"] == [tree]
        path = f"{WIDGETS_PATH}/w"
        changed = _tree(await ask(client, "PATCH", path, {"spec": {"size": 4}, "status": {"size": 4}}, MERGE_PATCH))
        assert (changed["spec"]["size"], changed["metadata"]["generation"], changed.get("status")) == (4, 2, None)
        status = {"spec": {"size": 5}, "status": {"size": 5}}
        changed = _tree(await ask(client, "PATCH", f"{path}/status", status, MERGE_PATCH))
        assert (changed["spec"]["size"], changed["metadata"]["generation"], changed["status"]) == (4, 2, {"size": 5})
        assert [each.get("subresource") for each in changed["metadata"]["managedFields"]] == [None, "status"]
        gone = _tree(await ask(client, "DELETE", path))
        assert gone["details"] == {
            "name": "w", "group": GROUP, "kind": "widgets", "uid": tree["metadata"]["uid"],
        }  # fmt: skip
        assert (await ask(client, "GET", path)).status == 404


@async_test
async def test_requests_that_find_no_kind_fall_through_to_plain_text() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        assert (await ask(client, "GET", WIDGETS_PATH)).body == b"404 page not found\n"
        await put(cluster.server, definition())
        assert (await ask(client, "GET", WIDGETS_PATH)).status == 200
        assert (await ask(client, "GET", f"/apis/{GROUP}/v1/widgets")).status == 200
        for method, path in (
            ("GET", f"/apis/{GROUP}/v1/gadgets"),
            ("GET", f"/apis/{GROUP}/v2/widgets"),
            ("GET", f"/apis/{GROUP}/v1/widgets/w"),
            ("POST", f"/apis/{GROUP}/v1/widgets"),
        ):
            assert (await ask(client, method, path)).body == b"404 page not found\n", (method, path)
        await remove(cluster.server, f"widgets.{GROUP}")
        assert (await ask(client, "GET", WIDGETS_PATH)).body == b"404 page not found\n"


@async_test
async def test_verbs_and_subresources_that_there_are_not_have_words_of_their_own() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        await put(cluster.server, definition(version(subresources={"status": {}})))
        await ask(client, "POST", WIDGETS_PATH, widget())
        path = f"{WIDGETS_PATH}/w"
        for method, where, code, message in (
            ("GET", f"{path}/scale", 404, f'widgets.{GROUP} "w" not found'),
            ("DELETE", f"{path}/status", 405, f'delete is not supported on resources of kind "widgets.{GROUP}"'),
            ("PUT", WIDGETS_PATH, 400, "name must be provided"),
        ):
            answer = await ask(client, method, where, widget())
            assert (answer.status, _tree(answer)["message"]) == (code, message)
        strategic = await ask(client, "PATCH", path, {}, "application/strategic-merge-patch+json")
        assert strategic.status == 415
        assert _tree(strategic)["message"].endswith(
            "include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
        )


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (
            {"apiVersion": f"{GROUP}/v1"},
            400,
            (
                "the object provided is unrecognized (must be of type Widget): Object 'Kind' is missing in "
                f'\'{{"apiVersion": "{GROUP}/v1"}}\' ({{"apiVersion": "demo.example.c ...)'
            ),
        ),
        (
            {"apiVersion": f"{GROUP}/v2", "kind": "Widget"},
            400,
            f"the API version in the data ({GROUP}/v2) does not match the expected API version ({GROUP}/v1)",
        ),
        (
            {"apiVersion": f"{GROUP}/v1", "kind": "Gadget", "metadata": {"name": "w"}},
            422,
            f'Gadget.{GROUP} "w" is invalid: kind: Invalid value: "Gadget": must be Widget',
        ),
        (
            {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"labels": {"a": 1}}},
            400,
            (
                'Widget in version "v1" cannot be handled as a Widget: json: cannot unmarshal number into Go struct '
                "field ObjectMeta.labels of type string"
            ),
        ),
    ],
)
@async_test
async def test_a_body_of_another_kind_is_refused(body: Any, code: int, message: str) -> None:
    async with Cluster() as cluster:
        await put(cluster.server, definition())
        answer = await ask(cluster.client(), "POST", WIDGETS_PATH, body)
        assert (answer.status, _tree(answer)["message"]) == (code, message)


@async_test
async def test_a_watch_ends_when_the_definition_changes_and_objects_stay() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        await put(cluster.server, definition())
        await ask(client, "POST", WIDGETS_PATH, widget(spec={"color": "red"}))
        events = client.watch(WIDGETS, "default")
        assert (await anext(events)).type is EventType.ADDED
        without_color = json.loads(json.dumps(SCHEMA))
        del without_color["properties"]["spec"]["properties"]["color"]
        await put(cluster.server, definition(version(schema=without_color)))
        assert {event.type async for event in events} <= {EventType.BOOKMARK}
        assert _tree(await ask(client, "GET", f"{WIDGETS_PATH}/w"))["spec"] == {"size": 3}
        await put(cluster.server, definition())
        assert _tree(await ask(client, "GET", f"{WIDGETS_PATH}/w"))["spec"] == {"color": "red", "size": 3}


@async_test
async def test_versions_show_the_same_object_each_by_its_schema() -> None:
    v2 = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"shade": {"default": "dark"}}}}}
    v2["properties"]["spec"]["properties"]["shade"]["type"] = "string"  # type: ignore[index]
    v2["properties"]["spec"]["properties"]["size"] = {"type": "integer"}  # type: ignore[index]
    async with Cluster() as cluster:
        client = cluster.client()
        await put(cluster.server, definition(version(), version("v2", v2, storage=False)))
        await ask(client, "POST", WIDGETS_PATH, widget())
        path = f"/apis/{GROUP}/v2/namespaces/default/widgets"
        seen = _tree(await ask(client, "GET", f"{path}/w"))
        assert (seen["apiVersion"], seen["spec"]) == (f"{GROUP}/v2", {"shade": "dark", "size": 3})
        assert seen["metadata"]["managedFields"][0]["apiVersion"] == f"{GROUP}/v1"
        assert _tree(await ask(client, "GET", path))["items"] == [seen]
        seen["spec"]["size"] = 7
        assert _tree(await ask(client, "PUT", f"{path}/w", seen))["spec"] == {"shade": "dark", "size": 7}
        # Stored in v1, which knows no shade; v2 knew no color.
        assert _tree(await ask(client, "GET", f"{WIDGETS_PATH}/w"))["spec"] == {"size": 7}


@async_test
async def test_a_client_in_this_process_names_a_custom_kind() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        await put(cluster.server, definition())
        obj = WIDGETS.type(metadata=ObjectMeta(name="w", namespace="default"), content={"spec": {"color": "red"}})
        made = await client.create(WIDGETS, obj)
        assert made.content == {"spec": {"color": "red", "size": 3}}
        assert (await client.list(WIDGETS)).items == [made]
        await client.delete(WIDGETS, "w", "default")
        with pytest.raises(APIStatusError, match="not found"):
            await client.get(WIDGETS, "w", "default")


@async_test
async def test_a_kind_is_usable_on_every_connection_when_its_definition_is_seen() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        for number in range(5):
            plural = f"widgets{number}"
            path = f"/apis/{GROUP}/v1/namespaces/default/{plural}"
            await put(cluster.server, definition(plural=plural, kind=f"Widget{number}"))
            bodies = [widget(f"w{each}") | {"kind": f"Widget{number}"} for each in range(5)]
            answers = await asyncio.gather(*(ask(client, "POST", path, body) for body in bodies))
            assert [answer.status for answer in answers] == [201] * 5


SCALE = {"scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}, "status": {}}


@async_test
async def test_scale_shows_and_sets_one_number() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        paths = {**SCALE["scale"], "labelSelectorPath": ".status.selector"}
        await put(cluster.server, definition(version(subresources={**SCALE, "scale": paths})))
        made = _tree(await ask(client, "POST", WIDGETS_PATH, widget()))
        path = f"{WIDGETS_PATH}/w"
        await ask(client, "PATCH", f"{path}/status", {"status": {"size": 2, "selector": "app=x"}}, MERGE_PATCH)
        scale = _tree(await ask(client, "GET", f"{path}/scale"))
        assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
        assert (scale["spec"], scale["status"]) == ({"replicas": 3}, {"replicas": 2, "selector": "app=x"})
        assert sorted(scale["metadata"]) == ["creationTimestamp", "name", "namespace", "resourceVersion", "uid"]
        scale["spec"]["replicas"] = 5
        scale["status"]["replicas"] = 9
        answer = _tree(await ask(client, "PUT", f"{path}/scale", scale))
        assert (answer["spec"], answer["status"]["replicas"]) == ({"replicas": 5}, 2)
        seen = _tree(await ask(client, "GET", path))
        assert (seen["spec"]["size"], seen["metadata"]["generation"], seen["metadata"]["uid"]) == (
            5, 2, made["metadata"]["uid"],
        )  # fmt: skip
        (entry,) = [each for each in seen["metadata"]["managedFields"] if each.get("subresource") == "scale"]
        assert entry["fieldsV1"] == {"f:spec": {"f:size": {}}}
        stale = await ask(client, "PUT", f"{path}/scale", scale)
        assert stale.status == 409
        patched = _tree(await ask(client, "PATCH", f"{path}/scale", {"spec": {"replicas": 0}}, MERGE_PATCH))
        assert patched["spec"] == {"replicas": 0}


@async_test
async def test_a_scale_is_applied() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        await put(cluster.server, definition(version(subresources=SCALE)))
        await ask(client, "POST", WIDGETS_PATH, widget())
        path = f"{WIDGETS_PATH}/w/scale?fieldManager=scaler&force=true"
        scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "w"}, "spec": {"replicas": 7}}
        applied = _tree(await ask(client, "PATCH", path, scale, APPLY_PATCH))
        assert (applied["kind"], applied["spec"]) == ("Scale", {"replicas": 7})
        seen = _tree(await ask(client, "GET", f"{WIDGETS_PATH}/w"))
        (entry,) = [each for each in seen["metadata"]["managedFields"] if each["manager"] == "scaler"]
        assert (entry["operation"], entry["subresource"], entry["fieldsV1"]) == (
            "Apply", "scale", {"f:spec": {"f:size": {}}},
        )  # fmt: skip
        wrong = await ask(client, "PATCH", path, widget(), APPLY_PATCH)
        assert (wrong.status, _tree(wrong)["message"]) == (400, f"invalid object type: {GROUP}/v1, Kind=Widget")


@pytest.mark.parametrize(
    ("replicas", "code", "message"),
    [
        (
            -1,
            422,
            f'Widget.{GROUP} "w" is invalid: .spec.size: Invalid value: -1: should be a non-negative integer',
        ),
        (None, 400, 'the spec replicas field ".spec.size" cannot be empty'),
    ],
)
@async_test
async def test_a_scale_that_is_none_is_refused(replicas: int | None, code: int, message: str) -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        await put(cluster.server, definition(version(subresources=SCALE)))
        await ask(client, "POST", WIDGETS_PATH, widget())
        answer = await ask(client, "PATCH", f"{WIDGETS_PATH}/w/scale", {"spec": {"replicas": replicas}}, MERGE_PATCH)
        assert (answer.status, _tree(answer)["message"]) == (code, message)


@async_test
async def test_an_object_without_the_number_has_no_scale() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        paths = {**SCALE["scale"], "specReplicasPath": ".spec.replicas"}
        await put(cluster.server, definition(version(subresources={"scale": paths})))
        await ask(client, "POST", WIDGETS_PATH, widget())
        answer = await ask(client, "GET", f"{WIDGETS_PATH}/w/scale")
        assert (answer.status, _tree(answer)["message"]) == (
            500,
            'Internal error occurred: the spec replicas field ".spec.replicas" does not exist',
        )


@async_test
async def test_a_write_in_one_version_answers_what_is_left_of_it_in_the_stored_one() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        await put(cluster.server, definition(version(storage=False), version("v2", {"type": "object"})))
        for query in ("?dryRun=All", ""):
            answer = await ask(client, "POST", f"{WIDGETS_PATH}{query}", widget())
            assert _tree(answer).get("spec", {}) == {}, query


@async_test
async def test_nothing_is_created_while_the_definition_goes() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        await put(cluster.server, definition())
        await ask(client, "POST", WIDGETS_PATH, widget())
        going = definition()
        going["metadata"] |= {"deletionTimestamp": "2020-01-01T00:00:00Z", "finalizers": ["example.com/hold"]}
        await put(cluster.server, going)
        body = widget("x")
        refused = await ask(client, "POST", WIDGETS_PATH, body)
        applied = await ask(client, "PATCH", f"{WIDGETS_PATH}/x?fieldManager=a", body, APPLY_PATCH)
        for answer in (refused, applied):
            assert answer.status == 403
            assert _tree(answer)["message"] == (
                f'widgets.{GROUP} "x" is forbidden: create not allowed while custom resource definition is terminating'
            )
        assert (await ask(client, "PATCH", f"{WIDGETS_PATH}/w", {"spec": {"size": 4}}, MERGE_PATCH)).status == 200
        assert (await ask(client, "DELETE", f"{WIDGETS_PATH}/w")).status == 200


@async_test
async def test_tables_and_bare_metadata_have_custom_kinds_too() -> None:
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Ports", "type": "string", "jsonPath": ".spec.ports", "priority": 1},
        {"name": "When", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Bad", "type": "string", "jsonPath": ".spec["},
        {"name": "After", "type": "string", "jsonPath": ".spec.color"},
    ]
    async with Cluster() as cluster:
        client = cluster.client()
        await put(cluster.server, definition(version(additionalPrinterColumns=columns)))
        await ask(client, "POST", WIDGETS_PATH, widget(spec={"ports": [{"name": "a", "port": 1}]}))
        accept = "application/json;as={};v=v1;g=meta.k8s.io"
        table = _tree(await client.raw("GET", WIDGETS_PATH, None, {"Accept": accept.format("Table")}))
        assert [each["name"] for each in table["columnDefinitions"]] == ["Name", "Size", "Ports", "When"]
        assert table["rows"][0]["cells"] == ["w", 3, '[{"name":"a","port":1}]', "0s"]
        partial = accept.format("PartialObjectMetadataList")
        (item,) = _tree(await client.raw("GET", WIDGETS_PATH, None, {"Accept": partial}))["items"]
        assert (item["kind"], item["metadata"]["name"], "spec" in item) == ("PartialObjectMetadata", "w", False)


@async_test
async def test_objects_are_there_after_a_restart(tmp_path: Path) -> None:
    cluster = Cluster(store=f"sqlite:{tmp_path}/store.db")
    async with cluster:
        await put(cluster.server, definition())
        made = _tree(await ask(cluster.client(), "POST", WIDGETS_PATH, widget()))
        await cluster.restart_async()
        assert _tree(await ask(cluster.client(), "GET", f"{WIDGETS_PATH}/w")) == made
        assert _tree(await ask(cluster.client(), "GET", WIDGETS_PATH))["items"] == [made]


@async_test
async def test_a_custom_object_in_protobuf_is_of_no_known_media_type() -> None:
    async with Cluster() as cluster:
        await put(cluster.server, definition())
        headers = {"Content-Type": "application/vnd.kubernetes.protobuf"}
        answer = await cluster.client().raw("POST", WIDGETS_PATH, b"k8s\x00", headers)
        assert answer.status == 415
        assert "accepted media types include: application/json" in _tree(answer)["message"]


@async_test
async def test_a_put_says_which_version_it_replaces() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        await put(cluster.server, definition())
        await ask(client, "POST", WIDGETS_PATH, widget())
        answer = await ask(client, "PUT", f"{WIDGETS_PATH}/w", widget())
        assert (answer.status, _tree(answer)["message"]) == (
            422,
            (
                f'widgets.{GROUP} "w" is invalid: metadata.resourceVersion: Invalid value: 0: '
                "must be specified for an update"
            ),
        )


@async_test
async def test_fields_that_cannot_be_selected_are_named_and_warnings_come_with_refusals() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        deprecated = version(deprecated=True, deprecationWarning="gone soon")
        await put(cluster.server, definition(deprecated, scope="Cluster"))
        for selected in ("spec.color", "metadata.namespace"):
            answer = await ask(client, "GET", f"/apis/{GROUP}/v1/widgets?fieldSelector={selected}%3Dx")
            assert (answer.status, _tree(answer)["message"]) == (400, f"field label not supported: {selected}")
        refused = await ask(client, "GET", f"/apis/{GROUP}/v1/widgets/w/nothing")
        assert (refused.status, refused.headers["warning"]) == (404, '299 - "gone soon"')


@async_test
async def test_an_object_moves_to_the_stored_version_when_it_is_written_even_unchanged() -> None:
    async with Cluster() as cluster:
        client, store = cluster.client(), cluster.server.api.store
        key, path = f"/registry/{GROUP}/widgets/default/w", f"{WIDGETS_PATH}/w"
        await put(cluster.server, definition(version(), version("v2", storage=False)))
        made = _tree(await ask(client, "POST", WIDGETS_PATH, widget()))
        await put(cluster.server, definition(version(storage=False), version("v2")))
        kept = await store.get(key)
        assert kept is not None
        assert json.loads(kept.value)["apiVersion"] == f"{GROUP}/v1"
        assert _tree(await ask(client, "GET", path)) == made
        moved = _tree(await ask(client, "PUT", path, made))
        kept = await store.get(key)
        assert kept is not None
        assert json.loads(kept.value)["apiVersion"] == f"{GROUP}/v2"
        assert (moved["apiVersion"], moved["spec"], moved["metadata"]["generation"]) == (
            f"{GROUP}/v1", made["spec"], 1,
        )  # fmt: skip
        assert moved["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]
        again = _tree(await ask(client, "PUT", path, moved))
        assert again == moved
