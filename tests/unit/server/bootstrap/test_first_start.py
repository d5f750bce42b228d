"""server/bootstrap/first_start.py: of servers that start together over an empty store one does what comes first."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from asynctest import async_test
from kubevouch import wellknown
from kubevouch.api import catalog
from kubevouch.api.core_v1 import Namespace
from kubevouch.client.interface import Client
from kubevouch.machinery.meta import ObjectMeta, replace_metadata
from kubevouch.phases import bootstrap_token
from kubevouch.server.bootstrap import first_start
from kubevouch.testing.clock import FakeClock
from kubevouch.testing.cluster import Cluster
from replicas_world import replicas

_HOLDER = "under-way somebody_1"


@pytest.mark.parametrize("seed", range(3))
@async_test
async def test_of_three_at_once_one_makes_the_tokens(tmp_path: Path, seed: int) -> None:
    clock, made = FakeClock(), list[Client]()

    async def at_first_start(client: Client) -> None:
        made.append(client)
        await bootstrap_token.ensure(client, bootstrap_token.DEFAULT_TTL, now=clock.now())

    async with replicas(3, tmp_path, clock, at_first_start=at_first_start, seed=seed) as servers:
        assert len(made) == 1
        for each in servers:
            assert await bootstrap_token.find(each.client, now=clock.now())
            tokens = (await each.client.list(catalog.SECRETS, wellknown.KUBE_SYSTEM_NAMESPACE)).items
            assert len(tokens) == 2


async def _mark(client: Client, mark: str) -> None:
    stored = await client.get(catalog.NAMESPACES, wellknown.KUBE_SYSTEM_NAMESPACE)
    await client.update(catalog.NAMESPACES, replace_metadata(stored, annotations={first_start.ANNOTATION: mark}))


@async_test
async def test_who_died_in_the_middle_is_waited_for_and_then_followed() -> None:
    async with Cluster() as cluster:
        clock, client = FakeClock(), cluster.client()
        await _mark(client, _HOLDER)
        begun = asyncio.create_task(first_start.begin(client, clock, alone=False))
        await clock.run(first_start.PATIENCE_SECONDS - 1)
        assert not begun.done()
        await clock.run(2)
        assert await begun
        stored = await client.get(catalog.NAMESPACES, wellknown.KUBE_SYSTEM_NAMESPACE)
        assert stored.metadata.annotations[first_start.ANNOTATION] not in (_HOLDER, "")
        # Who was taken for dead has lost it; what both make is made once, but for the tokens of one of them.
        await first_start.end(client)
        assert not await first_start.begin(client, clock, alone=False)


@async_test
async def test_who_ends_lets_those_on_who_wait() -> None:
    async with Cluster() as cluster:
        clock, client = FakeClock(), cluster.client()
        await _mark(client, _HOLDER)
        begun = asyncio.create_task(first_start.begin(client, clock, alone=False))
        await clock.run(1)
        await first_start.end(client)
        await clock.run(1)
        assert not await begun


@async_test
async def test_a_server_that_is_alone_waits_for_nobody() -> None:
    async with Cluster() as cluster:
        clock, client = FakeClock(), cluster.client()
        for mark in (_HOLDER, "under-way"):
            await _mark(client, mark)
            assert await first_start.begin(client, clock)


@async_test
async def test_a_store_of_a_version_without_the_mark_has_been_started() -> None:
    async with Cluster() as cluster:
        stored = await cluster.client().get(catalog.NAMESPACES, wellknown.KUBE_SYSTEM_NAMESPACE)
        assert stored == Namespace(metadata=stored.metadata, spec=stored.spec, status=stored.status)
        assert stored.metadata != ObjectMeta()
        assert not await first_start.begin(cluster.client(), FakeClock(), alone=False)
