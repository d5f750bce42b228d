"""Objects in versions for which a webhook has to be asked."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

from asynctest import async_test
from conversion_webhook import ConversionWebhook, Tree, split, widget
from custom_world import GROUP, ask, definition, version
from definition_world import MERGE_PATCH, NAME, PATH, change, create, is_settled, until
from kubevouch.client.interface import Client, EventType, WatchOptions, WatchStream
from kubevouch.machinery.custom_object import CustomObject
from kubevouch.machinery.scheme import Resource
from kubevouch.server.customresources.conversion import CALLS_AT_ONCE
from kubevouch.testing import Cluster

_V1, _V2 = (f"/apis/{GROUP}/{each}/namespaces/default/widgets" for each in ("v1", "v2"))


def _tree(answer: Any) -> Any:
    return json.loads(answer.body)


async def _established(client: Client, manifest: Tree) -> None:
    await create(client, manifest)
    await until(client, is_settled)


@async_test
async def test_what_was_stored_in_one_version_is_read_and_written_in_another(tmp_path: Path) -> None:
    async with ConversionWebhook(tmp_path) as webhook, Cluster() as cluster:
        client = cluster.client()
        await _established(client, webhook.definition())
        made = _tree(await ask(client, "POST", _V1, widget(labels={"a": "b"})))
        assert webhook.reviews == []
        found = _tree(await ask(client, "GET", f"{_V2}/w"))
        assert found["spec"] == {"host": "h", "port": "1", "mode": "x"}
        assert found["metadata"] == made["metadata"]
        request = webhook.requests[0]
        assert (request["desiredAPIVersion"], request["objects"]) == (f"{GROUP}/v2", [made])
        changed = _tree(await ask(client, "PATCH", f"{_V2}/w", {"spec": {"port": "2"}}, MERGE_PATCH))
        assert changed["spec"] == {"host": "h", "port": "2", "mode": "x"}
        assert _tree(await ask(client, "GET", f"{_V1}/w"))["spec"] == {"hostPort": "h:2"}
        other = _tree(await ask(client, "POST", _V2, widget("x", {"host": "i", "port": "3"}, "v2")))
        assert other["spec"] == {"host": "i", "port": "3", "mode": "x"}
        stored = await cluster.server.api.store.get(f"/registry/{GROUP}/widgets/default/x")
        assert stored is not None
        assert json.loads(stored.value)["apiVersion"] == f"{GROUP}/v1"


@async_test
async def test_a_list_asks_once_for_those_that_are_in_another_version(tmp_path: Path) -> None:
    async with ConversionWebhook(tmp_path) as webhook, Cluster() as cluster:
        client = cluster.client()
        await _established(client, webhook.definition())
        for number in range(20):
            await ask(client, "POST", _V1, widget(f"w{number:02}"))
        webhook.reviews.clear()
        found = _tree(await ask(client, "GET", _V2))
        assert {each["apiVersion"] for each in found["items"]} == {f"{GROUP}/v2"}
        assert [each["metadata"]["name"] for each in found["items"]] == [f"w{number:02}" for number in range(20)]
        assert [len(each["objects"]) for each in webhook.requests] == [20]
        assert len(_tree(await ask(client, "GET", _V1))["items"]) == 20
        assert len(webhook.requests) == 1


@async_test
async def test_v1beta1_neither_checks_uid_nor_kind(tmp_path: Path) -> None:
    def answer(request: Tree) -> Tree:
        return {**split(request), "uid": "other"}

    async with ConversionWebhook(tmp_path, answer) as webhook, Cluster() as cluster:
        client = cluster.client()
        await _established(client, webhook.definition("v7", "v1beta1", "v1"))
        await ask(client, "POST", _V1, widget())
        assert (await ask(client, "GET", f"{_V2}/w")).status == 200
        assert webhook.reviews[0]["apiVersion"] == "apiextensions.k8s.io/v1beta1"


def _lying(**members: Any) -> Any:
    def answer(request: Tree) -> Tree:
        found = split(request)
        for obj in found["convertedObjects"]:
            for key, value in members.items():
                if key in ("name", "namespace", "uid", "labels", "annotations", "generation"):
                    obj["metadata"] = {**obj["metadata"], key: value}
                elif value is None:
                    del obj[key]
                else:
                    obj[key] = value
        return found

    return answer


_ABOUT = f"conversion webhook for {GROUP}/v1, Kind=Widget"


def _nested(levels: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


_LIES: list[tuple[Any, str]] = [
    (lambda request: {**split(request), "uid": "x"}, ' failed: expected response.uid="$uid", got "x"'),
    (lambda _request: {}, " failed: response.result.status was '', not 'Success'"),
    (
        lambda _request: {"result": {"status": "Failure"}},
        " failed: response.result.status was 'Failure', not 'Success'",
    ),
    (lambda _request: {"result": {"status": "Failure", "message": "no way"}}, " failed: no way"),
    (lambda _request: {"result": {"status": "Success"}}, " returned 0 objects, expected 1"),
    (
        lambda request: {**split(request), "convertedObjects": split(request)["convertedObjects"] * 2},
        " returned 2 objects, expected 1",
    ),
    (
        lambda request: {**split(request), "convertedObjects": [7]},
        (
            " returned invalid object at index 0: json: cannot unmarshal number into Go value of type "
            "map[string]interface {}"
        ),
    ),
    (
        _lying(apiVersion="o.io/v2"),
        f" returned invalid object at index 0: invalid groupVersion (expected {GROUP}/v2, received o.io/v2)",
    ),
    (
        _lying(kind="Gadget"),
        " returned invalid object at index 0: invalid kind (expected Widget, received Gadget)",
    ),
    (_lying(name="x"), " returned invalid object: must have the same name: w != x"),
    (_lying(namespace="x"), " returned invalid object: must have the same namespace: default != x"),
    (_lying(uid="x"), " returned invalid object: must have the same UID: $id != x"),
    (_lying(metadata=None), " returned invalid object: must have the same name: w != "),
    (
        _lying(labels={"a": 7}),
        " returned invalid metadata: metadata.labels[a] must be a string, but is int64 in converted object",
    ),
    (
        _lying(annotations="x"),
        " returned invalid metadata: invalid metadata.annotations of type string in converted object",
    ),
    (_lying(labels={"": "x"}), " returned invalid metadata: [metadata.labels: Invalid value: "),
    (_lying(annotations={"/": "x"}), " returned invalid metadata: [metadata.annotation: Invalid value: "),
    (_lying(spec=_nested(900)), " returned invalid object at index 0: json: exceeded max depth"),
]


@async_test
async def test_webhooks_that_lie_are_not_believed(tmp_path: Path) -> None:
    async with ConversionWebhook(tmp_path) as webhook, Cluster() as cluster:
        client = cluster.client()
        await _established(client, webhook.definition())
        made = _tree(await ask(client, "POST", _V1, widget()))
        for webhook.answer, said in _LIES:
            found = _tree(await ask(client, "GET", f"{_V2}/w"))
            uid = webhook.requests[-1]["uid"]
            expected = f"{_ABOUT}{said}".replace("$uid", uid).replace("$id", made["metadata"]["uid"])
            assert (found["code"], found.get("reason")) == (500, None)
            assert found["message"][: len(expected)] == expected
            assert (await ask(client, "GET", f"{_V1}/w")).status == 200
            assert (await ask(client, "PUT", f"{_V2}/w", {**made, "apiVersion": f"{GROUP}/v2"})).status == 500
        assert _tree(await ask(client, "GET", f"{_V1}/w")) == made


@async_test
async def test_metadata_stays_but_for_labels_and_annotations(tmp_path: Path) -> None:
    answer = _lying(labels={"new": "1"}, annotations=None, generation=99)
    async with ConversionWebhook(tmp_path, answer) as webhook, Cluster() as cluster:
        client = cluster.client()
        await _established(client, webhook.definition())
        made = _tree(await ask(client, "POST", _V1, widget(labels={"a": "b"}, annotations={"c": "d"})))
        found = _tree(await ask(client, "GET", f"{_V2}/w"))
        expected = {**made["metadata"], "labels": {"new": "1"}}
        del expected["annotations"]
        assert found["metadata"] == expected


@async_test
async def test_one_broken_object_breaks_its_list(tmp_path: Path) -> None:
    def answer(request: Tree) -> Tree:
        found = split(request)
        found["convertedObjects"][1]["metadata"] = {**found["convertedObjects"][1]["metadata"], "name": "z"}
        return found

    async with ConversionWebhook(tmp_path, answer) as webhook, Cluster() as cluster:
        client = cluster.client()
        await _established(client, webhook.definition())
        for name in "abc":
            await ask(client, "POST", _V1, widget(name))
        found = _tree(await ask(client, "GET", _V2))
        assert (found["code"], found["message"]) == (
            500,
            f"{_ABOUT} returned invalid converted object at index 2: must have the same name: b != z",
        )


@async_test
async def test_a_webhook_that_is_down_says_so_in_kubernetes_words() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        for config, why in (
            (
                {"url": "https://127.0.0.1:1/x"},
                '127.0.0.1:1/x?timeout=30s": dial tcp 127.0.0.1:1: connect: connection ',
            ),
            (
                {"service": {"namespace": "default", "name": "conv", "path": "/c"}},
                'conv.default.svc:443/c?timeout=30s": service "conv" not found',
            ),
        ):
            manifest = definition(version("v1"), version("v2", storage=False))
            webhook = {"clientConfig": config, "conversionReviewVersions": ["v1"]}
            manifest["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
            await _established(client, manifest)
            await ask(client, "POST", _V1, widget())
            for path in (_V2, f"{_V2}/w"):
                found = _tree(await ask(client, "GET", path))
                assert found["code"] == 500
                assert found["message"].startswith(f'{_ABOUT} failed: Post "https://{why}')
            assert (
                await ask(client, "DELETE", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{GROUP}")
            ).status == 200
            await until(client, lambda each: each is None)


@async_test
async def test_who_waits_for_a_webhook_holds_up_nobody_else(tmp_path: Path) -> None:
    async with ConversionWebhook(tmp_path) as webhook, Cluster() as cluster:
        client = cluster.client()
        await _established(client, webhook.definition())
        await ask(client, "POST", _V1, widget())
        webhook.held.clear()
        waiting = [asyncio.create_task(ask(client, "GET", f"{_V2}/w")) for _ in range(CALLS_AT_ONCE + 8)]
        await webhook.asked(CALLS_AT_ONCE)
        assert (await ask(client, "GET", f"{_V1}/w")).status == 200
        assert (await ask(client, "POST", _V1, widget("x"))).status == 201
        # The definition changes while they wait, and they are answered all the same.
        await change(client, {"spec": {"names": {"shortNames": ["w"]}}})
        assert len(webhook.reviews) == CALLS_AT_ONCE
        webhook.held.set()
        assert {each.status for each in await asyncio.gather(*waiting)} == {200}


@async_test
async def test_a_new_webhook_counts_from_the_next_request_on(tmp_path: Path) -> None:
    async with (
        ConversionWebhook(tmp_path) as webhook,
        ConversionWebhook(tmp_path, _lying(labels={"by": "other"})) as other,
        Cluster() as cluster,
    ):
        client = cluster.client()
        await _established(client, webhook.definition())
        await ask(client, "POST", _V1, widget())
        assert "labels" not in _tree(await ask(client, "GET", f"{_V2}/w"))["metadata"]
        code, _ = await change(client, {"spec": {"conversion": other.conversion()}})
        assert code == 200
        assert _tree(await ask(client, "GET", f"{_V2}/w"))["metadata"]["labels"] == {"by": "other"}
        code, _ = await change(client, {"spec": {"conversion": {"strategy": "None", "webhook": None}}})
        assert code == 200
        assert _tree(await ask(client, "GET", f"{_V2}/w"))["spec"] == {"mode": "x"}


@async_test
async def test_a_watch_sees_the_version_that_it_asked_for(tmp_path: Path) -> None:
    async with ConversionWebhook(tmp_path) as webhook, Cluster() as cluster:
        client = cluster.client()
        await _established(client, webhook.definition())
        await ask(client, "POST", _V1, widget())
        resource = Resource(GROUP, "v2", "Widget", "widgets", CustomObject, namespaced=True)
        options = WatchOptions(resource_version="0")
        async with contextlib.aclosing(client.watch(resource, "default", options)) as events:
            assert await _next_spec(events) == {"host": "h", "port": "1", "mode": "x"}
            await ask(client, "PATCH", f"{_V1}/w", {"spec": {"hostPort": "i:2"}}, MERGE_PATCH)
            assert await _next_spec(events) == {"host": "i", "port": "2", "mode": "x"}


@async_test
async def test_a_watch_ends_with_what_a_webhook_did_not_convert(tmp_path: Path) -> None:
    async with ConversionWebhook(tmp_path) as webhook, Cluster() as cluster:
        client = cluster.client()
        await _established(client, webhook.definition())
        await ask(client, "POST", _V1, widget())
        resource = Resource(GROUP, "v2", "Widget", "widgets", CustomObject, namespaced=True)
        async with contextlib.aclosing(client.watch(resource, "default", WatchOptions(resource_version="0"))) as events:
            await _next_spec(events)
            webhook.answer = lambda _request: {"result": {"status": "Failed", "message": "not today"}}
            await ask(client, "PATCH", f"{_V1}/w", {"spec": {"hostPort": "i:2"}}, MERGE_PATCH)
            *_, last = [event async for event in events]
        assert (last.type, last.status is not None and last.status.code) == (EventType.ERROR, 500)
        assert last.status is not None
        assert last.status.message.endswith("not today")


async def _next_spec(events: WatchStream[CustomObject]) -> Any:
    async for event in events:
        if event.type is not EventType.BOOKMARK:
            assert event.object is not None
            return event.object.content["spec"]
    raise AssertionError("the watch ended")


@async_test
async def test_nothing_that_comes_while_a_definition_goes_stays_behind(tmp_path: Path) -> None:
    """It is let in while the definition is there, and would be stored when its objects have been counted."""
    async with ConversionWebhook(tmp_path) as webhook, Cluster() as cluster:
        client = cluster.client()
        await _established(client, webhook.definition())
        webhook.held.clear()
        late = asyncio.create_task(ask(client, "POST", _V2, widget("w", {"host": "h", "port": "1"}, "v2")))
        await webhook.asked(1)
        assert (await ask(client, "DELETE", f"{PATH}/{NAME}")).status == 200
        await until(client, lambda each: each is None)
        webhook.held.set()
        answer = await late
        assert (answer.status, _tree(answer)["message"]) == (
            403, f'{NAME} "w" is forbidden: create not allowed while custom resource definition is terminating',
        )  # fmt: skip
        assert (await cluster.server.api.store.list(f"/registry/{GROUP}/")).items == []
