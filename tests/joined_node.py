"""A machine in a folder that has joined a :class:`Cluster`, with all of the real parts."""

from __future__ import annotations

import asyncio
import datetime as dt
from dataclasses import dataclass
from pathlib import Path

from join_world import Told
from kubevouch.agent.certificate_store import CertificateStore
from kubevouch.agent.discovery import token_discovery
from kubevouch.phases.join import CERTIFICATE_FOLDER, KUBELET_CONF, JoinOptions, join
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.testing.cluster import Cluster
from kubevouch.util.clock import Clock, SystemClock

NAME = "worker-1"
USER = f"system:node:{NAME}"
LIFETIME = dt.timedelta(days=365)


@dataclass
class JoinedNode:
    """``root`` is the machine's root folder."""

    cluster: Cluster
    root: Path

    @property
    def kubelet_conf(self) -> Path:
        return self.root / KUBELET_CONF

    @property
    def store(self) -> CertificateStore:
        return CertificateStore(self.root / CERTIFICATE_FOLDER, relative_links=True)

    @property
    def current(self) -> Path:
        return self.store.current_path

    @property
    def leaf(self) -> Certificate:
        found = self.store.current()
        assert found is not None
        return found.leaf


async def join_node(cluster: Cluster, root: Path, clock: Clock | None = None) -> JoinedNode:
    """``cluster`` listens and runs all controllers."""
    token = await cluster.token_async()
    # Signed before it is looked for: who finds no signature sleeps, and the cluster's clock stands still.
    await cluster.settle_async()
    address = cluster.url.removeprefix("https://")
    options = JoinOptions(token_discovery(address, token, [cluster.pin]), NAME, root)
    await join(options, clock or SystemClock(), Told())
    return JoinedNode(cluster, root)


def join_node_aside(cluster: Cluster, root: Path, clock: Clock | None = None) -> JoinedNode:
    """:func:`join_node` beside a cluster that has a thread of its own."""
    token = cluster.token()
    cluster.settle()
    address = cluster.url.removeprefix("https://")
    options = JoinOptions(token_discovery(address, token, [cluster.pin]), NAME, root)
    asyncio.run(_joined(options, clock or SystemClock()))
    return JoinedNode(cluster, root)


async def _joined(options: JoinOptions, clock: Clock) -> None:
    await join(options, clock, Told())
