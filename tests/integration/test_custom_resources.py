"""Custom resources as audit, admission and clients with types of their own see them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from admission_webhook import AdmissionWebhook, configuration, patch, rule
from admission_world import configure, with_webhook
from asynctest import async_test
from custom_world import GROUP, WIDGETS_PATH, ask, definition, put, widget
from definition_world import create, is_settled, until
from integration.test_audit import about, audited
from kubevouch.client.interface import Client
from kubevouch.machinery.declaration import Int64, Struct, always, wire
from kubevouch.machinery.meta import Object, ObjectMeta
from kubevouch.machinery.scheme import Resource
from kubevouch.testing import Cluster


class WidgetSpec(Struct):
    size: Annotated[Int64, wire(1)] = 0
    color: Annotated[str, wire(2)] = ""


class Widget(Object):
    """A kind of one's own, with a type of its own."""

    spec: Annotated[WidgetSpec, wire(2)] = always(WidgetSpec)


WIDGETS = Resource(GROUP, "v1", "Widget", "widgets", Widget, namespaced=True)


@async_test
async def test_a_client_with_a_type_of_its_own_reads_and_writes_custom_objects() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        await put(cluster.server, definition())
        meta = ObjectMeta(name="w", namespace="default")
        made = await client.create(WIDGETS, Widget(metadata=meta, spec=WidgetSpec(color="red")))
        # The schema fills in what the type leaves out.
        assert made.spec == WidgetSpec(size=3, color="red")
        assert await client.get(WIDGETS, "w", "default") == made
        assert (await client.list(WIDGETS)).items == [made]
        events = client.watch(WIDGETS, "default")
        assert (await anext(events)).object == made
        await events.aclose()


@async_test
async def test_an_event_has_the_documents_as_they_were_sent_and_answered(tmp_path: Path) -> None:
    async with audited(tmp_path) as (at, events):
        await put(at.server, definition())
        answer = await ask(at.admin, "POST", WIDGETS_PATH, widget(spec={"color": "red", "shade": 1}))
        assert answer.status == 201
        stored = json.loads(answer.body)
    (event,) = about(events, WIDGETS_PATH)
    assert event["requestObject"] == {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Widget",
        "metadata": {"name": "w"},
        "spec": {"color": "red", "size": 3},
    }
    assert event["responseObject"] == stored
    assert (event["objectRef"]["resource"], event["objectRef"]["apiGroup"]) == ("widgets", GROUP)


def test_a_webhook_sees_and_changes_custom_objects(tmp_path: Path) -> None:
    async def scenario(client: Client, webhook: AdmissionWebhook) -> None:
        await create(client, definition())
        await until(client, is_settled)
        webhook.answer = patch({"op": "add", "path": "/spec/color", "value": "blue"})
        own = rule("widgets", "CREATE", group=GROUP)
        await configure(client, configuration("Mutating", webhook.entry(rules=[own])))
        answer = await ask(client, "POST", WIDGETS_PATH, widget(spec={}))
        assert json.loads(answer.body)["spec"] == {"color": "blue", "size": 3}
        (request,) = webhook.requests
        assert request["object"]["spec"] == {"size": 3}
        assert request["kind"] == {"group": GROUP, "version": "v1", "kind": "Widget"}
        assert request["resource"] == {"group": GROUP, "version": "v1", "resource": "widgets"}

    with_webhook(tmp_path, scenario)
