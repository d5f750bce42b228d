"""Kinds of one's own in ``kubevouch.testing.Cluster``."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from asynctest import async_test
from custom_world import GROUP, definition, version
from kubevouch.machinery.errors import APIStatusError, Reason
from kubevouch.testing import (
    Cluster,
    ClusterError,
    DefinitionSourceError,
    ManifestError,
    WaitTimeout,
    has_condition,
    wait_for,
)

WIDGET: dict[str, Any] = {
    "apiVersion": f"{GROUP}/v1",
    "kind": "Widget",
    "metadata": {"name": "w"},
    "spec": {"color": "red"},
}
STATUS = version(subresources={"status": {}})


def test_objects_of_the_kind_are_dicts_and_have_all_verbs() -> None:
    with Cluster(crds=[definition(STATUS)]) as c:
        made = c.create(WIDGET)
        assert (made["apiVersion"], made["kind"], made["spec"]) == (
            f"{GROUP}/v1",
            "Widget",
            {"color": "red", "size": 3},
        )
        assert c.get("Widget", "w") == c.get(f"widgets.{GROUP}", "w") == c.get(f"widget.v1.{GROUP}", "w") == made
        changed = c.update({**made, "spec": {"size": 4}})
        assert (changed["spec"], changed["metadata"]["generation"]) == ({"size": 4}, 2)
        with pytest.raises(APIStatusError, match="please apply your changes to the latest version"):
            c.update(made)
        applied = c.apply({**WIDGET, "status": {"size": 4}}, subresource="status")
        assert applied["status"] == {"size": 4}
        assert [each["metadata"]["name"] for each in c.list("widgets")] == ["w"]
        with pytest.raises(WaitTimeout):
            c.wait_for("widgets", "w", until=lambda each: each["status"]["nothing"][0]["here"], timeout=0.05)
        assert c.wait_for("widgets", "w", until=lambda each: each["status"]["size"] == 4) == c.get("widgets", "w")
        with pytest.raises(WaitTimeout, match=r"(?s)Widget default/w: waited .*spec:\n  size: 4"):
            c.wait_for("widgets", "w", until=has_condition("Ready"), timeout=0.05)
        with pytest.raises(APIStatusError, match=r"\.spec\.shade: field not declared in schema"):
            c.apply({**WIDGET, "spec": {"shade": "dark"}})
        with pytest.raises(APIStatusError, match=r"\.spec\.size: expected numeric \(int or float\), got string"):
            c.apply({**WIDGET, "spec": {"size": "large"}})
        alice = c.as_user("alice")
        with pytest.raises(APIStatusError, match=f'User "alice" cannot get resource "widgets" in API group "{GROUP}"'):
            alice.get("widgets", "w")
        c.delete("widgets", "w")
        c.wait_for_deletion("widgets", "w")


def test_a_kind_may_come_and_change_while_the_cluster_runs(tmp_path: Path) -> None:
    with Cluster() as c:
        with pytest.raises(ManifestError, match=r"got the kind 'Widget' of .*cluster\.crd\("):
            c.create(WIDGET)
        (tmp_path / "widgets.json").write_text(json.dumps(definition()))
        assert c.crd(tmp_path, definition(plural="gadgets", kind="Gadget")) == [f"widgets.{GROUP}", f"gadgets.{GROUP}"]
        assert c.create({**WIDGET, "kind": "Gadget"})["spec"]["size"] == 3
        assert c.create(WIDGET)["spec"]["size"] == 3
        schema = {
            "type": "object",
            "properties": {"spec": {"type": "object", "properties": {"color": {"type": "string"}}}},
        }
        c.crd(definition(version(schema=schema), version("v2", schema, storage=False)))
        assert c.get("widgets", "w")["spec"] == {"color": "red"}
        assert c.get("widgets", "w")["apiVersion"] == f"{GROUP}/v2"
        assert c.get(f"widgets.v1.{GROUP}", "w")["apiVersion"] == f"{GROUP}/v1"


def test_a_snapshot_has_the_kinds_too() -> None:
    with Cluster(https=True, crds=[definition()]) as c:
        c.create(WIDGET)
        before = c.snapshot()
        for _ in range(2):
            c.crd(definition(plural="gadgets", kind="Gadget"))
            c.create({**WIDGET, "kind": "Gadget"})
            c.delete("crd", f"widgets.{GROUP}")
            c.wait_for_deletion("crd", f"widgets.{GROUP}")
            with pytest.raises(ManifestError):
                c.get("widgets", "w")
            c.restore(before)
            assert c.get("widgets", "w")["spec"]["color"] == "red"
            assert c.create({**WIDGET, "metadata": {"name": "another"}})
            with pytest.raises(ManifestError):
                c.get("gadgets", "w")
        empty = Cluster()
        with empty:
            assert empty.resource("cm").kind == "ConfigMap"


def test_definitions_that_are_refused_say_why() -> None:
    refused = definition()
    refused["spec"]["scope"] = "Everywhere"
    with (
        pytest.raises(DefinitionSourceError, match=r'the dict: .*spec\.scope: Unsupported value: "Everywhere"'),
        Cluster(crds=[refused]),
    ):
        pass
    misspelt = definition()
    misspelt["spec"]["scop"] = "Namespaced"
    with Cluster() as c:
        with pytest.raises(DefinitionSourceError, match=r'unknown field "spec\.scop"'):
            c.crd(misspelt)
        c.crd(definition())
        with pytest.raises(
            DefinitionSourceError, match=f'the names of others.{GROUP} are not accepted: "WidgetList" is already'
        ):
            c.crd(definition(plural="others"))
    with pytest.raises(ClusterError, match=r"got crds='deploy/crds', expected a list, such as \['deploy/crds'\]"):
        Cluster(crds="deploy/crds")
    with pytest.raises(DefinitionSourceError, match="No such file"), Cluster(crds=["no/such.yaml"]):
        pass


@async_test
async def test_in_coroutines() -> None:
    async with Cluster(crds=[definition()]) as c:
        await c.crd_async(definition(plural="gadgets", kind="Gadget"))
        widgets = c.resource("widgets")
        client = c.client()
        answer = await client.raw(
            "POST", widgets.path("default"), json.dumps(WIDGET).encode(), {"Content-Type": "application/json"}
        )
        assert answer.status == 201
        assert (await client.get(widgets, "w", "default")).content["spec"]["color"] == "red"
        found: Any = await wait_for(client, widgets, "w", "default", until=lambda each: bool(each.content["spec"]))
        assert found.metadata.uid
        with pytest.raises(APIStatusError) as caught:
            await client.get(c.resource("gadgets"), "w", "default")
        assert caught.value.reason == Reason.NOT_FOUND


def test_ten_kinds_are_quick() -> None:
    kinds = [definition(plural=f"kind{n}s", kind=f"Kind{n}") for n in range(10)]
    with Cluster(crds=kinds):  # what a process does only once
        pass
    taken = []
    for _ in range(5):
        before = time.process_time()  # its own work, for the machine may be busy with others
        with Cluster(https=True, crds=kinds):
            taken.append(time.process_time() - before)
    assert min(taken) < 0.4
