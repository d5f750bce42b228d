"""Several API servers over one store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from asynctest import async_test
from custom_world import GROUP, WIDGETS_PATH, ask, definition, widget
from definition_world import NAME, PATH, conditions, create, is_settled, until
from kubevouch.client.endpoint import Endpoint
from kubevouch.standalone.server import StandaloneServer
from kubevouch.storage.memory import MemoryStore
from kubevouch.testing.cluster_pki import HOST, ClusterPKI
from kubevouch.util.clock import SystemClock


@asynccontextmanager
async def _two_servers(folder: Path) -> AsyncIterator[list[StandaloneServer]]:
    clock = SystemClock()
    pki = ClusterPKI(folder / "pki", clock.now(), clock.now())
    store = MemoryStore(clock=clock)
    servers = [StandaloneServer(store, clock, pki.control_plane, Endpoint(HOST, port)) for port in (1, 2)]
    async with servers[0], servers[1]:
        yield servers
    await store.close()


@async_test
async def test_two_servers_say_the_same_once(tmp_path: Path) -> None:
    async with _two_servers(tmp_path) as servers:
        clients = [server.client for server in servers]
        await create(clients[0], definition())
        found = [await until(client, is_settled) for client in clients]
        assert found[0] == found[1]
        # Created, and judged by one of them.
        key = f"/registry/apiextensions.k8s.io/customresourcedefinitions/{NAME}"
        stored = await servers[0].api.store.get(key)
        assert stored is not None
        for number, client in enumerate(clients):
            assert (await ask(client, "POST", WIDGETS_PATH, widget(f"w{number}"))).status == 201
        again = await servers[0].api.store.get(key)
        assert again is not None
        assert again.revision == stored.revision
        await ask(clients[1], "DELETE", f"{PATH}/{NAME}")
        for client in clients:
            await until(client, lambda each: each is None)
        assert (await servers[0].api.store.list(f"/registry/{GROUP}/")).items == []


@async_test
async def test_names_wanted_on_two_servers_are_given_once(tmp_path: Path) -> None:
    async with _two_servers(tmp_path) as servers:
        clients = [server.client for server in servers]
        await create(clients[0], definition())
        for client in clients:
            await until(client, is_settled)
        await create(clients[1], definition(plural="gadgets"))
        found = await until(clients[0], is_settled, f"gadgets.{GROUP}")
        assert conditions(found)["Established"][0] == "False"
