"""Real kubectl, and client libraries that learn kinds from the server, on kinds that come while they watch."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from typing import Any

import kr8s
import kr8s.asyncio
import kubernetes
import kubernetes.dynamic
import lightkube
import pytest
from kr8s.asyncio.objects import new_class
from lightkube.config.kubeconfig import KubeConfig
from lightkube.generic_resource import create_namespaced_resource
from lightkube.types import PatchType

from custom_world import GROUP, definition, version, widget
from kubectl import Kubectl, kubectl_of
from kubevouch.testing import Cluster

# One that reads OpenAPI 2 alone, one that reads both, and the newest.
VERSIONS = ("1.20", "1.28", "1.37")
SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "A widget.",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "description": "What it should be.",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "description": "How big."},
                "color": {"type": "string", "enum": ["red", "blue"]},
                "port": {"x-kubernetes-int-or-string": True},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "maybe": {"type": "string", "nullable": True},
                "inner": {
                    "type": "object", "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                },
                "parts": {
                    "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object", "required": ["name"],
                        "properties": {"name": {"type": "string"}, "share": {"type": "number", "maximum": 1.5}},
                    },
                },
            },
        },
        "status": {"type": "object", "properties": {"size": {"type": "integer"}, "selector": {"type": "string"}}},
    },
}  # fmt: skip
WIDGET = widget(
    spec={
        "size": 2, "color": "red", "port": "http", "free": {"a": {"b": [1]}}, "maybe": None,
        "inner": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"x": 1}},
        "parts": [{"name": "a", "share": 0.5}],
    }
)  # fmt: skip


def manifest() -> Any:
    tree = definition(
        version(
            schema=SCHEMA,
            subresources={
                "status": {},
                "scale": {
                    "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size",
                    "labelSelectorPath": ".status.selector",
                },
            },
            additionalPrinterColumns=[
                {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
            ],
        )
    )  # fmt: skip
    tree["spec"]["names"] |= {"shortNames": ["wd"], "categories": ["all"]}
    return tree


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(https=True, real_time=True) as cluster:
        yield cluster


@pytest.fixture(params=VERSIONS)
def kubectl(cluster: Cluster, request: pytest.FixtureRequest) -> Kubectl:
    """With diff and an editor."""
    return kubectl_of(cluster, request.param, PATH=os.environ["PATH"], KUBE_EDITOR="sed -i s/red/blue/")


def test_a_kind_that_comes_after_kubectl_has_learnt_all_kinds(kubectl: Kubectl) -> None:
    def done(*arguments: str, given: Any = None) -> str:
        text = None if given is None else json.dumps(given)
        ran = kubectl(*arguments, given=text)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    assert "widgets" not in done("api-resources")  # which is on its disk now
    done("apply", "-f", "-", given=manifest())
    done("wait", "--for=condition=Established", f"crd/widgets.{GROUP}", "--timeout=20s")
    assert done("apply", "-f", "-", given=WIDGET) == f"widget.{GROUP}/w created\n"
    refused = kubectl("apply", "-f", "-", given=json.dumps(widget(spec={"size": 1, "shade": "dark"})))
    assert refused.returncode == 1
    assert "shade" in refused.stderr and "unknown field" in refused.stderr
    assert "How big." in done("explain", "widget.spec.size")
    fields = done("explain", "wd", "--recursive")
    assert all(name in fields for name in ("size", "parts", "share", "ownerReferences", "selector"))
    assert f"widget.{GROUP}/w" in done("get", "all")
    assert done("get", "wd", "-o", "wide").split() == ["NAME", "SIZE", "COLOR", "w", "2", "red"]
    done("scale", "widget", "w", "--replicas=5")
    assert done("get", f"widgets.{GROUP}", "w", "-o", "jsonpath={.spec.size}") == "5"
    assert done("get", "widgets.v1.demo.example.com", "-o", "name") == f"widget.{GROUP}/w\n"
    assert f"{GROUP}/v1" in done("api-versions").split()
    assert "widgets" in done("api-resources", f"--api-group={GROUP}")
    changed = kubectl(
        "diff", "--server-side", "--force-conflicts", "-f", "-", given=json.dumps(widget(spec={"size": 7}))
    )
    assert (changed.returncode, "+  size: 7" in changed.stdout) == (1, True), changed.stderr
    done("edit", "widget", "w")
    assert done("get", "wd", "w", "-o", "jsonpath={.spec.color}") == "blue"
    done("delete", "-f", "-", given=manifest())
    gone = kubectl("get", "widgets")
    assert gone.returncode == 1 and "(NotFound)" in gone.stderr  # it remembers the kind for a while
    assert "widgets" not in done("api-resources", "--cached=false")


def test_kubectl_explains_the_schemas_of_definitions(kubectl: Kubectl) -> None:
    for path, said in (
        ("crd.spec.versions.schema.openAPIV3Schema", "x-kubernetes-validations"),
        ("crd.spec.versions.schema.openAPIV3Schema.properties.items", "JSONSchemaProps"),
        ("crd.spec.versions.schema.openAPIV3Schema.x-kubernetes-validations.messageExpression", "message"),
    ):
        ran = kubectl("explain", path)
        assert (ran.returncode == 0 and said in ran.stdout) or "a list of schemas" in ran.stdout, (path, ran)
    refused = kubectl("apply", "-f", "-", given=json.dumps(manifest() | {"spec": manifest()["spec"] | {"scop": "x"}}))
    assert refused.returncode == 1 and "scop" in refused.stderr


# ------------------------------------------------------------------ libraries


def test_the_dynamic_client_finds_a_kind_that_came_after_it(cluster: Cluster) -> None:
    api = kubernetes.config.new_client_from_config(str(cluster.kubeconfig))  # type: ignore[no-untyped-call]
    client = kubernetes.dynamic.DynamicClient(api)  # type: ignore[no-untyped-call]
    with pytest.raises(kubernetes.dynamic.exceptions.ResourceNotFoundError):
        client.resources.get(api_version=f"{GROUP}/v1", kind="Widget")
    cluster.crd(manifest())
    widgets = client.resources.get(api_version=f"{GROUP}/v1", kind="Widget")
    assert (widgets.name, widgets.namespaced, widgets.subresources["scale"].kind) == ("widgets", True, "Scale")
    made = widgets.create(body=WIDGET, namespace="default")
    assert (made.spec.size, made.metadata.generation) == (2, 1)
    patched = widgets.status.patch(
        body={"status": {"size": 2}}, name="w", namespace="default", content_type="application/merge-patch+json"
    )
    assert patched.status.size == 2
    assert [each.metadata.name for each in widgets.get(namespace="default").items] == ["w"]


@pytest.mark.filterwarnings("ignore:Kubernetes version:UserWarning")
def test_kr8s_finds_a_kind_that_came_after_it(cluster: Cluster) -> None:
    async def scenario() -> None:
        api = await kr8s.asyncio.api(kubeconfig=str(cluster.kubeconfig))
        await api.api_resources()
        await asyncio.to_thread(cluster.crd, manifest())
        kind = new_class("Widget", f"{GROUP}/v1", namespaced=True, scalable=True)
        obj = await kind(WIDGET, namespace="default", api=api)
        await obj.create()
        await obj.patch({"status": {"size": 2}}, subresource="status")
        assert obj.status["size"] == 2
        found = [each.name async for each in kr8s.asyncio.get(f"widgets.{GROUP}", api=api, namespace="default")]
        assert found == ["w"]
        if api._session is not None:
            await api._session.aclose()

    asyncio.run(scenario())


def test_lightkube_works_on_a_custom_kind(cluster: Cluster) -> None:
    cluster.crd(manifest())
    kind = create_namespaced_resource(GROUP, "v1", "Widget", "widgets")
    with lightkube.Client(KubeConfig.from_file(cluster.kubeconfig), trust_env=False) as client:
        assert client.create(kind.from_dict(WIDGET), namespace="default")["spec"]["size"] == 2
        client.patch(kind.Status, "w", {"status": {"size": 2}}, namespace="default", patch_type=PatchType.MERGE)
        assert client.get(kind, "w", namespace="default")["status"]["size"] == 2
        scale = client.get(kind.Scale, "w", namespace="default")
        assert scale.spec is not None and scale.status is not None
        assert (scale.spec.replicas, scale.status.replicas) == (2, 2)
