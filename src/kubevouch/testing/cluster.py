"""A whole cluster inside a test: the real API server over a store of its own."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from kubevouch.authentication.interface import UserInfo
from kubevouch.client.interface import Client
from kubevouch.machinery.scheme import Resource
from kubevouch.phases import bootstrap_token
from kubevouch.phases.certificates.certs import ControlPlanePKI
from kubevouch.pki import pins
from kubevouch.pki.authority import LeafSpec
from kubevouch.pki.control_plane import SUPER_ADMIN
from kubevouch.pki.x509.usages import CLIENT_AUTH
from kubevouch.records import bootstrap_tokens
from kubevouch.records.node_recovery import RecoveryPolicy
from kubevouch.server.runtime_config import RuntimeConfig
from kubevouch.standalone.access_options import AccessOptions
from kubevouch.standalone.options import IdentityOptions
from kubevouch.standalone.server import StandaloneServer
from kubevouch.testing.cluster_clock import ClusterClock
from kubevouch.testing.crds import Definitions, Source
from kubevouch.testing.crds import definitions as definitions_in
from kubevouch.testing.crds import put as put_definitions
from kubevouch.testing.faults import Faults
from kubevouch.testing.loop_thread import BridgedClient, LoopThread
from kubevouch.testing.manifests import Kinds
from kubevouch.testing.running_cluster import ClusterSnapshot, RunningCluster, Settings
from kubevouch.testing.verbs import Verbs
from kubevouch.util.clock import Clock, SystemClock
from kubevouch.util.files import write_new
from kubevouch.wellknown import AUTHENTICATED_GROUP

R = TypeVar("R")

ADMIN = UserInfo(SUPER_ADMIN.common_name, groups=(*SUPER_ADMIN.organizations, AUTHENTICATED_GROUP))
COMPONENT = "kubevouch-testing"


class ClusterError(RuntimeError):
    """A cluster is asked for what it cannot do; the text says what to do instead."""


class Cluster(Verbs):
    """A Kubernetes API server with RBAC, admission, validation, watch history and a clock that a test moves.

        with Cluster() as c:
            c.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})

    ``with`` runs it on a loop in a thread of its own, for tests that are no coroutines. ``async with`` runs it on the
    test's own loop; there ``c.client()`` is used, the verbs of this class would wait for themselves. The verbs act as
    a member of ``system:masters``; :meth:`as_user` gives those of somebody else.

    Args:
        https: also listen, on a free port of 127.0.0.1, for any client library: see ``kubeconfig``.
        controllers: which to run, in kube-controller-manager's list syntax: ``("*",)`` runs all.
        now: where the clock starts; the machine's time, in whole seconds, when it is not given.
        real_time: run on the machine's clock, which cannot be moved.
        runtime_config: API versions to turn on or off, as for ``kubevouch up``: ``certificates.k8s.io/v1beta1=true``.
        access: authentication and authorization by configuration files and webhooks, as for ``kubevouch up``.
        recovery: what is allowed to nodes whose certificate has ended, as for ``kubevouch up --node-recovery``.
        identity: what machines' identities are worth, as for ``kubevouch up --lock-out-deleted-nodes`` and its like.
        crds: definitions of kinds of one's own, which are served once the cluster runs: files, folders with YAML or
            JSON files, text, or dicts.
        store: ``memory:`` or ``sqlite:PATH``; a second cluster on the same file finds what the first one left.
    """

    def __init__(
        self,
        *,
        https: bool = False,
        controllers: Iterable[str] = (),
        now: dt.datetime | None = None,
        real_time: bool = False,
        runtime_config: str = "",
        store: str = "memory:",
        access: AccessOptions | None = None,
        recovery: RecoveryPolicy | None = None,
        identity: IdentityOptions | None = None,
        crds: Iterable[Source] = (),
    ) -> None:
        super().__init__(self.run, self._admin_client, Kinds(self._custom_kinds))
        if isinstance(controllers, str):
            raise ClusterError(f'got controllers={controllers!r}, expected a list, such as ("*",)')
        self._settings = Settings(
            https=https,
            controllers=tuple(controllers),
            runtime_config=RuntimeConfig.parse(runtime_config),
            store=store,
            access=access or AccessOptions(),
            recovery=recovery,
            identity=identity,
        )
        if isinstance(crds, (str, os.PathLike, Mapping)):
            raise ClusterError(f"got crds={str(crds)[:60]!r}, expected a list, such as [{str(crds)[:60]!r}]")
        self._crds = tuple(crds)
        if self._settings.controllers:
            # Not on the cluster's loop, and only here: a cluster without controllers does not load them.
            import kubevouch.standalone.controllers  # noqa: F401
        self._start = now
        self._real_time = real_time
        self._thread: LoopThread | None = None
        self._clock: Clock | None = None
        self._running: RunningCluster | None = None

    def __repr__(self) -> str:
        if self._running is None:
            return "<Cluster, not running>"
        return f"<Cluster {self._running.endpoint.url if self._settings.https else 'in process'}>"

    # -------------------------------------------------------------- life

    def __enter__(self) -> Cluster:
        thread = LoopThread(f"kubevouch-cluster-{id(self):x}")
        self._expect_stopped()
        definitions = _definitions(self._crds)
        thread.start()
        try:
            self._thread = thread
            thread.call(self._begin(definitions))
        except BaseException:
            self._thread = None
            thread.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        thread, self._thread = self._thread, None
        assert thread is not None  # entered
        try:
            thread.call(self._end())
        finally:
            thread.close()

    async def __aenter__(self) -> Cluster:
        self._expect_stopped()
        await self._begin(await asyncio.to_thread(_definitions, self._crds) if self._crds else [])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()

    def crd(self, *sources: Source) -> list[str]:
        """Serve kinds of one's own from here on, or change those that are served: see ``crds``.

        Returns:
            The names of the definitions, such as ``widgets.example.com``.

        Raises:
            DefinitionSourceError: what holds no definitions, or is refused.
        """
        return self.run(self._put(_definitions(sources)))

    async def crd_async(self, *sources: Source) -> list[str]:
        """:meth:`crd`, for coroutines."""
        return await self._put(await asyncio.to_thread(_definitions, sources))

    def restart(self) -> None:
        """Stop the server and start another one over the same store, at the same address.

        Watches end, versions from before are too old to watch from (410), and clients have to connect again.
        """
        self.run(self.restart_async())

    async def restart_async(self) -> None:
        """:meth:`restart`, for coroutines."""
        running = self._require()
        await running.restart()

    def compact(self) -> None:
        """Forget all stored states but the present one, as etcd does every five minutes.

        The server goes on serving those it remembers; after a :meth:`restart` too they answer 410.
        """
        self.run(self.compact_async())

    async def compact_async(self) -> None:
        """:meth:`compact`, for coroutines."""
        store = self._require().store
        await store.compact(await store.revision())

    def settle(self) -> None:
        """Wait until the controllers have seen everything and have nothing to do before something happens."""
        self.run(self.settle_async())

    async def settle_async(self) -> None:
        """:meth:`settle`, for coroutines."""
        await self._require().settle()

    def snapshot(self) -> ClusterSnapshot:
        """All that the cluster holds by now, for :meth:`restore`.

        Raises:
            ClusterError: its store is a file.
        """
        return self.run(self.snapshot_async())

    async def snapshot_async(self) -> ClusterSnapshot:
        """:meth:`snapshot`, for coroutines."""
        made = await self._require().snapshot()
        if made is None:
            raise ClusterError('a store in a file cannot be put back; start the cluster with store="memory:"')
        return made

    def restore(self, snapshot: ClusterSnapshot) -> None:
        """Put everything back as it was: objects, kinds, the clock, and what clients may still write and read.

        To clients it looks as if somebody had deleted, made and changed objects very quickly: versions go on, and
        watches tell of it.

        Raises:
            ClusterError: ``snapshot`` is of another cluster.
        """
        self.run(self.restore_async(snapshot))

    async def restore_async(self, snapshot: ClusterSnapshot) -> None:
        """:meth:`restore`, for coroutines."""
        running = self._require()
        if snapshot.cluster is not running:
            raise ClusterError("this snapshot is of another cluster, or from before this one was started again")
        await running.restore(snapshot)

    # -------------------------------------------------------------- reaching it

    def run(self, coroutine: Coroutine[Any, Any, R]) -> R:
        """What a coroutine returns, run on the cluster's loop while the test waits.

        Raises:
            ClusterError: called from a coroutine on that very loop, which has to ``await`` instead.
        """
        if self._thread is None or self._thread.is_current:
            coroutine.close()
            self._require()
            raise ClusterError("this call would wait for its own event loop: await a method of c.client() instead")
        return self._thread.call(coroutine)

    def client(self, user: str | UserInfo | None = None, groups: Iterable[str] = ()) -> Client:
        """A client in this process, for coroutines of any loop, that acts as ``user`` or as an administrator.

        A user given by name is in ``groups`` and in ``system:authenticated``. Requests are authorized, admitted and
        validated like those from outside.
        """
        direct = self._require().server.api.loopback(_user_info(user, groups), COMPONENT)
        return direct if self._thread is None else BridgedClient(direct, self._thread)

    def as_user(self, user: str | UserInfo, groups: Iterable[str] = ()) -> Verbs:
        """The verbs of this class as somebody else, to see what they may do."""
        client = self.client(user, groups)
        return Verbs(self.run, lambda: client, self._kinds)

    @property
    def clock(self) -> ClusterClock:
        """Stands still until it is moved: ``c.clock.advance(3600)``. Raises :class:`ClusterError` in real time."""
        self._require()
        if not isinstance(self._clock, ClusterClock):
            raise ClusterError("this cluster runs on the machine's clock; start it without real_time to move time")
        return self._clock

    @property
    def faults(self) -> Faults:
        """What shall go wrong for clients: ``c.faults.error(500, verbs="update", resources="widgets")``.

        Raises:
            ClusterError: nobody is there for whom it could, without ``https``.
        """
        running = self._require()
        if not self._settings.https:
            raise ClusterError("faults strike requests over HTTPS; start the cluster as Cluster(https=True)")
        return running.faults

    @property
    def url(self) -> str:
        """``https://127.0.0.1:PORT``. Raises :class:`ClusterError` without ``https``."""
        if not self._settings.https:
            raise ClusterError("this cluster listens nowhere; start it as Cluster(https=True)")
        return self._require().endpoint.url

    @property
    def kubeconfig(self) -> Path:
        """A file with full rights, for ``KUBECONFIG`` or any client library; gone when the cluster ends."""
        path = self.folder / "admin.conf"
        if not path.exists():
            write_new(path, self._require().pki.kubeconfig(self.url, SUPER_ADMIN).encode())
        return path

    def kubeconfig_for(self, user: str, groups: Iterable[str] = (), *, lasts: dt.timedelta | None = None) -> str:
        """The text of a kubeconfig with a client certificate for ``user`` in ``groups``.

        Args:
            lasts: how long it is good for, on the cluster's clock; one that has ended has less than nothing. None
                means as long as anybody asks.
        """
        running = self._require()
        spec = LeafSpec(common_name=user, organizations=tuple(groups), purposes=(CLIENT_AUTH,))
        return running.pki.kubeconfig(self.url, spec, None if lasts is None else running.clock.now() + lasts)

    @property
    def folder(self) -> Path:
        """A temporary folder of the cluster's own; ``pki/ca.crt`` and ``pki/ca.key`` lie there."""
        return self._require().folder

    @property
    def pki(self) -> ControlPlanePKI:
        """The authorities, for tests that sign something by themselves."""
        return self._require().pki.control_plane

    @property
    def pin(self) -> str:
        """``sha256:`` and the hash of the CA's public key, which a joining machine is told."""
        return pins.pin_of(self.pki.authority.certificate)

    def token(self, *, ttl: dt.timedelta = bootstrap_token.DEFAULT_TTL, groups: Sequence[str] | None = None) -> str:
        """A new bootstrap token with which machines join, as ``kubeadm token create`` makes it; zero never ends."""
        return self.run(self.token_async(ttl=ttl, groups=groups))

    async def token_async(
        self, *, ttl: dt.timedelta = bootstrap_token.DEFAULT_TTL, groups: Sequence[str] | None = None
    ) -> str:
        """:meth:`token`, for coroutines."""
        running = self._require()
        token = bootstrap_tokens.generate_token()
        wanted = bootstrap_token.plan(token, now=running.clock.now(), ttl=ttl, groups=groups)
        await bootstrap_token.create(running.server.client, wanted)
        return f"{token.token_id}.{token.token_secret}"

    @property
    def server(self) -> StandaloneServer:
        """The server itself, for what this class does not offer. Its methods belong on the cluster's loop."""
        return self._require().server

    # -------------------------------------------------------------- inside

    def _expect_stopped(self) -> None:
        if self._running is not None:
            raise ClusterError("this cluster is running already; start another one for a second cluster")

    def _require(self) -> RunningCluster:
        if self._running is None:
            raise ClusterError("this cluster is not running: use it inside of `with Cluster() as c:`")
        return self._running

    def _on_loop(self, call: Callable[[], R]) -> R:
        if self._thread is None or self._thread.is_current:
            return call()

        async def calling() -> R:
            return call()

        return self._thread.call(calling())

    def _expect_other_thread(self) -> None:
        if self._thread is None or self._thread.is_current:
            raise ClusterError("this call would wait for its own event loop: run it in a thread of its own")

    async def _put(self, definitions: Definitions) -> list[str]:
        return await put_definitions(self._require().server.client, definitions)

    def _custom_kinds(self) -> list[Resource[Any]]:
        return [] if self._running is None else self._running.custom_kinds()

    def _admin_client(self) -> Client:
        return self.client()

    async def _begin(self, definitions: Definitions) -> None:
        machine = SystemClock()
        start = self._start if self._start is not None else machine.now().replace(microsecond=0)
        self._clock = machine if self._real_time else ClusterClock(start, self._thread)
        running = RunningCluster(self._clock, self._settings, Faults(self._on_loop, self._expect_other_thread))
        try:
            await running.begin()
            if definitions:
                await put_definitions(running.server.client, definitions)
        except BaseException:
            await running.end()
            raise
        self._running = running

    async def _end(self) -> None:
        running, self._running = self._running, None
        assert running is not None  # entered
        await running.end()


def _definitions(sources: Iterable[Source]) -> Definitions:
    """Not on a loop: a file may have 10,000 lines."""
    return [found for source in sources for found in definitions_in(source)]


def _user_info(user: str | UserInfo | None, groups: Iterable[str]) -> UserInfo:
    if user is None:
        return ADMIN
    if isinstance(user, UserInfo):
        return user
    return UserInfo(user, groups=(*groups, AUTHENTICATED_GROUP))
