"""What is valid and not supported, and what is not valid, is refused before any state changes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

import aio
from contract import route_matrix
from contract.route_matrix import NAME, Route
from interop_world import manifest
from kubevouch.testing import Cluster

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
PATCH_TYPES = (
    "application/json", "application/yaml", "application/apply-patch+cbor", "application/x-www-form-urlencoded",
    "application/vnd.kubernetes.protobuf", "text/plain",
)  # fmt: skip
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


JSON, MERGE = {"Content-Type": "application/json"}, {"Content-Type": "application/merge-patch+json"}


async def _admin(cluster: Cluster) -> route_matrix.Credential:
    return (await route_matrix.credentials(cluster))["admin"]


def _unserved(routes: list[Route]) -> Iterator[tuple[str, str]]:
    """Method and path of what no route of that path does."""
    by_path: dict[str, set[str]] = {}
    for route in routes:
        by_path.setdefault(route.path, set()).add(route.method)
    for path, methods in by_path.items():
        if "/api" in path and path.count("/") > 3:
            for method in METHODS:
                if method not in methods and not (method == "HEAD" and "GET" in methods):
                    yield method, path.format(namespace="default", name=NAME)


def test_methods_that_a_resource_does_not_have() -> None:
    async def scenario() -> None:
        async with Cluster(https=True) as cluster:
            admin, routes = await _admin(cluster), await route_matrix.all_routes(cluster)
            before = await cluster.server.api.store.revision()
            wrong = {}
            async with route_matrix.session(cluster, admin) as client:
                for method, path in _unserved(routes):
                    headers = MERGE if method == "PATCH" else JSON
                    async with client.request(method, path, data=b"{}", headers=headers) as response:
                        if response.status not in (404, 405):
                            wrong[f"{method} {path}"] = response.status
            assert wrong == {}
            assert await cluster.server.api.store.revision() == before

    aio.run(scenario())


def test_patch_types_that_are_not_supported() -> None:
    async def scenario() -> None:
        async with Cluster(https=True) as cluster:
            admin, routes = await _admin(cluster), await route_matrix.all_routes(cluster)
            before = await cluster.server.api.store.revision()
            async with route_matrix.session(cluster, admin) as client:
                for route in routes:
                    for content_type in PATCH_TYPES if route.verb == "patch" else ():
                        headers = {"Content-Type": content_type}
                        async with client.patch(route.url, data=b"{}", headers=headers) as response:
                            assert response.status == 415, (route, content_type)
            assert await cluster.server.api.store.revision() == before

    aio.run(scenario())


# Nothing can be created there.
_EMPTY: tuple[str, ...] = ()
SUPPORTED_PATCHES = {
    "application/json-patch+json": b"[]",
    "application/merge-patch+json": b"{}",
    "application/strategic-merge-patch+json": b"{}",
    "application/apply-patch+yaml": b"{}",  # without a kind it creates nothing
}


def test_the_four_patch_types_are_taken_by_every_resource() -> None:
    async def scenario() -> None:
        async with Cluster(https=True) as cluster:
            admin, routes = await _admin(cluster), await route_matrix.all_routes(cluster)
            patched = [route for route in routes if route.verb == "patch"]
            assert len(patched) > 20
            async with route_matrix.session(cluster, admin) as client:
                for route in patched:
                    for content_type, body in SUPPORTED_PATCHES.items():
                        headers = {"Content-Type": content_type}
                        url = f"{route.url}?fieldManager=test"
                        async with client.patch(url, data=body, headers=headers) as response:
                            # An apply would create what is not there.
                            empty = "apply" in content_type and any(f"{each}/" in route.path for each in _EMPTY)
                            assert response.status in (400, 404, 405 if empty else 404), (
                                route,
                                content_type,
                                await response.text(),
                            )

    aio.run(scenario())


# Which values the options of a verb may not have, whatever it is asked of.
_WRITE_OPTIONS = ("dryRun=Some", "dryRun=All&dryRun=Some", "fieldValidation=Often", "fieldManager=a%0Ab")
_DELETE_OPTIONS = ("dryRun=Some", "propagationPolicy=Sideways", "propagationPolicy=Orphan&orphanDependents=true")
_LIST_OPTIONS = (
    "resourceVersionMatch=Roughly&resourceVersion=1", "resourceVersionMatch=Exact", "resourceVersion=new",
    "sendInitialEvents=true", "labelSelector=%21%21", "fieldSelector=no.such.field%3Dx", "continue=nonsense",
)  # fmt: skip
OPTIONS = {
    "create": _WRITE_OPTIONS,
    "update": _WRITE_OPTIONS,
    "patch": _WRITE_OPTIONS,
    "delete": _DELETE_OPTIONS,
    "deletecollection": (*_DELETE_OPTIONS, *_LIST_OPTIONS[:3], *_LIST_OPTIONS[4:]),
    "list": _LIST_OPTIONS,
    # Kubernetes answers 500 to a watch from a version that is no number (case srv-watch-bad-rv).
    "watch": ("resourceVersionMatch=Roughly&resourceVersion=1", *_LIST_OPTIONS[4:6]),
}


# What is made up when it is read has no versions and no pages: they are passed over there, as in Kubernetes.
UNVERSIONED = "/api/v1/componentstatuses"


def test_options_that_no_verb_of_any_resource_takes() -> None:
    async def scenario() -> dict[str, int]:
        async with Cluster(https=True) as cluster:
            admin, routes = await _admin(cluster), await route_matrix.all_routes(cluster)
            before, wrong = await cluster.server.api.store.revision(), {}
            async with route_matrix.session(cluster, admin) as client:
                for route in routes:
                    for option in OPTIONS.get(route.verb, ()) if route.path != UNVERSIONED else ():
                        url = f"{route.url.partition('?')[0]}?{'watch=1&' if route.verb == 'watch' else ''}{option}"
                        headers = MERGE if route.verb == "patch" else JSON
                        body = b"{}" if route.verb in ("create", "update", "patch") else None
                        async with client.request(route.method, url, data=body, headers=headers) as response:
                            refused = (405,) if route.verb == "create" and route.path.endswith(_EMPTY) else (400, 422)
                            if response.status not in refused:
                                wrong[f"{route} {option}"] = response.status
                            response.close()
            assert await cluster.server.api.store.revision() == before
            return wrong

    assert aio.run(scenario()) == {}


# Those of the kinds that are served, in Kubernetes 1.36; the ones that are served here are in the matrix.
SUBRESOURCES = {
    "/api/v1/namespaces/default/pods": (
        "attach", "binding", "ephemeralcontainers", "eviction", "exec", "log", "portforward", "proxy", "resize",
    ),
    "/api/v1/namespaces/default/services": ("proxy",),
    "/api/v1/nodes": ("proxy",),
    "/api/v1/namespaces/default/serviceaccounts": ("status",),
    "/api/v1/namespaces/default/configmaps": ("status", "scale"),
    REQUESTS: ("scale", "proxy"),
}  # fmt: skip


def test_subresources_that_are_not_served() -> None:
    async def scenario() -> dict[str, int]:
        async with Cluster(https=True) as cluster:
            admin = await _admin(cluster)
            before, wrong = await cluster.server.api.store.revision(), {}
            async with route_matrix.session(cluster, admin) as client:
                for collection, names in SUBRESOURCES.items():
                    for path in (f"{collection}/{NAME}/{name}" for name in names):
                        for method in METHODS:
                            headers = MERGE if method == "PATCH" else JSON
                            async with client.request(method, path, data=b"{}", headers=headers) as response:
                                if response.status not in (404, 405):
                                    wrong[f"{method} {path}"] = response.status
            assert await cluster.server.api.store.revision() == before
            return wrong

    assert aio.run(scenario()) == {}


VALID = manifest("refused")


def _changed(**spec: object) -> bytes:
    return json.dumps({**VALID, "spec": {**VALID["spec"], **spec}}).encode()


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", f"{REQUESTS}?dryRun=Some", _changed()),
        ("POST", f"{REQUESTS}?fieldValidation=Often", _changed()),
        ("POST", f"{REQUESTS}?fieldValidation=Strict", _changed(unheardOf=1)),
        ("POST", f"{REQUESTS}?fieldManager=a%0Ab", _changed()),
        ("POST", REQUESTS, _changed(usages=["client auth", "world domination"])),
        ("POST", REQUESTS, _changed(usages=["client auth", "client auth"])),
        ("POST", REQUESTS, _changed(expirationSeconds=599)),
        ("POST", REQUESTS, _changed(signerName="kubernetes.io/legacy-unknown")),
        ("POST", REQUESTS, _changed(signerName="nodomain")),
        ("DELETE", f"{REQUESTS}/kept?propagationPolicy=Sideways", b""),
        ("DELETE", f"{REQUESTS}/kept", b'{"propagationPolicy": "Sideways"}'),
        ("DELETE", f"{REQUESTS}/kept", b'{"propagationPolicy": "Orphan", "orphanDependents": true}'),
        ("DELETE", f"{REQUESTS}/kept", b'{"gracePeriodSeconds": -1, "dryRun": ["Some"]}'),
        ("DELETE", f"{REQUESTS}/kept", b'{"preconditions": {"uid": "another"}}'),
        ("DELETE", f"{REQUESTS}?dryRun=Some", b""),
        ("DELETE", f"{REQUESTS}?fieldSelector=spec.usages%3Dx", b""),
        ("DELETE", f"{REQUESTS}?labelSelector=%21%21", b""),
        ("GET", f"{REQUESTS}?resourceVersionMatch=Roughly&resourceVersion=1", b""),
        ("GET", f"{REQUESTS}?resourceVersion=new", b""),
        ("GET", f"{REQUESTS}?limit=2&continue=nonsense", b""),
        ("GET", f"{REQUESTS}?watch=1&sendInitialEvents=true", b""),
    ],
)
def test_values_that_are_not_supported(method: str, path: str, body: bytes) -> None:
    async def scenario() -> None:
        async with Cluster(https=True) as cluster:
            async with route_matrix.session(cluster, await _admin(cluster)) as client:
                async with client.post(REQUESTS, json=manifest("kept")) as created:
                    assert created.status == 201
                before = await cluster.server.api.store.revision()
                sent = client.request(method, path, data=body or None, headers=JSON if body else None)
                async with sent as response:
                    status, text = response.status, await response.text()
            assert 400 <= status < 500 and status not in (401, 403), text
            assert json.loads(text)["kind"] == "Status"
            assert await cluster.server.api.store.revision() == before

    aio.run(scenario())
