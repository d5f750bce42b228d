"""The system namespaces come back whenever one is missing."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from asynctest import async_test
from kubevouch import wellknown
from kubevouch.api import catalog
from kubevouch.api.core_v1 import NamespaceSpec
from kubevouch.client.interface import Client
from kubevouch.machinery.errors import APIStatusError
from kubevouch.server.bootstrap import namespaces
from kubevouch.testing import Cluster
from kubevouch.testing.clock import FakeClock


async def names(client: Client) -> set[str]:
    return {obj.metadata.name for obj in (await client.list(catalog.NAMESPACES)).items}


async def remove(client: Client, name: str) -> None:
    """Gone for good: also what holds it until its content is gone."""
    await client.delete(catalog.NAMESPACES, name)
    obj = await client.get(catalog.NAMESPACES, name)
    empty = msgspec.structs.replace(obj, spec=NamespaceSpec())
    await client.update(catalog.NAMESPACES, empty, subresource="finalize")


@async_test
async def test_what_is_missing_is_made_and_what_is_there_is_left() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        kept = await client.get(catalog.NAMESPACES, "kube-system")
        await remove(client, "kube-node-lease")
        assert "kube-node-lease" not in await names(client)
        await namespaces.ensure(client)
        assert set(wellknown.SYSTEM_NAMESPACES) <= await names(client)
        assert await client.get(catalog.NAMESPACES, "kube-system") == kept


@async_test
async def test_who_may_not_look_is_an_error() -> None:
    async with Cluster() as cluster:
        with pytest.raises(APIStatusError) as caught:
            await namespaces.ensure(cluster.client("stranger"))
        assert caught.value.code == 403


@async_test
async def test_keep_looks_every_minute_and_survives_refusals() -> None:
    async with Cluster() as cluster:
        client, clock = cluster.client(), FakeClock()
        keeper = asyncio.create_task(namespaces.keep(client, clock))
        refused = asyncio.create_task(namespaces.keep(cluster.client("stranger"), clock))
        await remove(client, "kube-node-lease")
        await clock.until_asleep(2)
        await clock.run(59)
        assert "kube-node-lease" not in await names(client)
        await clock.run(1)
        for _ in range(200):
            if "kube-node-lease" in await names(client):
                break
            await asyncio.sleep(0)
        assert "kube-node-lease" in await names(client)
        assert not refused.done()
        for task in (keeper, refused):
            task.cancel()
        await asyncio.wait({keeper, refused})
