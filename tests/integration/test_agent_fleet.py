"""200 agents under an accelerated clock: nobody is ever without a certificate, and nobody storms the API server."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path

import pytest

import aio
from agent_world import Managed, Network, managed, pass_time, running
from join_world import APPROVED, Decide, JoinWorld
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestStatus
from kubevouch.pki import issuance, keys, x509_request
from kubevouch.pki.authority import CertificateAuthority, create_authority
from kubevouch.pki.client_certificate import TrustAnchors, verify_chain
from kubevouch.pki.errors import ClientCertificateError
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.testing.cluster import Cluster
from kubevouch.util.clock import Clock

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
AGENTS = 200
HOUR = 3600.0
CONTROLLERS = ("certificatesigningrequest-approving-controller", "certificatesigningrequest-signing-controller")


def _issued_by(ca: CertificateAuthority, clock: Clock) -> Decide:
    """Approves, and signs with ``ca``."""

    def decide(csr: CertificateSigningRequest) -> CertificateSigningRequestStatus:
        issued = issuance.issue(
            ca,
            x509_request.parse_pem(csr.spec.request or b""),
            signer_name=csr.spec.signer_name,
            usages=csr.spec.usages,
            expiration_seconds=csr.spec.expiration_seconds,
            now=clock.now(),
        )
        return CertificateSigningRequestStatus(conditions=[APPROVED], certificate=issued.pem())

    return decide


@pytest.mark.timeout(180)
def test_a_ca_rotation_with_overlap(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(now=NOW) as cluster:
            network, world = Network(cluster), JoinWorld(cluster.server, cluster.clock)
            old = cluster.pki.authority
            # Its name is the old one's, as kubeadm names them.
            fresh = create_authority("kubernetes", keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW)
            fleet = [managed(network, tmp_path / f"node-{n}", f"node-{n}", seed=n) for n in range(AGENTS)]
            async with running(*fleet):
                await _pass(world, old, cluster, 120, step=10)
                assert _all_valid(fleet)
                network.token = False
                # 1. Both are trusted, and the new one signs.
                network.anchors = TrustAnchors([fresh.certificate, old.certificate])
                await _pass(world, fresh, cluster, 18 * HOUR, step=300)
                assert _all_valid(fleet)
                assert 0 < sum(_is_from(each, fresh) for each in fleet) < AGENTS
                # 2. The agents give up the old one, the server still takes it: who is late asks at once.
                network.server_anchors = network.anchors
                network.anchors = TrustAnchors([fresh.certificate])
                await _pass(world, fresh, cluster, 600, step=30)
                assert all(_is_from(each, fresh) for each in fleet) and _all_valid(fleet)
            assert not any(each.heard.failures for each in fleet)

    aio.run(scenario(), blocked_seconds=10.0)


async def _pass(world: JoinWorld, ca: CertificateAuthority, cluster: Cluster, seconds: float, *, step: float) -> None:
    """As ``pass_time``, with a clerk who signs with ``ca``; his watch does not last as long as this may take."""
    for part in range(0, int(seconds), 900):
        async with world.clerk_at_work(_issued_by(ca, cluster.clock)):
            await pass_time(cluster, min(seconds - part, 900), step=step, turns=10)


def _is_from(each: Managed, ca: CertificateAuthority) -> bool:
    assert each.manager.pair is not None
    leaf = each.manager.pair.leaf
    try:
        verify_chain(leaf, (), TrustAnchors([ca.certificate]), now=leaf.not_after)
    except ClientCertificateError:
        return False
    return True


def _all_valid(fleet: list[Managed]) -> bool:
    return all(each.manager.usable for each in fleet)


# The busiest test of all: 200 agents, two days, a few hundred seconds of time a step.
@pytest.mark.timeout(180)
def test_two_rotations_a_restart_and_an_hour_of_outage(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(now=NOW, controllers=CONTROLLERS) as cluster:
            network = Network(cluster)
            fleet = [
                managed(network, tmp_path / f"node-{n}", f"node-{n}", seed=n, lifetime=24 * 3600) for n in range(AGENTS)
            ]
            async with running(*fleet):
                await pass_time(cluster, 120, step=10, turns=20)
                assert _all_valid(fleet)
                # The token is not needed again.
                network.token = False
                await pass_time(cluster, 18 * HOUR, step=300, turns=8)
                assert _all_valid(fleet)
                await cluster.restart_async()
                await pass_time(cluster, 20 * HOUR, step=300, turns=8)
                assert _all_valid(fleet)
                # The second rotations are under way while nobody answers.
                network.down = True
                for _ in range(12):
                    await pass_time(cluster, 300, step=60, turns=2)
                    assert _all_valid(fleet)
                network.down = False
                await pass_time(cluster, 12 * HOUR, step=300, turns=8)
                assert _all_valid(fleet)
            assert all(len(each.heard.renewals) >= 3 for each in fleet)
            assert sum(len(each.heard.failures) for each in fleet) > 0
            for each in fleet:
                found = each.store.current()
                assert found is not None and found.leaf.subject.common_name.startswith("system:node:node-")
                assert not each.store.pending_key_path.exists()
            requests = (await cluster.client().list(catalog.CERTIFICATE_SIGNING_REQUESTS)).items
            # One request for each certificate, although many had to ask more than once.
            assert len(requests) == sum(len(each.heard.renewals) for each in fleet)
            # The herd is spread: after a common start, no five minutes see more than a tenth of the fleet.
            second = Counter(
                int((each.heard.renewals[1][1].leaf.not_before - NOW).total_seconds() // 300) for each in fleet
            )
            assert max(second.values()) <= AGENTS // 10

    aio.run(scenario(), blocked_seconds=10.0)
