"""What a running server says of definitions by itself."""

from __future__ import annotations

import asyncio

from asynctest import async_test
from custom_world import GROUP, WIDGETS_PATH, ask, definition, widget
from definition_world import change, conditions, create, is_settled, until
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
