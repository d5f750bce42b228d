"""Renewals against a real server that has lived as long as the certificate."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from asynctest import async_test
from joined_node import LIFETIME, NAME, JoinedNode, join_node
from kubevouch.agent import node_kubeconfig
from kubevouch.agent.discovery import DiscoveredCluster
from kubevouch.agent.node_access import ClusterFiles
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REVOCATIONS
from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import (
    REASONS,
    CertificateRevocation,
    CertificateRevocationSpec,
    RevocationTargets,
)
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.phases.exec_credential import CredentialError
from kubevouch.phases.exec_renewal import renew
from kubevouch.phases.join import BOOTSTRAP_CONF
from kubevouch.phases.kubeconfig import write
from kubevouch.records.bootstrap_tokens import parse_token
from kubevouch.testing.clock import FakeClock
from kubevouch.testing.cluster import Cluster
from kubevouch.util.clock import SystemClock

CLOCK = SystemClock()


@asynccontextmanager
async def aged(folder: Path, fraction: float) -> AsyncIterator[JoinedNode]:
    """A node whose certificate has lived through ``fraction`` of its life."""
    begin = CLOCK.now() - LIFETIME * fraction
    async with Cluster(https=True, controllers=("*",), now=begin) as cluster:
        node = await join_node(cluster, folder / "root", FakeClock(begin))
        cluster.clock.set(CLOCK.now())
        yield node


def files(node: JoinedNode) -> ClusterFiles:
    return ClusterFiles(node.kubelet_conf, node.root / BOOTSTRAP_CONF)


@async_test
async def test_a_renewal_and_one_that_somebody_else_did(tmp_path: Path) -> None:
    async with aged(tmp_path, 0.9) as node:
        before = node.leaf
        pair = await renew(node.store, files(node), NAME, CLOCK, timeout=120)
        assert pair.leaf.not_after > before.not_after
        assert pair.leaf == node.leaf
        assert node.current.is_symlink()
        again = await renew(node.store, files(node), NAME, CLOCK, timeout=120)
        assert again.leaf == pair.leaf


@async_test
async def test_many_at_once_make_one_request(tmp_path: Path) -> None:
    async with aged(tmp_path, 0.9) as node:
        pairs = await asyncio.gather(*(renew(node.store, files(node), NAME, CLOCK, timeout=120) for _ in range(5)))
        assert len({pair.leaf.serial for pair in pairs}) == 1


@async_test
async def test_without_anything_to_ask_with(tmp_path: Path) -> None:
    async with aged(tmp_path, 1.1) as node:
        with pytest.raises(CredentialError, match=f"the certificate of system:node:{NAME} has ended at ") as caught:
            await renew(node.store, files(node), NAME, CLOCK, timeout=120)
        assert caught.value.hint.startswith("let the machine join again: kubevouch join ")
        node.current.resolve().unlink()
        node.current.unlink()
        with pytest.raises(CredentialError, match="there is no certificate in "):
            await renew(node.store, files(node), NAME, CLOCK, timeout=120)


@async_test
async def test_a_token_helps_after_the_end(tmp_path: Path) -> None:
    async with aged(tmp_path, 1.1) as node:
        cluster = node.cluster
        token = parse_token(await cluster.token_async())
        proven = DiscoveredCluster(cluster.url, cluster.pki.ca_certificate)
        write(node.root / BOOTSTRAP_CONF, node_kubeconfig.for_token(proven, token))
        pair = await renew(node.store, files(node), NAME, CLOCK, timeout=120)
        assert pair.leaf.not_after > CLOCK.now() + dt.timedelta(days=300)


@async_test
async def test_a_server_that_is_gone_and_a_lock_that_is_held(tmp_path: Path) -> None:
    async with aged(tmp_path, 0.9) as node:
        before = node.leaf
        with node.store.locked(), pytest.raises(CredentialError, match=r"no certificate was issued within 0\.5 s"):
            await renew(node.store, files(node), NAME, CLOCK, timeout=0.5)
    with pytest.raises(CredentialError, match="connection refused"):
        await renew(node.store, files(node), NAME, CLOCK, timeout=120)
    assert node.leaf == before


@async_test
async def test_a_certificate_that_is_no_longer_known_and_a_token(tmp_path: Path) -> None:
    """Forgotten, or revoked: it begins anew with what it began with, once, and says so if that is nothing."""
    async with aged(tmp_path, 0.9) as node:
        cluster, before = node.cluster, node.leaf
        revocation = CertificateRevocation(
            metadata=ObjectMeta(name="forgotten"),
            spec=CertificateRevocationSpec(
                revoked=RevocationTargets(certificates=[before.fingerprint().hex()]), reason=REASONS[0]
            ),
        )
        await cluster.client().create(CERTIFICATE_REVOCATIONS, revocation)
        await cluster.settle_async()
        with pytest.raises(CredentialError, match="does not accept the node's certificate"):
            await renew(node.store, files(node), NAME, CLOCK, timeout=120)
        assert node.leaf == before
        token = parse_token(await cluster.token_async())
        proven = DiscoveredCluster(cluster.url, cluster.pki.ca_certificate)
        write(node.root / BOOTSTRAP_CONF, node_kubeconfig.for_token(proven, token))
        # The token is shown; without a proof a name that has a machine takes more than that.
        with pytest.raises(CredentialError, match="is denied, reason: NodeNameTaken"):
            await renew(node.store, files(node), NAME, CLOCK, timeout=120)
        assert node.leaf == before
