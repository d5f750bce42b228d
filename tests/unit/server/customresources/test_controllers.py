"""What a running server says of definitions by itself."""

from __future__ import annotations

import asyncio
import json

from asynctest import async_test
from custom_world import GROUP, WIDGETS_PATH, ask, definition, widget
from definition_world import MERGE_PATCH, NAME, PATH, change, conditions, create, is_settled, until
from kubevouch.testing import Cluster

_GADGETS = f"gadgets.{GROUP}"


@async_test
async def test_a_definition_is_usable_once_it_is_established() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        await create(client, definition())
        found = await until(client, is_settled)
        assert conditions(found) == {
            "NamesAccepted": ("True", "NoConflicts", "no conflicts found"),
            "Established": ("True", "InitialNamesAccepted", "the initial names have been accepted"),
        }
        assert found["status"]["acceptedNames"] == found["spec"]["names"]
        assert (await ask(client, "POST", WIDGETS_PATH, widget())).status == 201


@async_test
async def test_of_many_that_want_one_kind_at_once_one_gets_it() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        plurals = [f"{letter}widgets" for letter in "abcdefgh"]
        await asyncio.gather(*(create(client, definition(plural=plural)) for plural in plurals))
        found = [await until(client, is_settled, f"{plural}.{GROUP}") for plural in plurals]
        states = [conditions(each)["Established"][1] for each in found]
        assert sorted(states) == ["InitialNamesAccepted"] + ["NotAccepted"] * 7
        kinds = [each["status"]["acceptedNames"]["kind"] for each in found]
        assert sorted(kinds) == [""] * 7 + ["Widget"]


@async_test
async def test_a_name_that_is_let_go_is_for_those_who_wait() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        manifest = definition()
        manifest["spec"]["names"]["shortNames"] = ["g"]
        await create(client, manifest)
        await until(client, is_settled)
        other = definition(plural="gadgets", kind="Gadget")
        other["spec"]["names"]["shortNames"] = ["g"]
        await create(client, other)
        found = await until(client, is_settled, _GADGETS)
        assert conditions(found)["NamesAccepted"] == ("False", "ShortNamesConflict", '"g" is already in use')
        await change(client, {"spec": {"names": {"shortNames": ["w"]}}})
        found = await until(client, lambda each: conditions(each)["Established"][0] == "True", _GADGETS)
        assert found["status"]["acceptedNames"]["shortNames"] == ["g"]


@async_test
async def test_a_definition_takes_its_objects_with_it() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        await create(client, definition())
        await until(client, is_settled)
        for number in range(100):
            assert (await ask(client, "POST", WIDGETS_PATH, widget(f"w{number}"))).status == 201
        assert (await ask(client, "DELETE", f"{PATH}/{NAME}")).status == 200
        await until(client, lambda found: found is None)
        assert [item.key for item in (await cluster.server.api.store.list(f"/registry/{GROUP}/")).items] == []
        await create(client, definition())
        await until(client, is_settled)
        assert json.loads((await ask(client, "GET", WIDGETS_PATH)).body)["items"] == []


@async_test
async def test_a_definition_waits_for_objects_that_somebody_holds() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        await create(client, definition())
        await until(client, is_settled)
        await ask(client, "POST", WIDGETS_PATH, widget(metadata={"name": "w", "finalizers": ["example.com/hold"]}))
        await ask(client, "DELETE", PATH)
        found = await until(client, lambda found: conditions(found)["Terminating"][1] != "InstanceDeletionPending")
        assert conditions(found)["Terminating"] == (
            "True", "InstanceDeletionInProgress", "CustomResource deletion is in progress",
        )  # fmt: skip
        answer = await ask(client, "POST", WIDGETS_PATH, widget("x"))
        assert json.loads(answer.body)["message"] == (
            f'{NAME} "x" is forbidden: create not allowed while custom resource definition is terminating'
        )
        patched = await ask(client, "PATCH", f"{WIDGETS_PATH}/w", {"metadata": {"finalizers": None}}, MERGE_PATCH)
        assert patched.status == 200
        await until(client, lambda found: found is None)


@async_test
async def test_who_was_never_established_has_no_objects() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        await create(client, definition())
        await until(client, is_settled)
        other = definition(plural="gadgets")
        other["metadata"]["finalizers"] = ["example.com/hold"]
        await create(client, other)
        await until(client, is_settled, _GADGETS)
        await ask(client, "DELETE", f"{PATH}/{_GADGETS}")
        found = await until(client, lambda found: conditions(found)["Terminating"][0] == "False", _GADGETS)
        assert conditions(found)["Terminating"] == ("False", "NeverEstablished", "resource was never established")
        assert found["metadata"]["finalizers"] == ["example.com/hold"]
