"""What discovery and OpenAPI say of subresources that hand requests on, and of kinds with two versions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kubectl import kubectl_of
from kubevouch.testing import Cluster
from wire import Wire

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
PROXY = "/api/v1/nodes/{name}/proxy"
VERBS = ["create", "delete", "get", "patch", "update"]
SCALERS = "/apis/autoscaling/v1/horizontalpodautoscalers"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(https=True) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def api(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Wire:
    return Wire.of_kubeconfig(cluster.kubeconfig, tmp_path_factory.mktemp("pair"))


def read(api: Wire, path: str, accept: str = "*/*") -> Any:
    return json.loads(api.request("GET", path, Accept=accept).body)


@pytest.mark.parametrize("document", ["/openapi/v2", "/openapi/v3/api/v1"])
def test_a_proxy_is_described(api: Wire, document: str) -> None:
    paths = read(api, document)["paths"]
    for path, suffix, placeholders in ((PROXY, "", {"name"}), (f"{PROXY}/{{path}}", "WithPath", {"name", "path"})):
        item = paths[path]
        parameters = {(each["in"], each["name"]) for each in item.pop("parameters")}
        assert parameters == {("query", "path"), *(("path", name) for name in placeholders)}
        assert {method: each["operationId"] for method, each in item.items()} == {
            method: f"connectCoreV1{method.title()}NodeProxy{suffix}"
            for method in ("get", "put", "post", "delete", "head", "patch")
        }
        for each in item.values():
            assert each["x-kubernetes-action"] == "connect"
            kind = {"group": "", "version": "v1", "kind": "NodeProxyOptions"}
            assert each["x-kubernetes-group-version-kind"] == kind


def test_a_proxy_is_discovered(api: Wire) -> None:
    (row,) = [each for each in read(api, "/api/v1")["resources"] if each["name"] == "nodes/proxy"]
    assert row == {
        "name": "nodes/proxy", "singularName": "", "namespaced": False, "kind": "NodeProxyOptions", "verbs": VERBS
    }  # fmt: skip
    (core,) = read(api, "/api", AGGREGATED)["items"]
    (nodes,) = [each for each in core["versions"][0]["resources"] if each["resource"] == "nodes"]
    (proxy,) = [each for each in nodes["subresources"] if each["subresource"] == "proxy"]
    kind = {"group": "", "version": "", "kind": "NodeProxyOptions"}
    assert proxy == {"subresource": "proxy", "responseKind": kind, "verbs": VERBS}


def test_the_older_version_of_an_empty_kind(cluster: Cluster, api: Wire) -> None:
    group = read(api, "/apis/autoscaling")
    assert [each["version"] for each in group["versions"]] == ["v2", "v1"]
    assert group["preferredVersion"]["version"] == "v2"
    found = read(api, SCALERS)
    assert (found["kind"], found["apiVersion"], found["items"]) == (
        "HorizontalPodAutoscalerList", "autoscaling/v1", []
    )  # fmt: skip
    hashes = {
        version: [each.get("storageVersionHash") for each in read(api, f"/apis/autoscaling/{version}")["resources"]]
        for version in ("v1", "v2")
    }
    assert hashes == {"v1": ["qwQve8ut294="], "v2": ["qwQve8ut294="]}
    assert (
        "/apis/autoscaling/v1/watch/horizontalpodautoscalers" in read(api, "/openapi/v3/apis/autoscaling/v1")["paths"]
    )
    kubectl = kubectl_of(cluster, "1.37")
    shown = kubectl("get", "horizontalpodautoscalers.v1.autoscaling", "-A")
    assert (shown.returncode, shown.stdout, shown.stderr) == (0, "", "No resources found\n")
    made = api.json("POST", "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers", {})
    assert made.code == 405 and "kubevouch runs no workloads" in made.status["message"]
