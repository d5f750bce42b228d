"""Whether a cluster locks deleted nodes out: the first start decides, and what is decided stays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from asynctest import async_test
from kubevouch.api.catalog import CONFIG_MAPS, NAMESPACES, NODES
from kubevouch.api.core_v1 import Node
from kubevouch.client.interface import MERGE_PATCH, Client
from kubevouch.client.stored import find
from kubevouch.doctor import status
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.phases import deleted_nodes
from kubevouch.revocation import node_records
from kubevouch.revocation.node_records import NodeRecord
from kubevouch.standalone.options import IdentityOptions, StandaloneOptions
from kubevouch.standalone.up import Running, running
from kubevouch.util.clock import SystemClock

CLOCK, NAME = SystemClock(), "worker-1"


@asynccontextmanager
async def up(folder: Path, wanted: bool | None = None) -> AsyncIterator[Running]:
    options = StandaloneOptions(
        data_dir=folder,
        bind_address="127.0.0.1",
        secure_port=0,
        identity=IdentityOptions(lock_out_deleted_nodes=wanted),
    )
    async with running(options, CLOCK) as cluster:
        yield cluster


async def decided(folder: Path, wanted: bool | None = None) -> tuple[bool, bool | None, bool | None]:
    """What a start says, what it has stored, and what ``kubevouch status`` learns of it."""
    async with up(folder, wanted) as cluster:
        client = cluster.server.client
        seen = status.ClusterStatus("here")
        await status._nodes(client, seen, CLOCK.now())
        return cluster.locks_deleted_nodes, await deleted_nodes.stored(client), seen.locks_deleted_nodes


async def forget(folder: Path) -> None:
    """As a cluster is that an older version has started."""
    async with up(folder) as cluster:
        change = {"metadata": {"annotations": {deleted_nodes.ANNOTATION: None}}}
        await cluster.server.client.patch(NAMESPACES, "kube-system", change, MERGE_PATCH)


@async_test
async def test_the_first_start_decides_and_a_restart_keeps_it(tmp_path: Path) -> None:
    assert await decided(tmp_path) == (True, True, True)
    assert await decided(tmp_path) == (True, True, True)


@async_test
async def test_an_older_cluster_keeps_what_it_had(tmp_path: Path) -> None:
    await forget(tmp_path)
    assert await decided(tmp_path) == (False, False, False)
    assert await decided(tmp_path) == (False, False, False)


@pytest.mark.parametrize("wanted", [True, False])
@async_test
async def test_a_flag_decides_for_good(tmp_path: Path, wanted: bool) -> None:
    if wanted:
        await forget(tmp_path)
    assert await decided(tmp_path, wanted) == (wanted,) * 3
    assert await decided(tmp_path) == (wanted,) * 3
    assert await decided(tmp_path, not wanted) == (not wanted,) * 3


@async_test
async def test_a_first_start_without_it(tmp_path: Path) -> None:
    assert await decided(tmp_path, wanted=False) == (False, False, False)
    assert await decided(tmp_path) == (False, False, False)


@async_test
async def test_what_nobody_can_read_opens_nothing(tmp_path: Path) -> None:
    async with up(tmp_path) as cluster:
        for text, found in (("false", False), ("False", True), ("no", True), ("true", True), ("", None)):
            change = {"metadata": {"annotations": {deleted_nodes.ANNOTATION: text}}}
            await cluster.server.client.patch(NAMESPACES, "kube-system", change, MERGE_PATCH)
            assert await deleted_nodes.stored(cluster.server.client) is found


@async_test
async def test_the_decision_reaches_who_carries_it_out(tmp_path: Path) -> None:
    for folder, wanted in ((tmp_path / "new", None), (tmp_path / "as-kubernetes", False)):
        async with up(folder, wanted) as cluster:
            await cluster.server.client.create(NODES, Node(metadata=ObjectMeta(name=NAME)))
        # Each start writes down at once which Nodes there are.
        async with up(folder) as cluster:
            client = cluster.server.client
            record = await until_recorded(client, registered=True)
            assert record.locked is None
            await client.delete(NODES, NAME)
            record = await until_recorded(client, registered=False)
            assert (record.locked is not None) is (wanted is None)


async def until_recorded(client: Client, *, registered: bool) -> NodeRecord:
    """What is written down of the node, once its Node is there or is gone."""
    path = node_records.LAYOUT.path(node_records.shard_of(NAME))
    async with asyncio.timeout(60):
        while True:
            found = [await find(client, CONFIG_MAPS, each, "kube-system") for each in path]
            texts = (each.data for each in found if each is not None)
            record = node_records.records_of(texts, node_records.shard_of(NAME)).get(NAME, node_records.NONE)
            if bool(record.uid) is registered:
                return record
            await asyncio.sleep(0)
