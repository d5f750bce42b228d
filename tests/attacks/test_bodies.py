"""Large bodies: no shape of one holds the event loop, and nobody buys more than a share of the time with them.

In the short form each kind gets one body with all its lists and maps; with ``--hypothesis-profile=long``, as in
``make fuzz``, each of these fields gets bodies of its own.
"""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import wide_bodies
from asynctest import async_test
from kubevouch.authentication.interface import UserInfo
from kubevouch.client.interface import Client
from kubevouch.machinery.codec import elements, json_codec, protobuf
from kubevouch.machinery.schema import schema_of
from kubevouch.machinery.scheme import Resource
from kubevouch.server.decoding import MAX_BODY_BYTES
from kubevouch.server.negotiation import JSON, PROTOBUF, YAML
from served_world import Served, served
from stalls import no_stalls

LONG = settings.get_current_profile_name() == "long"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@dataclass(frozen=True)
class Target:
    """What can be posted: a stored kind or a review, and where."""

    kind: Resource[Any]
    path: str
    stored: bool

    def body(self, tree: dict[str, Any]) -> bytes:
        if self.kind.namespaced and "metadata" in tree:
            tree = {**tree, "metadata": {**tree["metadata"], "namespace": "default"}}
        return wide_bodies.as_json(tree, self.kind.kind, self.kind.api_version)


def _targets(at: Served) -> Iterator[Target]:
    served_here = at.server.api.served
    for (_, _, plural), endpoint in served_here.endpoints.items():
        yield Target(endpoint.resource, _path(endpoint.resource, plural, ""), stored=True)
    for (_, _, plural, subresource), action in served_here.actions.items():
        of_parent = f"/default/{subresource}" if subresource else ""
        yield Target(action.body, _path(action.resource, plural, of_parent), stored=False)


def _path(resource: Resource[Any], plural: str, rest: str) -> str:
    root = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
    return f"{root}{'/namespaces/default' if resource.namespaced else ''}/{plural}{rest}"


async def _send(client: Client, method: str, path: str, body: bytes, media: str, accept: str = JSON) -> int:
    answer = await client.raw(method, path, body, {"Content-Type": media, "Accept": accept})
    return answer.status


async def _clear(client: Client, target: Target) -> None:
    await client.raw("DELETE", f"{target.path}/x")
    await _send(client, "PATCH", f"{target.path}/x", b'{"metadata":{"finalizers":null}}', MERGE_PATCH)


async def _every_way(client: Client, target: Target, tree: dict[str, Any]) -> None:
    """Create, update, patch and apply in each form, and read."""
    body, one = target.body(tree), f"{target.path}/x"
    await _send(client, "POST", target.path, body, JSON)
    obj = json_codec.decode(body, target.kind.type)
    message = protobuf.codec_for(target.kind.type).encode(obj)
    sealed = protobuf.seal(target.kind.api_version, target.kind.kind, message)
    await _send(client, "POST", f"{target.path}?dryRun=All", sealed, PROTOBUF)
    await _send(client, "POST", f"{target.path}?dryRun=All&fieldValidation=Strict", body, YAML)
    if target.stored:
        await _send(client, "PATCH", f"{one}?fieldManager=m&force=true", body, APPLY_PATCH)
        await _send(client, "PUT", f"{one}?fieldManager=n", body, JSON)
        await _send(client, "PATCH", one, body, MERGE_PATCH)
        await _send(client, "PATCH", f"{one}?dryRun=All", body, STRATEGIC_PATCH)
        whole = json.loads(body)
        operations = [{"op": "add", "path": f"/{name}", "value": value} for name, value in whole.items()]
        await _send(client, "PATCH", f"{one}?dryRun=All", json.dumps(operations).encode(), JSON_PATCH)
        for accept in (YAML, PROTOBUF, TABLE):
            await _send(client, "GET", one, b"", JSON, accept)


@async_test
async def test_no_kind_holds_the_loop(tmp_path: Path) -> None:
    in_every_way = {"ConfigMap", "Node", "ClusterRole", "SubjectAccessReview"}
    async with served(tmp_path) as at:
        for target in _targets(at):
            tree = wide_bodies.whole(schema_of(target.kind.type), "x")
            with no_stalls():
                if target.kind.kind in in_every_way:
                    await _every_way(at.admin, target, tree)
                else:
                    status = await _send(at.admin, "POST", target.path, target.body(tree), JSON)
                    assert status != 413, target
            await _clear(at.admin, target)


# An hour: a part of `make fuzz`.
if LONG:

    @pytest.mark.timeout(7200)
    @async_test
    async def test_no_field_holds_the_loop(tmp_path: Path) -> None:
        async with served(tmp_path) as at:
            for target in _targets(at):
                schema = schema_of(target.kind.type)
                for path in wide_bodies.wide_paths(schema):
                    if path[0] != "metadata" or target.kind.kind == "ConfigMap":
                        with no_stalls():
                            await _every_way(at.admin, target, wide_bodies.wide_tree(schema, path, "x"))
                        await _clear(at.admin, target)


# ------------------------------------------------------------------ bodies of 3 MiB


def _filled(pattern: str) -> str:
    """As often as it fits; ``@`` stands for a number of its own."""
    size = len(pattern.replace("@", "000000")) + 1
    return ",".join(pattern.replace("@", f"{number:06}") for number in range((MAX_BODY_BYTES - 2000) // size))


def _config_map(members: str = "", metadata: str = "") -> bytes:
    named = '"metadata":{"name":"x"' + (f",{metadata}" if metadata else "") + "}"
    return ('{"kind":"ConfigMap","apiVersion":"v1",' + named + (f",{members}" if members else "") + "}").encode()


_MANAGED = '{"manager":"m","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":'
SHAPES = {
    "labels": lambda: _config_map(metadata='"labels":{' + _filled('"l@":"v"') + "}"),
    "annotations": lambda: _config_map(metadata='"annotations":{' + _filled('"l@":""') + "}"),
    "finalizers": lambda: _config_map(metadata='"finalizers":[' + _filled('"a/@"') + "]"),
    "owners": lambda: _config_map(metadata='"ownerReferences":[' + _filled('{"uid":"@","name":"a"}') + "]"),
    "fields": lambda: _config_map(metadata='"managedFields":[' + _MANAGED + "{" + _filled('"f:@":{}') + "}}]"),
    "managers": lambda: _config_map(metadata='"managedFields":[' + _filled(_MANAGED + "{}}") + "]"),
    "digits": lambda: _config_map('"x":' + "1" * (MAX_BODY_BYTES - 200)),
    "a generation of digits": lambda: _config_map(metadata='"generation":' + "1" * (MAX_BODY_BYTES - 200)),
    "numbers": lambda: _config_map('"x":[' + _filled("1.5") + "]"),
    "lists": lambda: _config_map('"x":[' + _filled("[]") + "]"),
    "objects": lambda: _config_map('"x":[' + _filled("{}") + "]"),
    "depth": lambda: _config_map('"x":' + "[" * 1_500_000 + "]" * 1_500_000),
    "unknown": lambda: _config_map(_filled('"u@":1')),
    "repeated": lambda: _config_map(_filled('"data":{}')),
    "one text": lambda: _config_map('"data":{"a":"' + "<" * 1_400_000 + '"}'),
    "an unknown name": lambda: _config_map('"' + "u" * 3_000_000 + '":1'),
    "surrogates": lambda: _config_map('"data":{"a":"' + "\\ud800" * 500_000 + '"}'),
    "a text without an end": lambda: _config_map('"data":{"a":"' + '\\"' * 1_500_000)[:-2],
    "blanks": lambda: b'{"a":' + b" " * 3_000_000 + b"x",
}  # fmt: skip


WAYS = {
    "create": ("POST", CONFIG_MAPS, JSON),
    "merge": ("PATCH", f"{CONFIG_MAPS}/kube", MERGE_PATCH),
    "strategic merge": ("PATCH", f"{CONFIG_MAPS}/kube", STRATEGIC_PATCH),
    "apply": ("PATCH", f"{CONFIG_MAPS}/kube?fieldManager=m", APPLY_PATCH),
    "delete": ("DELETE", f"{CONFIG_MAPS}/kube", JSON),
}


@pytest.mark.parametrize("way", WAYS)
@async_test
async def test_no_shape_of_three_mebibytes_holds_the_loop(tmp_path: Path, way: str) -> None:
    method, path, media = WAYS[way]
    shapes = SHAPES if way == "create" or LONG else ("labels", "one text", "digits")
    async with served(tmp_path) as at:
        await at.admin.raw("POST", CONFIG_MAPS, _config_map().replace(b'"x"', b'"kube"'))
        for shape in shapes:
            body = SHAPES[shape]()
            assert len(body) <= MAX_BODY_BYTES
            with no_stalls():
                answer = await at.admin.raw(method, path, body, {"Content-Type": media})
            if answer.status >= 400:
                assert len(answer.body) < 256 * 1024, shape


# ------------------------------------------------------------------ whose time it is


def _large(name: str) -> bytes:
    tree = {"metadata": {"name": name}, "data": {f"k{number}": "v" for number in range(elements.MAX_ELEMENTS // 2)}}
    return wide_bodies.as_json(tree, "ConfigMap", "v1")


@async_test
async def test_small_requests_do_not_wait_for_large_ones(tmp_path: Path) -> None:
    """Twenty connections send the dearest bodies; the thread that reads them stands still, and all else goes on."""
    async with (
        served(tmp_path) as at,
        at.session(at.token) as flood,
        at.session() as probe,
        at.session(at.token) as join,
    ):
        worker, gate, body = at.server.api.worker, threading.Event(), SHAPES["labels"]()
        blocked = asyncio.ensure_future(worker.run("flood", gate.wait))

        async def post() -> int:
            async with flood.post(CSRS, data=io.BytesIO(body), headers={"Content-Type": JSON}) as answer:
                return answer.status

        flooding = [asyncio.ensure_future(post()) for _ in range(20)]
        while worker.waiting < len(flooding):  # noqa: ASYNC110 - the worker tells nobody
            await asyncio.sleep(0.001)
        jobs = worker.jobs
        async with probe.get("/livez") as answer:
            assert answer.status == 200
        async with join.get(CSRS + "/nothing") as answer:
            assert answer.status in (403, 404)
        async with join.post(CSRS, data=b"{}", headers={"Content-Type": JSON}) as answer:
            assert answer.status in (400, 422)
        assert worker.jobs == jobs == 0
        gate.set()
        assert await asyncio.gather(blocked, *flooding) == [True, *[413] * len(flooding)]


@async_test
async def test_a_large_body_waits_for_few_of_another_credential(tmp_path: Path) -> None:
    async with served(tmp_path) as at:
        worker, gate = at.server.api.worker, threading.Event()
        blocked = asyncio.ensure_future(worker.run("flood", gate.wait))
        flood = at.server.api.loopback(UserInfo("flood", groups=("system:masters",)), "flood")
        flooding = [asyncio.ensure_future(_send(flood, "POST", CONFIG_MAPS, _large(f"f{n}"), JSON)) for n in range(20)]
        while worker.waiting < len(flooding):  # noqa: ASYNC110 - the worker tells nobody
            await asyncio.sleep(0.001)
        mine = asyncio.ensure_future(_send(at.admin, "POST", CONFIG_MAPS, _large("mine"), JSON))
        await asyncio.sleep(0)
        before = worker.jobs
        gate.set()
        assert await mine == 201
        # Its own stages, and of the flood those that were under way between them.
        assert worker.jobs - before < 40
        assert sum(task.done() for task in flooding) <= 4
        await asyncio.gather(blocked, *flooding)
