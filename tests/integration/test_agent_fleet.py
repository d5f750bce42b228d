"""200 agents under an accelerated clock: nobody is ever without a certificate, and nobody storms the API server."""

from __future__ import annotations

import asyncio
import datetime as dt
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import aio
from agent_world import LoopbackAccess, Managed, Network, managed, pass_time, running
from join_world import APPROVED, Decide, JoinWorld
from kubevouch.agent import trust_bundle, trust_report
from kubevouch.agent.options import REFRESH_SECONDS
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestStatus
from kubevouch.phases.certificates.ca_rotation import CARotation, CARotationError
from kubevouch.phases.certificates.ca_rotation_plan import Phase, Rotation
from kubevouch.phases.certificates.certs import load_authority, read_bundle
from kubevouch.phases.certificates.control_plane_files import Layout
from kubevouch.pki import issuance, keys
from kubevouch.pki.authority import CertificateAuthority, create_authority
from kubevouch.pki.client_certificate import TrustAnchors, is_issued_by, verify_chain
from kubevouch.pki.errors import ClientCertificateError
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import x509_request
from kubevouch.pki.x509.usages import EXTENDED_KEY_USAGES, SERVER_AUTH
from kubevouch.pki.x509.x509_certificate import parse_bundle
from kubevouch.records import ca_rotation
from kubevouch.records.ca_rotation import RENEWAL_ANNOTATION
from kubevouch.records.cluster_info import kubeconfig_of, parse_kubeconfig
from kubevouch.testing.cluster import Cluster
from kubevouch.util.clock import Clock

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
AGENTS = 200
HOUR = 3600.0
CONTROLLERS = (
    "certificatesigningrequest-approving-controller",
    "certificatesigningrequest-signing-controller",
    "certificate-ledger-controller",
)


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


@dataclass
class Follower:
    """Reads cluster-info about once an hour, as the agent does, and reports what it then trusts.

    A server is shown by verifying what it serves, at the clock's time.
    """

    network: Network
    node_name: str
    random: random.Random
    access: LoopbackAccess = field(init=False)
    trusted: TrustAnchors = field(init=False)

    def __post_init__(self) -> None:
        self.trusted = self.network.anchors

    async def run(self) -> None:
        clock = self.network.cluster.clock
        while True:
            await clock.sleep(REFRESH_SECONDS * (0.5 + self.random.random()))
            await self.follow()

    async def follow(self) -> None:
        cluster = self.network.cluster
        if self.network.down:
            return
        found = await cluster.client().get(catalog.CONFIG_MAPS, "cluster-info", "kube-public")
        info = parse_kubeconfig(kubeconfig_of(found))
        published = trust_bundle.parse(info.certificate_authority_data, "cluster-info")
        self._verify_server(self.trusted)
        self._verify_server(TrustAnchors(published))
        order = found.metadata.annotations.get(RENEWAL_ANNOTATION, "")
        self.access.order = ca_rotation.parse(order) if order else None
        if trust_bundle.is_rollover(self.trusted.certificates, published):
            self.trusted = TrustAnchors(published)
        client = cluster.client(f"system:node:{self.node_name}", ["system:nodes"])
        await trust_report.report(client, self.node_name, trust_bundle.bundle_hash(published))

    def _verify_server(self, anchors: TrustAnchors) -> None:
        leaf, *chain = parse_bundle(self.network.cluster.pki.apiserver.certificate.read_bytes())
        verify_chain(leaf, chain, anchors, now=self.network.cluster.clock.now(), usage=EXTENDED_KEY_USAGES[SERVER_AUTH])


class FollowingAccess(LoopbackAccess):
    """Trusts what its follower trusts."""

    follower: Follower

    def anchors(self) -> TrustAnchors | None:
        return self.follower.trusted

    async def refresh(self) -> None:
        await super().refresh()
        await self.follower.follow()


def _following(each: Managed, node_name: str, seed: int) -> Follower:
    """Makes a manager's access one that follows the CA."""
    follower = Follower(each.access.network, node_name, random.Random(seed))
    each.access.__class__ = FollowingAccess
    each.access.follower = follower  # type: ignore[attr-defined]  # it is one now
    follower.access = each.access
    return follower


@asynccontextmanager
async def _at_work(followers: list[Follower]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(each.run()) for each in followers]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert not [task.exception() for task in tasks if not task.cancelled()]


class Fleet:
    """The fleet, and the operator with the tool."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.network = cluster, Network(cluster)
        self.layout = Layout(cluster.folder / "pki", cluster.folder)
        self.agents = [
            managed(self.network, folder / f"node-{n}", f"node-{n}", seed=n, lifetime=24 * 3600) for n in range(AGENTS)
        ]
        self.followers = [_following(each, f"node-{n}", n) for n, each in enumerate(self.agents)]

    async def step(self, name: str) -> Phase:
        """The operator's command; a server then believes whom its files say."""
        rotation = CARotation(self.cluster.client(), self.layout, self.cluster.clock)
        state: Rotation = await getattr(rotation, name)()
        self.network.server_anchors = TrustAnchors.from_pem(read_bundle(self.layout.pki))
        return state.phase

    async def refused(self, name: str) -> int:
        """How many machines are in the way of the command."""
        with pytest.raises(CARotationError) as refusal:
            await self.step(name)
        return len({each.name for each in refusal.value.obstacles if each.name.startswith("node-")})

    async def live(self, seconds: float, *, step: float = 300, turns: int = 8) -> None:
        await pass_time(self.cluster, seconds, step=step, turns=turns)
        assert _all_valid(self.agents)

    async def requests(self) -> int:
        return len((await self.cluster.client().list(catalog.CERTIFICATE_SIGNING_REQUESTS)).items)


# The busiest test of all: 200 agents, two days, a few hundred seconds of time a step.
def test_two_rotations_a_restart_a_ca_rotation_and_an_hour_of_outage(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(now=NOW, controllers=CONTROLLERS) as cluster:
            fleet = Fleet(cluster, tmp_path)
            network, agents = fleet.network, fleet.agents
            former = cluster.pki.authority.certificate
            async with running(*agents), _at_work(fleet.followers):
                await fleet.live(120, step=10, turns=20)
                # The token is not needed again.
                network.token = False
                # 1. Both CAs are published, and nobody has heard of it yet.
                assert await fleet.step("start") is Phase.DISTRIBUTING
                assert await fleet.refused("start") == AGENTS
                await fleet.live(18 * HOUR)
                await cluster.restart_async()
                # 2. Everybody has. The next CA signs, and the fleet renews in a window of six hours.
                assert await fleet.step("start") is Phase.RENEWING
                assert await fleet.refused("finish") == AGENTS
                await fleet.live(2 * HOUR)
                assert 0 < await fleet.refused("finish") < AGENTS
                # Half of that time nobody answers.
                network.down = True
                await fleet.live(HOUR, step=60, turns=2)
                network.down, answered = False, cluster.clock.now()
                await fleet.live(6 * HOUR)
                # 3. The requests are cleaned, and the ledger knows that nobody depends on the former CA.
                issued = await fleet.requests()
                assert issued == sum(len(each.heard.renewals) for each in agents)
                await cluster.client().delete_collection(catalog.CERTIFICATE_SIGNING_REQUESTS)
                assert await fleet.step("finish") is Phase.FINISHED
                await fleet.live(23 * HOUR)
            following = load_authority(fleet.layout.authority("ca")).certificate
            assert following != former
            assert all(each.trusted.certificates == (following,) for each in fleet.followers)
            for each in agents:
                found = each.store.current()
                assert found is not None and is_issued_by(found.leaf, following)
                assert found.leaf.subject.common_name.startswith("system:node:node-")
                assert not each.store.pending_key_path.exists()
                # One to begin with, one by the schedule or the CA, one after that.
                assert len(each.heard.renewals) >= 3
            assert sum(len(each.heard.failures) for each in agents) > 0
            # One request for each certificate, although many had to ask more than once.
            assert issued + await fleet.requests() == sum(len(each.heard.renewals) for each in agents)
            # The herd is spread: no five minutes see more than a tenth of the fleet, but for those after the outage, in
            # which whoever was due meanwhile tries again.
            begun = Counter(
                (each.heard.renewals[number][1].leaf.not_before - NOW) // dt.timedelta(minutes=5)
                for each in agents
                for number in (1, 2)
            )
            back = (answered - NOW) // dt.timedelta(minutes=5)
            assert max(count for when, count in begun.items() if when not in (back - 1, back)) <= AGENTS // 10

    aio.run(scenario(), blocked_seconds=10.0)
