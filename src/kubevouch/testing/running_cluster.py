"""The parts of a cluster that runs: store, server, controllers and sockets, on one loop."""

from __future__ import annotations

import datetime as dt
import socket
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from kubevouch.client.endpoint import Endpoint
from kubevouch.client.interface import Client
from kubevouch.machinery.custom_object import CustomCodec
from kubevouch.machinery.scheme import Resource
from kubevouch.machinery.text.versions import version_priority
from kubevouch.phases import cluster_info
from kubevouch.records.cluster_info import ClusterInfo
from kubevouch.records.node_recovery import RecoveryPolicy
from kubevouch.server.bootstrap import own_kinds
from kubevouch.server.options import ServerOptions
from kubevouch.server.runtime_config import RuntimeConfig
from kubevouch.standalone.access import Access
from kubevouch.standalone.access_options import AccessOptions
from kubevouch.standalone.network import bind
from kubevouch.standalone.options import IdentityOptions
from kubevouch.standalone.server import StandaloneServer
from kubevouch.standalone.service_account_options import DEFAULT_ISSUER
from kubevouch.storage.interface import Store
from kubevouch.storage.memory import MemoryStore, Snapshot
from kubevouch.storage.options import parse_store
from kubevouch.testing.cluster_clock import ClusterClock
from kubevouch.testing.cluster_pki import HOST, ClusterPKI
from kubevouch.testing.faults import Faults
from kubevouch.util.clock import Clock, SystemClock

if TYPE_CHECKING:
    from kubevouch.standalone.controllers import RunningControllers

# What clients are told where nothing listens.
_NO_PORT = 6443
_REMOVALS = 20
_CODEC = CustomCodec()


class Settings(msgspec.Struct, frozen=True):
    """What a cluster is made of; the arguments of ``Cluster`` have the same names."""

    https: bool = False
    controllers: tuple[str, ...] = ()
    runtime_config: RuntimeConfig = msgspec.field(default_factory=RuntimeConfig)
    store: str = "memory:"
    access: AccessOptions = msgspec.field(default_factory=AccessOptions)
    recovery: RecoveryPolicy | None = None
    identity: IdentityOptions | None = None


class ClusterSnapshot(msgspec.Struct, frozen=True):
    """All that a cluster held at one moment, and what time it was there; ``Cluster.restore`` takes it."""

    cluster: object
    store: Snapshot
    now: dt.datetime


class RunningCluster:
    """From ``begin`` to ``end``. Its folder and sockets are there from the start."""

    def __init__(self, clock: Clock, settings: Settings, faults: Faults) -> None:
        self.clock = clock
        self._settings = settings
        self.faults = faults
        self._folder = tempfile.TemporaryDirectory(prefix="kubevouch-testing-")
        self.folder = Path(self._folder.name)
        self.pki = ClusterPKI(self.folder / "pki", SystemClock().now(), clock.now())
        self._sockets: list[socket.socket] = bind(HOST, 0) if settings.https else []
        self.endpoint = Endpoint(HOST, self._sockets[0].getsockname()[1] if settings.https else _NO_PORT)
        self._server: StandaloneServer | None = None
        self._store: Store | None = None
        self._controllers: RunningControllers | None = None

    @property
    def server(self) -> StandaloneServer:
        assert self._server is not None  # begun
        return self._server

    @property
    def store(self) -> Store:
        assert self._store is not None  # begun
        return self._store

    async def begin(self) -> None:
        self._store = await parse_store(self._settings.store, self.folder).open(self.clock)
        await self._start_server()

    async def restart(self) -> None:
        await self._stop_server()
        if self._settings.https:
            self._sockets = bind(HOST, self.endpoint.port)
        await self._start_server()

    def custom_kinds(self) -> list[Resource[Any]]:
        """Those that definitions brought, the versions that clients prefer first."""
        # A copy: the test is in another thread.
        endpoints = list(self.server.api.served.endpoints.values())
        served = [each.resource for each in endpoints if each.custom is not None]
        served.sort(key=lambda each: version_priority(each.version), reverse=True)
        # Without the server's schema: what a client sends is the server's to prune.
        return [replace(each, codec=_CODEC) for each in served]

    async def settle(self) -> None:
        if self._controllers is not None:
            await self._controllers.settle()

    async def snapshot(self) -> ClusterSnapshot | None:
        """None for a store that cannot be put back."""
        if not isinstance(self._store, MemoryStore):
            return None
        await self.settle()
        return ClusterSnapshot(self, self._store.snapshot(), self.clock.now())

    async def restore(self, snapshot: ClusterSnapshot) -> None:
        """Returns when caches and controllers have heard of it."""
        assert isinstance(self._store, MemoryStore)  # or there were no snapshot
        if isinstance(self.clock, ClusterClock):
            self.clock.set(snapshot.now)
        if self._controllers is not None:
            # Else what the store goes back behind would be put back: nobody is asked about it.
            self._controllers.decisions.forget()
        self._store.restore(snapshot.store)
        self.faults.clear()
        self.server.api.forgive()
        await self.server.api.cacher.newest()
        await self.settle()

    async def end(self) -> None:
        await self._stop_server()
        if self._store is not None:
            await self._store.close()
        await self._remove_folder()

    async def _remove_folder(self) -> None:
        """A renewal that was under way in a thread when the server ended may still write a file there."""
        for _ in range(_REMOVALS):
            try:
                self._folder.cleanup()
            except OSError:
                await SystemClock().sleep(0.05)
            else:
                return
        self._folder.cleanup()

    async def _start_server(self) -> None:
        settings = self._settings
        self._server = StandaloneServer(
            self.store,
            self.clock,
            self.pki.control_plane,
            self.endpoint,
            runtime_config=settings.runtime_config,
            access=Access(settings.access, (DEFAULT_ISSUER,), self.clock),
            recovery=settings.recovery,
            at_first_start=self._publish,
            last_links=(self.faults.link,),
            # Each has a CA of its own, also over a store that another has left.
            options=ServerOptions(replaces_ca=True),
        )
        await self._server.start()
        await cluster_info.tell_recovery(self._server.client, allowed=settings.recovery is not None)
        if settings.controllers:
            from kubevouch.standalone.controllers import start_controllers

            await own_kinds.ensure(self._server.client)
            self._controllers = start_controllers(self._server, settings.controllers, identity=settings.identity)
        if settings.https:
            await self._server.listen(self._sockets)

    async def _publish(self, client: Client) -> None:
        await cluster_info.ensure(client, ClusterInfo(self.endpoint.url, self.pki.control_plane.ca_certificate))

    async def _stop_server(self) -> None:
        if self._controllers is not None:
            await self._controllers.close()
            self._controllers = None
        if self._server is not None:
            await self._server.close()
            self._server = None
        for bound in self._sockets:
            bound.close()
