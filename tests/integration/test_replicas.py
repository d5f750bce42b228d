"""Three whole servers on a real etcd: machines join while each of them is replaced by another version."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from asynctest import async_test
from etcd_server import EtcdServer
from join_world import Told
from kubevouch import wellknown
from kubevouch.agent.discovery import token_discovery
from kubevouch.api import catalog
from kubevouch.client.leader_election import LEASE_NAME
from kubevouch.phases import join
from kubevouch.phases.bootstrap_token import TokenPair
from kubevouch.standalone.options import StandaloneOptions
from kubevouch.standalone.up import Running, running
from kubevouch.util.clock import SystemClock

# What a later version serves besides, and may be told.
_LATER = "certificates.k8s.io/v1beta1=true"
_MACHINES = 3


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    with EtcdServer(tmp_path_factory.mktemp("etcd")) as server:
        yield server


class Servers:
    """Each in a data directory of its own, at an address that it keeps."""

    def __init__(self, folder: Path, store: str) -> None:
        self._folder = folder
        self._store = store
        self._stacks: dict[int, AsyncExitStack] = {}
        self.up: dict[int, Running] = {}

    async def start(self, number: int, runtime_config: str = "") -> Running:
        data_dir = self._folder / f"server-{number}"
        if number and not data_dir.exists():
            shutil.copytree(
                self._folder / "server-0" / "pki", data_dir / "pki", ignore=shutil.ignore_patterns("apiserver.*")
            )
        options = StandaloneOptions(
            data_dir,
            store=self._store,
            bind_address="127.0.0.1",
            secure_port=self.up[number].endpoint.port if number in self.up else 0,
            runtime_config=runtime_config,
        )
        stack = AsyncExitStack()
        self.up[number] = await stack.enter_async_context(running(options, SystemClock()))
        self._stacks[number] = stack
        return self.up[number]

    @property
    def running(self) -> list[int]:
        return list(self._stacks)

    async def stop(self, number: int) -> None:
        await self._stacks.pop(number).aclose()

    async def close(self) -> None:
        for number in list(self._stacks):
            await self.stop(number)


@asynccontextmanager
async def _three(folder: Path, etcd: EtcdServer) -> AsyncIterator[tuple[Servers, TokenPair]]:
    servers = Servers(folder, etcd.spec)
    try:
        first = await servers.start(0)
        assert first.tokens is not None
        # At the same time, as machines do that are switched on.
        await asyncio.gather(servers.start(1), servers.start(2))
        yield servers, first.tokens
    finally:
        await servers.close()


class Machines:
    """Each joins, is wiped and joins under another name, over and over, beginning at another server each time."""

    def __init__(self, servers: Servers, tokens: TokenPair, folder: Path) -> None:
        self._servers = servers
        self._tokens = tokens
        self._folder = folder
        self.joined: list[str] = []
        self.is_over = False

    async def join_on(self, machine: int) -> None:
        while not self.is_over:
            name = f"worker-{machine}-{len(self.joined)}"
            # Where all began at the one that is away, nobody would join until it is back.
            running = self._servers.running
            at = self._servers.up[running[len(self.joined) % len(running)]]
            discovery = token_discovery(at.endpoint.address, self._tokens.discovery.text, [at.pin], timeout=60.0)
            options = join.JoinOptions(
                discovery, name, self._folder / name, 60.0, tls_bootstrap_token=self._tokens.authentication
            )
            await join.join(options, SystemClock(), Told())
            self.joined.append(name)

    async def until(self, count: int) -> None:
        """``count`` more have joined."""
        wanted = len(self.joined) + count
        while len(self.joined) < wanted:
            await SystemClock().sleep(0.02)


@async_test
async def test_three_servers_are_replaced_and_no_join_fails(tmp_path: Path, etcd: EtcdServer) -> None:
    async with _three(tmp_path, etcd) as (servers, tokens):
        machines = Machines(servers, tokens, tmp_path / "machines")
        joining = [asyncio.create_task(machines.join_on(number)) for number in range(_MACHINES)]
        try:
            await machines.until(_MACHINES)
            holders = {await _leader(servers.up[0])}
            for number in range(3):
                await servers.stop(number)
                await machines.until(1)
                later = await servers.start(number, _LATER)
                # What the others have approved while it was away is there, and what it serves anew.
                await later.server.client.list(catalog.CERTIFICATE_SIGNING_REQUESTS)
                await machines.until(_MACHINES)
                holders.add(await _leader(later))
            machines.is_over = True
            await asyncio.gather(*joining)
        finally:
            for task in joining:
                task.cancel()
        assert len(machines.joined) >= 4 * _MACHINES
        # The controllers have moved on, and at no time were there two who gave a name.
        assert len(holders) > 1
        requests = (await servers.up[0].server.client.list(catalog.CERTIFICATE_SIGNING_REQUESTS)).items
        assert len({each.metadata.name for each in requests if each.status.certificate}) == len(machines.joined)
        endpoints = await servers.up[1].server.client.get(catalog.ENDPOINTS, "kubernetes", "default")
        assert [each.ip for subset in endpoints.subsets for each in subset.addresses] == ["127.0.0.1"]


async def _leader(at: Running) -> str:
    lease = await at.server.client.get(catalog.LEASES, LEASE_NAME, wellknown.KUBE_SYSTEM_NAMESPACE)
    return lease.spec.holder_identity or ""
