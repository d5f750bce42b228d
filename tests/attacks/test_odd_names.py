"""No name, namespace, label or selector, however odd, is answered with an error of the server's own.

A NUL reached the store's key, which refuses it, and the request ended as a 500. Every route is shown names that are
awkward for some layer: for SQLite's texts, for UTF-8, for keys with slashes, for paths of files.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from yarl import URL

import aio
from contract.route_matrix import Route, all_routes, credentials, session
from kubevouch.api import catalog
from kubevouch.machinery.scheme import Resource
from kubevouch.testing import Cluster

NAMES = {
    "NUL": "a\x00b",
    "NUL alone": "\x00",
    "newline": "a\nb",
    "escape": "\x1b[2J",
    "slash": "a/b",
    "up": "..",
    "down": "../../secrets/kube-system/x",
    "percent": "a%2Fb",
    "noncharacter": "a\uffff",
    "last code point": "\U0010ffff",
    "not normal": "e\u0301",
    "upper": "UPPER",
    "long": "a" * 5000,
    "space": " ",
    "quote": "a'\"; --",
}
# What no text can hold: bytes that are no UTF-8, a surrogate alone.
ENCODED = {**{key: quote(name, safe="") for key, name in NAMES.items()}, "surrogate": "a%ED%A0%80", "octet": "a%FF"}
FEW = ("NUL", "octet", "down")
# Kubernetes answers 500 to a resourceVersion that is no number, without a reason.
KUBERNETES_OWN = ("strconv.ParseUint: parsing", "Component not found: ")
LONE_SURROGATE = '"a\\ud800b"'


def paths(route: Route) -> Iterator[tuple[str, str]]:
    for what, name in ENCODED.items():
        if "{name}" in route.path:
            yield f"name {what}", route.path.format(namespace="default", name=name)
        if "{namespace}" in route.path:
            yield f"namespace {what}", route.path.format(namespace=name, name="nobody")


def queries(route: Route) -> Iterator[tuple[str, str]]:
    path = route.path.format(namespace="default", name="nobody")
    keys: tuple[str, ...]
    if route.verb in ("list", "watch", "deletecollection"):
        keys = ("fieldSelector=metadata.name%3D", "labelSelector=a%3D", "continue=", "resourceVersion=", "limit=")
    else:
        keys = ("fieldManager=", "dryRun=", "resourceVersion=", "gracePeriodSeconds=")
    for key in keys:
        for what in FEW:
            yield f"{key} {what}", f"{path}?{key}{ENCODED[what]}"
    for start in (r"a\u0000", r"a\ud800", "../x", ""):
        token = f'{{"v":"meta.k8s.io/v1","rv":2,"start":"{start}"}}'
        encoded = base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")
        if route.verb == "list":
            yield f"token {start}", f"{path}?limit=1&continue={encoded}"


def bodies(route: Route) -> Iterator[tuple[str, bytes]]:
    """A patch meets no object, so little of it is looked at; what is created is looked at all over."""
    written = {**{what: json.dumps(name) for what, name in NAMES.items()}, "surrogate": LONE_SURROGATE}
    for what, name in written.items():
        places = {
            "name": f'{{"name":{name}}}',
            "generateName": f'{{"generateName":{name}}}',
            "namespace": f'{{"name":"a","namespace":{name}}}',
            "label": f'{{"name":"a","labels":{{"a":{name}}}}}',
            "label key": f'{{"name":"a","labels":{{{name}:"a"}}}}',
            "annotation key": f'{{"name":"a","annotations":{{{name}:"a"}}}}',
            "finalizer": f'{{"name":"a","finalizers":[{name}]}}',
            "owner": f'{{"name":"a","ownerReferences":[{{"kind":{name},"name":{name},"uid":{name}}}]}}',
            "uid": f'{{"name":"a","uid":{name},"resourceVersion":{name}}}',
        }
        for where, metadata in places.items():
            if where in ("name", "generateName") or (what in (*FEW, "surrogate") and route.verb == "create"):
                yield f"{where} {what}", f'{{"metadata":{metadata}}}'.encode()


async def answered(
    client: aiohttp.ClientSession, method: str, url: URL, body: bytes | None, patch: str = "merge-patch+json"
) -> tuple[int, str]:
    headers = {"Content-Type": f"application/{patch}" if method == "PATCH" else "application/json"}
    async with client.request(method, url, data=body, headers=headers if body else None) as response:
        if "watch=1" in url.query_string and response.status == 200:
            response.close()
            return response.status, ""
        return response.status, (await response.text())[:300]


def asked(route: Route) -> Iterator[tuple[str, str, bytes | None]]:
    body = b"{}" if route.verb in ("create", "update", "patch") else None
    for what, path in (*paths(route), *queries(route)):
        yield what, path, body
    if route.verb == "patch" or (route.verb == "create" and "{name}" not in route.path):
        path = route.path.format(namespace="default", name="nobody")
        for what, content in bodies(route):
            yield what, path, content


async def failures(cluster: Cluster) -> dict[str, tuple[int, str]]:
    failed = {}
    async with session(cluster, (await credentials(cluster))["admin"]) as client:
        for route in await all_routes(cluster):
            for what, path, body in asked(route):
                if route.verb == "watch":
                    path += "&watch=1" if "?" in path else "?watch=1"
                status, text = await answered(client, route.method, URL(cluster.url + path, encoded=True), body)
                if status >= 500 and not any(own in text for own in KUBERNETES_OWN):
                    failed[f"{route} {what}"] = (status, text)
    return failed


def test_no_route_fails_at_an_odd_name() -> None:
    async def scenario() -> dict[str, tuple[int, str]]:
        async with Cluster(https=True) as cluster:
            return await failures(cluster)

    assert aio.run(scenario()) == {}


@pytest.mark.parametrize("resource", [catalog.CLUSTER_ROLES, catalog.ROLES], ids=lambda resource: resource.plural)
@pytest.mark.parametrize("store", ["memory:", "sqlite:"])
def test_a_name_with_a_nul_is_created_in_no_way(resource: Resource[Any], store: str) -> None:
    """By its name, by a generated one, by an update or an apply of what is not there."""
    namespace = "default" if resource.namespaced else ""
    collection, odd = resource.path(namespace), resource.path(namespace, "a%00b")
    document = f'{{"apiVersion":"{resource.api_version}","kind":"{resource.kind}","metadata":{{"name":"a\\u0000b"}}}}'

    async def scenario() -> None:
        async with Cluster(https=True, store=store) as cluster:
            shown = await credentials(cluster)
            async with session(cluster, shown["admin"]) as client:
                for method, path in (("POST", collection), ("PUT", odd), ("PATCH", f"{odd}?fieldManager=me")):
                    url = URL(cluster.url + path, encoded=True)
                    status, text = await answered(client, method, url, document.encode(), "apply-patch+yaml")
                    assert status == 422, (method, text)
                    assert "metadata.name: Invalid value: \\\"a\\\\x00b\\\": may not contain '\\\\x00'" in text
                url = URL(cluster.url + collection, encoded=True)
                status, text = await answered(client, "POST", url, b'{"metadata":{"generateName":"a\\u0000"}}')
                assert status == 422, text

    aio.run(scenario())
