"""client/pager.py."""

from __future__ import annotations

import ssl

import pytest

from asynctest import async_test
from cache_world import RESOURCE, config_map, listing, names, world
from kubevouch.client.interface import ListOptions
from kubevouch.client.pager import list_all
from kubevouch.machinery.errors import APIStatusError
from scripted_server import reply_status
from throwaway_ca import ThrowawayCA

ONE, TWO, THREE = (config_map(name, version) for version, name in enumerate(("one", "two", "three"), 1))


@async_test
async def test_pages_are_followed_and_the_first_gives_the_version(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    async with world(ca, serving) as at:
        at.server.script(listing(7, ONE, continue_token="t1"), listing(8, TWO, continue_token="t2"), listing(9, THREE))
        options = ListOptions(limit=1, label_selector="a", resource_version="5", resource_version_match="NotOlderThan")
        collection = await list_all(at.client, RESOURCE, "n", options)
        assert names(collection.items) == ["one", "three", "two"]
        assert (collection.resource_version, collection.paged) == ("7", True)
        common = {"limit": "1", "labelSelector": "a"}
        assert at.queries == [
            common | {"resourceVersion": "5", "resourceVersionMatch": "NotOlderThan"},
            common | {"continue": "t1"},
            common | {"continue": "t2"},
        ]


@async_test
async def test_an_expired_token_reads_everything_in_one_piece(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    async with world(ca, serving) as at:
        gone = reply_status(410, "Expired", "too old")
        at.server.script(listing(7, ONE, continue_token="t1"), gone, listing(9, ONE, TWO))
        collection = await list_all(at.client, RESOURCE, "n", ListOptions(limit=1, resource_version="0"))
        assert (names(collection.items), collection.resource_version) == (["one", "two"], "9")
        assert at.queries[-1] == {"resourceVersion": "0"}


@async_test
async def test_other_failures_are_the_caller_s(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    async with world(ca, serving) as at:
        at.server.script(listing(7, ONE, continue_token="t1"), reply_status(500, "InternalError", "boom"))
        with pytest.raises(APIStatusError, match="boom"):
            await list_all(at.client, RESOURCE)
        at.server.script(reply_status(410, "Expired", "too old"))
        with pytest.raises(APIStatusError, match="too old"):
            await list_all(at.client, RESOURCE)
