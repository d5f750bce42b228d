"""The documents of kinds that come at run time, and how they follow definitions."""

from __future__ import annotations

import json
from typing import Any

from google.protobuf import message

from asynctest import async_test
from custom_world import GROUP, SCHEMA, ask, definition, put, remove, version
from kubevouch.client.interface import Client, RawResponse
from kubevouch.testing import Cluster
from unit.server.openapi import rules
from unit.server.openapi.test_gnostic import document_class, to_json  # noqa: F401 - a fixture

V2 = "/openapi/v2"
DOCUMENT = f"/openapi/v3/apis/{GROUP}/v1"
NAME = "com.example.demo.v1.Widget"
PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
SCALE = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}


async def get(client: Client, path: str, **headers: str) -> RawResponse:
    return await client.raw("GET", path, None, {name.replace("_", "-"): value for name, value in headers.items()})


async def tree(client: Client, path: str) -> Any:
    return json.loads((await ask(client, "GET", path)).body)


def operations(document: Any) -> dict[str, str]:
    """Method and path of every operation, by its name."""
    return {
        operation["operationId"]: f"{method} {path}"
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method != "parameters"
    }


@async_test
async def test_a_namespaced_kind_and_its_subresources() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        await put(cluster.server, definition(version(subresources={"status": {}, "scale": SCALE})))
        document = await tree(client, DOCUMENT)
        assert rules.broken_rules(document) == []
        title, collection = "DemoExampleComV1", f"/apis/{GROUP}/v1/namespaces/{{namespace}}/widgets"
        item = f"{collection}/{{name}}"
        expected = {f"list{title}WidgetForAllNamespaces": f"get /apis/{GROUP}/v1/widgets"}
        for verb, place in (
            ("list{}", f"get {collection}"), ("create{}", f"post {collection}"),
            ("delete{}Collection", f"delete {collection}"), ("read{}", f"get {item}"), ("replace{}", f"put {item}"),
            ("delete{}", f"delete {item}"), ("patch{}", f"patch {item}"),
        ):  # fmt: skip
            expected[f"{verb.format(title)}NamespacedWidget"] = place
        for sub in ("Status", "Scale"):
            for verb, method in (("read", "get"), ("replace", "put"), ("patch", "patch")):
                expected[f"{verb}{title}NamespacedWidget{sub}"] = f"{method} {item}/{sub.lower()}"
        assert operations(document) == expected
        patches = document["paths"][item]["patch"]["requestBody"]["content"]
        assert set(patches) == {
            "application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml",
        }  # fmt: skip
        scale = document["paths"][f"{item}/scale"]["get"]["responses"]["200"]["content"]["application/json"]
        assert scale == {"schema": {"$ref": "#/components/schemas/io.k8s.api.autoscaling.v1.Scale"}}
        assert document["info"] == {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}
        spec = document["components"]["schemas"][NAME]["properties"]["spec"]
        assert spec == SCHEMA["properties"]["spec"]


@async_test
async def test_a_kind_of_the_whole_cluster() -> None:
    async with Cluster() as cluster:
        await put(cluster.server, definition(scope="Cluster"))
        document = await tree(cluster.client(), DOCUMENT)
        assert rules.broken_rules(document) == []
        found = operations(document)
        assert found["listDemoExampleComV1Widget"] == f"get /apis/{GROUP}/v1/widgets"
        assert not [name for name in found if "Namespace" in name]


@async_test
async def test_the_shared_document_holds_all_kinds_in_both_forms(document_class: type[message.Message]) -> None:  # noqa: F811
    async with Cluster() as cluster:
        client = cluster.client()
        schema = {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object", "title": "t", "maxProperties": 3, "minProperties": 1,
                    "externalDocs": {"url": "u", "description": "d"},
                    "properties": {
                        "n": {"type": "number", "minimum": -0.5, "maximum": 2, "multipleOf": 0.5,
                              "exclusiveMinimum": True, "exclusiveMaximum": True},
                        "s": {"type": "string", "minLength": 1, "maxLength": 300, "pattern": "a", "enum": ["a", "b"]},
                        "l": {"type": "array", "minItems": 1, "maxItems": 9, "items": {"type": "string"}},
                        "m": {"type": "object", "additionalProperties": True},
                        "o": {"type": "object", "additionalProperties": {"type": "integer"}},
                    },
                }
            },
        }  # fmt: skip
        await put(cluster.server, definition(version(schema=schema, subresources={"scale": SCALE})))
        await put(cluster.server, definition(plural="gadgets", kind="Gadget"))
        text = await get(client, V2)
        document = json.loads(text.body)
        assert rules.broken_rules(document) == []
        assert document["definitions"][NAME]["properties"]["spec"] == schema["properties"]["spec"]  # type: ignore[index]
        assert f"/apis/{GROUP}/v1/gadgets" in document["paths"]
        sealed = await get(client, V2, Accept=PROTOBUF)
        parsed = document_class()
        parsed.ParseFromString(sealed.body)
        assert to_json(parsed) == document


@async_test
async def test_documents_come_change_and_go_with_their_definitions() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        index = await get(client, "/openapi/v3")
        shared = await get(client, V2)
        assert (await get(client, DOCUMENT)).status == 404
        seen = {index.headers["Last-Modified"]}
        tags = {shared.headers["ETag"]}
        bodies = {shared.body}
        for changed in (
            definition(),
            definition(version(schema={"type": "object", "properties": {"spec": {"type": "string"}}})),
            definition(version(subresources={"status": {}})),
            definition(version(selectableFields=[{"jsonPath": ".spec.color"}])),
        ):
            await put(cluster.server, changed)
            known = {"If_Modified_Since": index.headers["Last-Modified"]}
            index = await get(client, "/openapi/v3", **known)
            assert (index.status, index.headers["Last-Modified"] in seen) == (200, False)
            seen.add(index.headers["Last-Modified"])
            url = json.loads(index.body)["paths"][f"apis/{GROUP}/v1"]["serverRelativeURL"]
            document = await get(client, url)
            assert document.headers["Cache-Control"] == "public, immutable"
            shared = await get(client, V2, If_None_Match=shared.headers["ETag"])
            assert shared.status == 200
            for found, all_seen in ((document.headers["ETag"], tags), (shared.headers["ETag"], tags)):
                assert found not in all_seen
                all_seen.add(found)
            for body in (document.body, shared.body):
                assert body not in bodies
                bodies.add(body)
            assert (await get(client, V2, If_None_Match=shared.headers["ETag"])).status == 304
            assert (await get(client, DOCUMENT, If_None_Match=document.headers["ETag"])).status == 304
        await remove(cluster.server, f"widgets.{GROUP}")
        assert (await get(client, DOCUMENT)).status == 404
        assert f"apis/{GROUP}/v1" not in json.loads((await get(client, "/openapi/v3")).body)["paths"]
        assert (await get(client, V2)).body in bodies


@async_test
async def test_a_definition_that_says_the_same_again_has_the_same_hash() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        await put(cluster.server, definition())
        before = await get(client, "/openapi/v3")
        await remove(cluster.server, f"widgets.{GROUP}")
        await get(client, "/openapi/v3")
        await put(cluster.server, definition())
        after = await get(client, "/openapi/v3")
        assert after.body == before.body


@async_test
async def test_values_in_a_schema_that_look_like_references_are_none() -> None:
    strange = {"$ref": "#/components/schemas/nobody", "allOf": "x"}
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": True, "default": strange, "enum": [strange],
            },
            "$ref": {"type": "string"},
        },
    }  # fmt: skip
    async with Cluster() as cluster:
        client = cluster.client()
        await put(cluster.server, definition(version(schema=schema)))
        properties = (await tree(client, DOCUMENT))["components"]["schemas"][NAME]["properties"]
        assert properties["spec"]["default"] == strange
        assert properties["$ref"] == {"type": "string"}
        for accept in ("application/json", PROTOBUF):
            assert (await get(client, V2, Accept=accept)).status == 200
