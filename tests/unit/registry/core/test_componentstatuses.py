"""registry/core/componentstatuses.py: what an old client hears of the control plane."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kubectl import kubectl_of
from kubevouch.api import catalog
from kubevouch.testing import Cluster
from wire import Wire

COMPONENTS = "/api/v1/componentstatuses"
NO_CONTROLLERS = "no controllers run inside of this server"
NO_SCHEDULER = "there is none: kubevouch runs no workloads"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
WARNING = "v1 ComponentStatus is deprecated in v1.19+"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(https=True) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def api(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Wire:
    return Wire.of_kubeconfig(cluster.kubeconfig, tmp_path_factory.mktemp("pair"))


def component(name: str, status: str, message: str) -> dict[str, Any]:
    condition = {"type": "Healthy", "status": status, "message": message}
    return {"metadata": {"name": name}, "conditions": [condition]}


def test_the_parts_of_the_control_plane(api: Wire) -> None:
    reply = api.request("GET", COMPONENTS)
    assert reply.headers["Warning"] == f'299 - "{WARNING}"'
    assert json.loads(reply.body) == {
        "kind": "ComponentStatusList",
        "apiVersion": "v1",
        "metadata": {},
        "items": [
            component("controller-manager", "False", NO_CONTROLLERS),
            component("scheduler", "False", NO_SCHEDULER),
            component("etcd-0", "True", "ok"),
        ],
    }
    one = json.loads(api.request("GET", f"{COMPONENTS}/etcd-0").body)
    assert one == {"kind": "ComponentStatus", "apiVersion": "v1", **component("etcd-0", "True", "ok")}


def test_one_that_there_is_not(api: Wire) -> None:
    assert api.request("GET", f"{COMPONENTS}/none").told == (500, "", "Component not found: none")


@pytest.mark.parametrize(
    ("query", "names"),
    [("fieldSelector=metadata.name%3Dscheduler", ["scheduler"]), ("labelSelector=a%3Db", []), ("limit=1", None)],
)
def test_which_are_listed(api: Wire, query: str, names: list[str] | None) -> None:
    found = json.loads(api.request("GET", f"{COMPONENTS}?{query}").body)["items"]
    shown = [each["metadata"]["name"] for each in found]
    assert shown == (["controller-manager", "scheduler", "etcd-0"] if names is None else names)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", ""),
        ("DELETE", ""),
        ("PUT", "/etcd-0"),
        ("DELETE", "/etcd-0"),
        ("GET", "?watch=1"),
        ("GET", "/a/status"),
    ],
)
def test_they_are_read_and_no_more(api: Wire, method: str, path: str) -> None:
    assert api.json(method, f"{COMPONENTS}{path}", {}).code in (404, 405)


def test_discovery_and_openapi_know_them(api: Wire) -> None:
    rows = json.loads(api.request("GET", "/api/v1").body)["resources"]
    assert [each for each in rows if each["name"] == "componentstatuses"] == [
        {
            "name": "componentstatuses", "singularName": "componentstatus", "namespaced": False,
            "kind": "ComponentStatus", "verbs": ["get", "list"], "shortNames": ["cs"],
        }
    ]  # fmt: skip
    paths = json.loads(api.request("GET", "/openapi/v3/api/v1").body)["paths"]
    assert [path for path in paths if "componentstatus" in path] == [COMPONENTS, f"{COMPONENTS}/{{name}}"]


def test_kubectl_shows_them(cluster: Cluster) -> None:
    shown = kubectl_of(cluster, "1.37")("get", "cs")
    assert shown.stderr == f"Warning: {WARNING}\n"
    assert [line.split(None, 2) for line in shown.stdout.splitlines()] == [
        ["NAME", "STATUS", "MESSAGE                                      ERROR"],
        ["controller-manager", "Unhealthy", f"{NO_CONTROLLERS}     "],
        ["scheduler", "Unhealthy", f"{NO_SCHEDULER}   "],
        ["etcd-0", "Healthy", "ok                                           "],
    ]


def test_controllers_that_run_are_healthy() -> None:
    with Cluster(controllers=("*",)) as cluster:
        found = cluster.run(cluster.client().get(catalog.COMPONENT_STATUSES, "controller-manager"))
    assert (found.conditions[0].status, found.conditions[0].message) == ("True", "ok")
