"""Where a recorded request is played again: a server of its own, over a copy of one prepared store."""

from __future__ import annotations

import asyncio
from pathlib import Path

from contract.api_surface.replay import Replay
from contract.api_surface.rows import Row
from contract.http_cases.case_text import Fixtures
from contract.http_cases.identities import Identities
from kubevouch.client.endpoint import Endpoint
from kubevouch.phases import bootstrap_token
from kubevouch.pki.control_plane import SUPER_ADMIN
from kubevouch.records import bootstrap_tokens
from kubevouch.standalone.network import bind
from kubevouch.standalone.server import StandaloneServer
from kubevouch.storage.memory import MemoryStore, Snapshot
from kubevouch.testing.cluster_pki import HOST, ClusterPKI
from kubevouch.util.clock import SystemClock

_FIXTURES = Path(__file__).parents[2] / "vectors" / "fixtures-server"


class Stage:
    """Args: ``folder`` is an empty one, for keys and certificates; ``runner`` runs what waits."""

    def __init__(self, folder: Path, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._clock = SystemClock()
        now = self._clock.now()
        self._pki = ClusterPKI(folder / "pki", now, now)
        kubeconfig = folder / "admin.conf"
        kubeconfig.write_text(self._pki.kubeconfig("https://set-for-each-row", SUPER_ADMIN))
        self._identities = Identities(kubeconfig, Fixtures(_FIXTURES), ca_key=folder / "pki" / "ca.key")
        token = bootstrap_tokens.generate_token()
        self._token = bootstrap_token.plan(token, now=now)
        self._replay = Replay(self._identities, f"{token.token_id}.{token.token_secret}")
        self._prepared: Snapshot | None = None
        self._prepared = runner.run(self._prepare())

    def answer(self, row: Row) -> tuple[int, str]:
        return self._runner.run(self._answer(row))

    def close(self) -> None:
        self._runner.run(self._identities.close())

    async def _prepare(self) -> Snapshot:
        async with _Server(self, None) as server:
            await bootstrap_token.create(server.standalone.client, self._token)
            await self._replay.prepare()
            return server.store.snapshot()

    async def _answer(self, row: Row) -> tuple[int, str]:
        async with _Server(self, self._prepared):
            return await self._replay.answer(row)


class _Server:
    """A server that ends with the block, over a store that nobody else has seen."""

    def __init__(self, stage: Stage, prepared: Snapshot | None) -> None:
        self._identities = stage._identities
        self.store = MemoryStore(clock=stage._clock, snapshot=prepared)
        self._sockets = bind(HOST, 0)
        endpoint = Endpoint(HOST, self._sockets[0].getsockname()[1])
        self.standalone = StandaloneServer(self.store, stage._clock, stage._pki.control_plane, endpoint)

    async def __aenter__(self) -> _Server:
        await self.standalone.start()
        await self.standalone.listen(self._sockets)
        self._identities.server = self.standalone.endpoint.url
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.standalone.close()
        await self.store.close()
