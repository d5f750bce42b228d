"""Certificate managers against a real server in this process: time is the test's, and so is the API server's presence.

A certificate is shown by verifying it as the server's x509 authenticator does, at the clock's time.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kubevouch import wellknown
from kubevouch.agent.certificate_manager import CertificateManager
from kubevouch.agent.certificate_request import Poster, RequestTemplate, node_client
from kubevouch.agent.certificate_store import CertificateStore, StoredPair
from kubevouch.agent.manager_interface import Manager
from kubevouch.agent.signing_requests import SigningRequests
from kubevouch.authentication.interface import UserInfo
from kubevouch.client.interface import Client, ConnectFailed, TLSFailed
from kubevouch.machinery.errors import unauthorized
from kubevouch.pki.client_certificate import TrustAnchors, identify, verify_presented
from kubevouch.pki.errors import ClientCertificateError
from kubevouch.records.ca_rotation import RenewalOrder
from kubevouch.testing.clock import settle
from kubevouch.testing.cluster import ADMIN, Cluster
from kubevouch.util.clock import Clock

TOKEN_USER = UserInfo(
    "system:bootstrap:abcdef",
    groups=(wellknown.BOOTSTRAPPERS_GROUP, wellknown.DEFAULT_NODE_TOKEN_GROUP, wellknown.AUTHENTICATED_GROUP),
)


@dataclass
class Network:
    """The way to the API server.

    Args:
        down: nobody answers.
        foreign: another cluster answers.
        token: whether the bootstrap token is still accepted.
        as_admin: whoever asks is an administrator.
        anchors: what the agents trust, and the server, unless ``server_anchors`` says otherwise.
    """

    cluster: Cluster
    down: bool = False
    foreign: bool = False
    token: bool = True
    as_admin: bool = False
    connections: int = 0
    anchors: TrustAnchors = field(init=False)
    server_anchors: TrustAnchors | None = None

    def __post_init__(self) -> None:
        self.anchors = TrustAnchors([self.cluster.pki.authority.certificate])

    def user(self, pair: StoredPair | None) -> UserInfo:
        """Whom the server sees. Raises as a client would."""
        self.connections += 1
        if self.down:
            raise ConnectFailed("connection refused", address="127.0.0.1:6443")
        if self.foreign:
            raise TLSFailed("the server's certificate is signed by an unknown authority", address="127.0.0.1:6443")
        if self.as_admin:
            return ADMIN
        if pair is None:
            if not self.token:
                raise unauthorized()
            return TOKEN_USER
        try:
            leaf, *_ = verify_presented(
                [each.contents for each in pair.chain],
                self.server_anchors or self.anchors,
                now=self.cluster.clock.now(),
            )
            who = identify(leaf)
        except ClientCertificateError as err:
            raise unauthorized() from err
        assert who is not None
        return UserInfo(who.username, groups=(*who.groups, wellknown.AUTHENTICATED_GROUP))


class _Guarded:
    """A client whose every call goes through the network and the authentication, as over HTTPS."""

    def __init__(self, network: Network, pair: StoredPair | None) -> None:
        self._network = network
        self._pair = pair

    def __getattr__(self, name: str) -> object:
        user = self._network.user(self._pair)
        return getattr(self._network.cluster.client(user), name)


@dataclass
class LoopbackAccess:
    """Shows the certificate while it has not been refused, else the token."""

    network: Network
    node_name: str
    posted: int = 0
    refreshed: int = 0
    shown: list[StoredPair | None] = field(default_factory=list)
    order: RenewalOrder | None = None
    news: list[RenewalOrder | None] = field(default_factory=list)
    _refused: StoredPair | None = None

    def anchors(self) -> TrustAnchors | None:
        return self.network.anchors

    def renewal_order(self) -> RenewalOrder | None:
        return self.order

    @asynccontextmanager
    async def connected(self, pair: StoredPair | None) -> AsyncIterator[Poster]:
        shown = None if pair is self._refused else pair
        self.shown.append(shown)
        self.posted += 1
        client: Client = _Guarded(self.network, shown)  # type: ignore[assignment]  # it forwards every method
        names = () if self.network.as_admin else (TOKEN_USER.name, f"system:node:{self.node_name}")
        yield Poster(SigningRequests(client), names, "the credential")

    def refused(self, pair: StoredPair | None) -> None:
        self._refused = pair

    async def refresh(self) -> None:
        self.refreshed += 1
        if self.news:
            self.order = self.news.pop(0)


@dataclass
class Heard:
    """A listener that remembers."""

    renewals: list[tuple[StoredPair | None, StoredPair]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    async def renewed(self, manager: Manager, former: StoredPair | None, /) -> None:
        assert manager.pair is not None
        self.renewals.append((former, manager.pair))

    def failed(self, manager: Manager, /) -> None:
        self.failures.append(manager.standing.last_error)


@dataclass
class Managed:
    """A manager with its surroundings."""

    manager: CertificateManager
    store: CertificateStore
    access: LoopbackAccess
    heard: Heard
    wanted: list[RequestTemplate | None]


def managed(
    network: Network,
    folder: Path,
    node_name: str = "worker-1",
    *,
    clock: Clock | None = None,
    lifetime: int | None = 86400,
    attempt_seconds: float = 900.0,
    seed: int = 1,
) -> Managed:
    """A manager of a node's client certificate of ``lifetime`` seconds."""
    store = CertificateStore(folder)
    access, heard = LoopbackAccess(network, node_name), Heard()
    wanted: list[RequestTemplate | None] = [node_client(node_name, expiration_seconds=lifetime)]
    manager = CertificateManager(
        "client",
        store,
        lambda: wanted[0],
        access,
        clock or network.cluster.clock,
        heard,
        random=random.Random(seed).random,
        attempt_seconds=attempt_seconds,
    )
    return Managed(manager, store, access, heard, wanted)


@asynccontextmanager
async def running(*all_managed: Managed) -> AsyncIterator[None]:
    """The managers at work."""
    tasks = [asyncio.create_task(each.manager.run()) for each in all_managed]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.result()


async def pass_time(cluster: Cluster, seconds: float, *, step: float = 60.0, turns: int = 10) -> None:
    """Moves the clock in steps and lets everybody do what is due."""
    for size in _steps(seconds, step):
        cluster.clock.advance(size)
        for _ in range(turns):
            await settle()


def _steps(seconds: float, step: float) -> Iterator[float]:
    whole = int(seconds // step)
    yield from itertools.repeat(step, whole)
    if seconds - whole * step > 0:
        yield seconds - whole * step
