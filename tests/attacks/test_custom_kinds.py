"""Definitions and custom objects that are up to no good.

Whether anybody waits for them is said by the fixture ``no_stalls``, which is part of every test.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from asynctest import async_test
from custom_world import ask, put, version
from definition_world import PATH, create, is_settled, read, until
from kubevouch.client.interface import Client
from kubevouch.testing import Cluster

PLAIN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _definition(group: str, plural: str, kind: str, schema: Any = PLAIN) -> Any:
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
        },
        "spec": {"group": group, "scope": "Cluster", "names": names, "versions": [version(schema=schema)]},
    }


async def _tree(client: Client, path: str) -> Any:
    answer = await ask(client, "GET", path)
    return json.loads(answer.body) if answer.status == 200 else answer.body


# ------------------------------------------------------------------ names


@pytest.mark.parametrize(
    ("group", "plural", "kind"),
    [
        ("certificates.k8s.io", "certificatesigningrequests", "CertificateSigningRequest"),
        ("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition"),
        ("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview"),
        ("rbac.authorization.k8s.io", "gadgets", "Gadget"),
    ],
)
@async_test
async def test_a_definition_takes_nothing_from_a_built_in_group(group: str, plural: str, kind: str) -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        paths = (f"/apis/{group}/v1", f"/apis/{group}", f"/apis/{group}/v1/{plural}", f"/apis/{group}/v7/{plural}")
        before = [await _tree(client, path) for path in paths[:2]]
        manifest = _definition(group, plural, kind)
        manifest["spec"]["versions"].append(version("v7", PLAIN, storage=False))
        name = manifest["metadata"]["name"]
        await create(client, manifest)
        await until(client, is_settled, name)
        assert [await _tree(client, path) for path in paths[:2]] == before
        listed = await ask(client, "GET", paths[2])
        assert (listed.status == 200) == (plural in ("certificatesigningrequests", "customresourcedefinitions"))
        assert (await ask(client, "GET", paths[3])).status == 404
        other = _definition("demo.example.com", "widgets", "Widget")
        await create(client, other)
        assert (await ask(client, "DELETE", f"{PATH}/{name}")).status == 200
        await until(client, lambda found: found is None, name)
        assert await read(client, other["metadata"]["name"]) is not None
        assert (await ask(client, "GET", paths[2])).status == listed.status
        assert [await _tree(client, path) for path in paths[:2]] == before


# ------------------------------------------------------------------ values

WIDGETS = "/apis/demo.example.com/v1/widgets"
_APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"


async def _serve(client: Client, spec: Any) -> None:
    schema = {"type": "object", "properties": {"spec": spec}}
    await create(client, _definition("demo.example.com", "widgets", "Widget", schema))
    await until(client, is_settled)


def _text(spec: str, name: str = "w") -> bytes:
    head = f'"apiVersion":"demo.example.com/v1","kind":"Widget","metadata":{{"name":"{name}"}}'
    return f'{{{head},"spec":{spec}}}'.encode()


def _nested(depth: int, begin: str, end: str) -> str:
    return f"{begin * depth}1{end * depth}"


async def _send(client: Client, method: str, path: str, body: bytes, media: str = "application/json") -> Any:
    answer = await client.raw(method, path, body, {"Content-Type": media})
    return answer.status, json.loads(answer.body)


@pytest.mark.parametrize(("begin", "end"), [('{"a":', "}"), ("[", "]"), ('[{"a":', "}]")])
@async_test
async def test_an_object_nests_as_deep_as_everything_can_bear(begin: str, end: str) -> None:
    most = 199 // (2 if begin[0] + end[0] == "[}" else 1)
    async with Cluster() as cluster:
        client = cluster.client()
        await _serve(client, PLAIN | {"type": "object", "properties": {"x": {**PLAIN, "type": "object"}}})
        deep = f'{{"y":{_nested(most - 1, begin, end)}}}'
        path = f"{WIDGETS}/w"
        assert (await _send(client, "POST", WIDGETS, _text(deep)))[0] == 201
        change = b'[{"op":"add","path":"/spec/z","value":1},{"op":"copy","from":"/spec/y","path":"/spec/v"}]'
        for media, body in (
            ("application/json-patch+json", change),
            (_MERGE, b'{"spec":{"z":2}}'),
            (_APPLY, _text(deep.replace("1", "2"))),
        ):
            where = path if media != _APPLY else f"{path}?fieldManager=m&force=true"
            status, tree = await _send(client, "PATCH", where, body, media)
            assert status == 200, tree["message"][:300]
        assert (await ask(client, "GET", WIDGETS)).status == 200
        assert (await ask(client, "DELETE", path)).status == 200


@pytest.mark.parametrize("depth", [210, 450, 480, 900])
@pytest.mark.parametrize(("begin", "end"), [('{"a":', "}"), ("[", "]")])
@async_test
async def test_deeper_objects_are_refused(depth: int, begin: str, end: str) -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        await _serve(client, PLAIN)
        deep = _text(f'{{"y":{_nested(depth, begin, end)}}}')
        status, tree = await _send(client, "POST", WIDGETS, deep)
        assert (status, "max depth" in tree["message"]) == (400, True), tree
        # What an apply cannot make an object of is answered with 500, in Kubernetes, too.
        _, tree = await _send(client, "PATCH", f"{WIDGETS}/w?fieldManager=m", deep, _APPLY)
        assert "max depth" in tree["message"], tree
        assert (await ask(client, "GET", f"{WIDGETS}/w")).status == 404


@async_test
async def test_numbers_that_no_float_holds() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        await _serve(client, {"type": "number"})
        for number in ("1e400", "-1e400", "1" + "0" * 400, "1" + "0" * 5000):
            status, tree = await _send(client, "POST", WIDGETS, _text(number))
            assert (status, tree["reason"]) == (400, "BadRequest"), tree
            assert f"cannot unmarshal number {number[:64]} into Go value of type float64" in tree["message"]
        assert (await _send(client, "POST", WIDGETS, _text("1e308")))[0] == 201
        status, _ = await _send(client, "PATCH", f"{WIDGETS}/w", b'{"spec":1e400}', _MERGE)
        assert status in (400, 422)


@pytest.mark.parametrize("number", ["1e400", "1" + "0" * 400, "1" + "0" * 5000])
@pytest.mark.parametrize("keyword", ["maximum", "default", "maxLength"])
@async_test
async def test_such_numbers_in_schemas(keyword: str, number: str) -> None:
    async with Cluster() as cluster:
        schema = {"type": "object", "properties": {"spec": {"type": "number", keyword: "?"}}}
        manifest = json.dumps(_definition("demo.example.com", "widgets", "Widget", schema)).replace('"?"', number)
        status, tree = await _send(cluster.client(), "POST", PATH, manifest.encode())
        assert (status, "cannot unmarshal number" in tree["message"]) == (400, True), tree


@pytest.mark.parametrize("depth", [250, 400, 450])
@pytest.mark.parametrize("keyword", ["default", "example"])
@async_test
async def test_deep_values_in_schemas(keyword: str, depth: int) -> None:
    async with Cluster() as cluster:
        schema = {"type": "object", "properties": {"spec": {**PLAIN, keyword: "?"}}}
        manifest = json.dumps(_definition("demo.example.com", "widgets", "Widget", schema))
        manifest = manifest.replace('"?"', _nested(depth, '{"a":', "}"))
        status, tree = await _send(cluster.client(), "POST", PATH, manifest.encode())
        assert (status, "max depth" in tree["message"]) == (400, True), tree


# ------------------------------------------------------------------ patterns


@async_test
async def test_a_stored_pattern_that_is_none_matches_nothing_and_can_go() -> None:
    """Of a store that another server has written."""
    schema = {"type": "object", "properties": {"spec": {"type": "string", "pattern": "(?=a)"}}}
    async with Cluster() as cluster:
        client = cluster.client()
        await put(cluster.server, _definition("demo.example.com", "widgets", "Widget", schema))
        status, tree = await _send(client, "POST", WIDGETS, _text('"a"'))
        assert (status, tree["reason"]) == (422, "Invalid")
        why = "should match '(?=a), but pattern is invalid: error parsing regexp: invalid or unsupported Perl syntax"
        assert why in tree["message"]
        assert (await _send(client, "POST", WIDGETS, _text("null")))[0] == 201
        assert (await ask(client, "DELETE", f"{PATH}/widgets.demo.example.com")).status == 200
        await until(client, lambda found: found is None)


@pytest.mark.parametrize("pattern", ["(a+)+$", "^(([a-z])+.)+[A-Z]([a-z])+$", "(a|aa)*b", "(.*)*x"])
@async_test
async def test_patterns_that_would_hold_others_up(pattern: str) -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        await _serve(client, {"type": "string", "pattern": pattern})
        status, tree = await _send(client, "POST", WIDGETS, _text(f'"{"a" * 100_000}!"'))
        assert (status, tree["reason"]) == (422, "Invalid")


@pytest.mark.parametrize(
    "pattern", ["(?=a)", "(?!a)", r"\1(a)", "a{1001}", "((a{100}){100}){100}", "[b-a]", "(", r"\C"]
)
@async_test
async def test_patterns_that_are_none(pattern: str) -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "string", "pattern": pattern}}}
    async with Cluster() as cluster:
        manifest = _definition("demo.example.com", "widgets", "Widget", schema)
        status, tree = await _send(cluster.client(), "POST", PATH, json.dumps(manifest).encode())
        assert status == 422, pattern
        assert tree["details"]["causes"][0]["field"] == "spec.validation.openAPIV3Schema.properties[spec].pattern"
        assert "must be a valid regular expression" in tree["message"]


# ------------------------------------------------------------------ rights


@pytest.mark.parametrize(
    ("user", "group"),
    [
        ("system:node:n1", "system:nodes"),
        ("system:bootstrap:abc123", "system:bootstrappers"),
        ("system:serviceaccount:default:default", "system:serviceaccounts"),
        ("system:anonymous", "system:unauthenticated"),
    ],
)
@async_test
async def test_custom_objects_are_nobodys_who_was_not_given_them(user: str, group: str) -> None:
    async with Cluster() as cluster:
        await _serve(cluster.client(), PLAIN)
        client = cluster.client(user, [group])
        for method, path in (
            ("GET", WIDGETS), ("GET", f"{WIDGETS}/w"), ("POST", WIDGETS), ("DELETE", WIDGETS), ("PUT", f"{WIDGETS}/w"),
            ("GET", f"{WIDGETS}?watch=true"), ("GET", PATH), ("POST", PATH),
        ):  # fmt: skip
            assert (await _send(client, method, path, _text("{}")))[0] == 403, (method, path)
