"""A whole cluster inside a test: the real API server over a store of its own."""

from __future__ import annotations

import datetime as dt
import socket
import tempfile
from collections.abc import Coroutine, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from kubevouch.authentication.interface import UserInfo
from kubevouch.client.endpoint import Endpoint
from kubevouch.client.interface import Client
from kubevouch.phases import bootstrap_token, cluster_info
from kubevouch.phases.certificates.certs import ControlPlanePKI
from kubevouch.pki import pins
from kubevouch.pki.authority import LeafSpec
from kubevouch.pki.control_plane import SUPER_ADMIN
from kubevouch.pki.x509.usages import CLIENT_AUTH
from kubevouch.records import bootstrap_tokens
from kubevouch.records.cluster_info import ClusterInfo
from kubevouch.records.node_recovery import RecoveryPolicy
from kubevouch.server.runtime_config import RuntimeConfig
from kubevouch.standalone.access import Access
from kubevouch.standalone.access_options import AccessOptions
from kubevouch.standalone.network import bind
from kubevouch.standalone.options import IdentityOptions
from kubevouch.standalone.server import StandaloneServer
from kubevouch.standalone.service_account_options import DEFAULT_ISSUER
from kubevouch.storage.interface import Store
from kubevouch.storage.options import parse_store
from kubevouch.testing.cluster_clock import ClusterClock
from kubevouch.testing.cluster_pki import HOST, ClusterPKI
from kubevouch.testing.loop_thread import BridgedClient, LoopThread
from kubevouch.testing.verbs import Verbs
from kubevouch.util.clock import Clock, SystemClock
from kubevouch.util.files import write_new
from kubevouch.wellknown import AUTHENTICATED_GROUP

if TYPE_CHECKING:
    from kubevouch.standalone.controllers import RunningControllers

R = TypeVar("R")

ADMIN = UserInfo(SUPER_ADMIN.common_name, groups=(*SUPER_ADMIN.organizations, AUTHENTICATED_GROUP))
COMPONENT = "kubevouch-testing"
# What clients are told where nothing listens.
_NO_PORT = 6443


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
    ) -> None:
        super().__init__(self.run, self._admin_client)
        if isinstance(controllers, str):
            raise ClusterError(f'got controllers={controllers!r}, expected a list, such as ("*",)')
        self._https = https
        self._controllers = tuple(controllers)
        if self._controllers:
            # Not on the cluster's loop, and only here: a cluster without controllers does not load them.
            import kubevouch.standalone.controllers  # noqa: F401
        self._start = now
        self._real_time = real_time
        self._runtime_config = RuntimeConfig.parse(runtime_config)
        self._store_text = store
        self._access = access or AccessOptions()
        self._recovery = recovery
        self._identity = identity
        self._thread: LoopThread | None = None
        self._clock: Clock | None = None
        self._running: _Running | None = None

    def __repr__(self) -> str:
        if self._running is None:
            return "<Cluster, not running>"
        return f"<Cluster {self._running.endpoint.url if self._https else 'in process'}>"

    # -------------------------------------------------------------- life

    def __enter__(self) -> Cluster:
        thread = LoopThread(f"kubevouch-cluster-{id(self):x}")
        self._expect_stopped()
        thread.start()
        try:
            self._thread = thread
            thread.call(self._begin())
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
        await self._begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()

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
        return Verbs(self.run, lambda: client)

    @property
    def clock(self) -> ClusterClock:
        """Stands still until it is moved: ``c.clock.advance(3600)``. Raises :class:`ClusterError` in real time."""
        self._require()
        if not isinstance(self._clock, ClusterClock):
            raise ClusterError("this cluster runs on the machine's clock; start it without real_time to move time")
        return self._clock

    @property
    def url(self) -> str:
        """``https://127.0.0.1:PORT``. Raises :class:`ClusterError` without ``https``."""
        if not self._https:
            raise ClusterError("this cluster listens nowhere; start it as Cluster(https=True)")
        return self._require().endpoint.url

    @property
    def kubeconfig(self) -> Path:
        """A file with full rights, for ``KUBECONFIG`` or any client library; gone when the cluster ends."""
        path = self.folder / "admin.conf"
        if not path.exists():
            write_new(path, self._require().pki.kubeconfig(self.url, SUPER_ADMIN).encode())
        return path

    def kubeconfig_for(self, user: str, groups: Iterable[str] = ()) -> str:
        """The text of a kubeconfig with a client certificate for ``user`` in ``groups``."""
        spec = LeafSpec(common_name=user, organizations=tuple(groups), purposes=(CLIENT_AUTH,))
        return self._require().pki.kubeconfig(self.url, spec)

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

    def _require(self) -> _Running:
        if self._running is None:
            raise ClusterError("this cluster is not running: use it inside of `with Cluster() as c:`")
        return self._running

    def _admin_client(self) -> Client:
        return self.client()

    async def _begin(self) -> None:
        machine = SystemClock()
        start = self._start if self._start is not None else machine.now().replace(microsecond=0)
        self._clock = machine if self._real_time else ClusterClock(start, self._thread)
        running = _Running(
            self._clock,
            self._https,
            self._controllers,
            self._runtime_config,
            self._access,
            self._recovery,
            self._identity,
        )
        try:
            await running.begin(self._store_text)
        except BaseException:
            await running.end()
            raise
        self._running = running

    async def _end(self) -> None:
        running, self._running = self._running, None
        assert running is not None  # entered
        await running.end()


class _Running:
    """The parts of a running cluster, on its loop."""

    def __init__(
        self,
        clock: Clock,
        https: bool,
        controllers: tuple[str, ...],
        runtime_config: RuntimeConfig,
        access: AccessOptions,
        recovery: RecoveryPolicy | None,
        identity: IdentityOptions | None,
    ) -> None:
        self.clock = clock
        self._access = access
        self._recovery = recovery
        self._identity = identity
        self._runtime_config = runtime_config
        self._https = https
        self._wanted_controllers = controllers
        self._folder = tempfile.TemporaryDirectory(prefix="kubevouch-testing-")
        self.folder = Path(self._folder.name)
        self.pki = ClusterPKI(self.folder / "pki", SystemClock().now(), clock.now())
        self._sockets: list[socket.socket] = bind(HOST, 0) if https else []
        self.endpoint = Endpoint(HOST, self._sockets[0].getsockname()[1] if https else _NO_PORT)
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

    async def begin(self, store: str) -> None:
        self._store = await parse_store(store, self.folder).open(self.clock)
        await self._start_server()

    async def restart(self) -> None:
        await self._stop_server()
        if self._https:
            self._sockets = bind(HOST, self.endpoint.port)
        await self._start_server()

    async def settle(self) -> None:
        if self._controllers is not None:
            await self._controllers.settle()

    async def end(self) -> None:
        await self._stop_server()
        if self._store is not None:
            await self._store.close()
        self._folder.cleanup()

    async def _start_server(self) -> None:
        self._server = StandaloneServer(
            self.store,
            self.clock,
            self.pki.control_plane,
            self.endpoint,
            runtime_config=self._runtime_config,
            access=Access(self._access, (DEFAULT_ISSUER,), self.clock),
            recovery=self._recovery,
            at_first_start=self._publish,
        )
        await self._server.start()
        await cluster_info.tell_recovery(self._server.client, allowed=self._recovery is not None)
        if self._wanted_controllers:
            from kubevouch.standalone.controllers import start_controllers

            self._controllers = start_controllers(self._server, self._wanted_controllers, identity=self._identity)
        if self._https:
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


def _user_info(user: str | UserInfo | None, groups: Iterable[str]) -> UserInfo:
    if user is None:
        return ADMIN
    if isinstance(user, UserInfo):
        return user
    return UserInfo(user, groups=(*groups, AUTHENTICATED_GROUP))
