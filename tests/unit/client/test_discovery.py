from __future__ import annotations

import json
from typing import Any

import pytest

from asynctest import async_test
from controller_world import world
from kubevouch.api import catalog
from kubevouch.client.discovery import deletable, discover
from kubevouch.client.interface import RawResponse
from kubevouch.machinery.custom_object import CustomObject
from kubevouch.machinery.errors import APIStatusError


class Pages:
    """A server's pages of discovery, by path."""

    def __init__(self, pages: dict[str, Any]) -> None:
        self._pages = pages

    async def raw(self, method: str, path: str) -> RawResponse:
        assert method == "GET"
        page = self._pages.get(path)
        return RawResponse(503) if page is None else RawResponse(200, {}, json.dumps(page).encode())


def _client(pages: dict[str, Any]) -> Any:
    return Pages(pages)


def _group(name: str, *versions: str) -> dict[str, Any]:
    listed = [{"groupVersion": f"{name}/{each}", "version": each} for each in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _resource(name: str, kind: str, *verbs: str, namespaced: bool = True) -> dict[str, Any]:
    return {"name": name, "kind": kind, "namespaced": namespaced, "verbs": list(verbs or ("list", "watch", "delete"))}


_V1 = {"resources": [_resource("nodes", "Node", namespaced=False), _resource("nodes/status", "Node", "get")]}


@async_test
async def test_what_kubevouch_serves_is_found_by_its_structs() -> None:
    async with world() as at:
        found = await discover(at.client)
        assert found.serves(catalog.NODES, "status")
        assert found.serves(catalog.CERTIFICATE_SIGNING_REQUESTS, "approval")
        assert not found.serves(catalog.CLUSTER_TRUST_BUNDLES)
        assert not found.failures
        # The same Events again.
        assert not any(each.group == "events.k8s.io" for each in found.preferred)
        assert catalog.LEASES in deletable(found.preferred, found)
        assert catalog.SUBJECT_ACCESS_REVIEWS not in deletable(found.preferred, found)


@async_test
async def test_kinds_without_a_struct_are_trees_and_come_once_in_the_preferred_version() -> None:
    pages = {
        "/apis": {"groups": [_group("apps", "v2", "v1"), _group("coordination.k8s.io", "v2", "v1")]},
        "/api/v1": _V1,
        "/apis/apps/v2": {"resources": [_resource("deployments", "Deployment")]},
        "/apis/apps/v1": {"resources": [_resource("deployments", "Deployment"), _resource("old", "Old")]},
        "/apis/coordination.k8s.io/v2": {"resources": [_resource("leases", "Lease")]},
        "/apis/coordination.k8s.io/v1": {"resources": [_resource("leases", "Lease")]},
    }
    found = await discover(_client(pages))
    kinds = {each.plural: each for each in found.preferred}
    assert (kinds["deployments"].version, kinds["deployments"].type) == ("v2", CustomObject)
    assert kinds["old"].version == "v1"
    # Of a kind that has a struct here, the version of the struct.
    assert kinds["leases"] == catalog.LEASES
    assert [each.plural for each in found.preferred].count("deployments") == 1


@async_test
async def test_a_group_whose_server_is_down_is_told_and_hides_no_other() -> None:
    pages = {"/apis": {"groups": [_group("metrics.k8s.io", "v1")]}, "/api/v1": _V1}
    found = await discover(_client(pages))
    assert list(found.failures) == ["metrics.k8s.io/v1"]
    assert found.serves(catalog.NODES)


@async_test
async def test_a_server_that_says_nothing_of_its_groups_is_an_error() -> None:
    with pytest.raises(APIStatusError):
        await discover(_client({}))


@async_test
async def test_what_is_no_document_of_discovery_is_an_error() -> None:
    pages = {"/apis": {"groups": "many"}, "/api/v1": _V1}
    with pytest.raises(APIStatusError, match="no document of discovery"):
        await discover(_client(pages))


@async_test
async def test_a_version_that_cannot_be_one_is_told_and_passed_over() -> None:
    pages = {"/apis": {"groups": [_group("a/b/c", "v1")]}, "/api/v1": _V1}
    found = await discover(_client(pages))
    assert found.serves(catalog.NODES, "status")
    assert found.failures == {"a/b/c/v1": "unexpected GroupVersion string: a/b/c/v1"}
