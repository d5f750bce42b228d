"""Many agents under an accelerated clock: nobody is ever without a certificate, and nobody storms the API server."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache
from pathlib import Path
from typing import Self, cast

import pytest

import aio
from agent_world import Managed, Network, managed, pass_time, running
from join_world import APPROVED, Decide, JoinWorld
from kubevouch.agent import node_kubeconfig
from kubevouch.agent.certificate_store import CertificateStore, StoredPair
from kubevouch.agent.daemon import Agent
from kubevouch.agent.discovery import DiscoveredCluster
from kubevouch.agent.manager_interface import Manager
from kubevouch.agent.node_access import ClusterFiles
from kubevouch.agent.options import AgentOptions
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestStatus
from kubevouch.client.credentials import Credential
from kubevouch.client.https import HTTPSClient
from kubevouch.client.interface import ConnectFailed, RawResponse, TLSFailed
from kubevouch.client.rest_config import RESTConfig
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
from kubevouch.pki.x509.x509_certificate import Certificate, parse_bundle
from kubevouch.records.bootstrap_tokens import parse_token
from kubevouch.testing.cluster import ADMIN, Cluster
from kubevouch.util.clock import Clock

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
# make endurance has 200.
AGENTS = int(os.environ.get("KUBEVOUCH_AGENTS", "100"))
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


class Line:
    """A client over loopback that verifies the server, and shows what it has, as one over HTTPS does."""

    address = "127.0.0.1:6443"

    def __init__(self, network: Network, config: RESTConfig, clock: Clock) -> None:
        self._network, self._tls = network, config.tls
        self._credentials = config.credentials(clock)
        self._shown = Credential()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing is held."""

    async def close(self) -> None:
        """Nothing is held."""

    async def raw(self, _method: str, _path: str) -> RawResponse:
        self._shown = await self._credentials.current()
        if self._network.down:
            raise ConnectFailed("connection refused", address=self.address)
        served = self._network.cluster.pki.apiserver.certificate.read_bytes()
        assert isinstance(self._tls.ca_bundle, bytes)
        if not _verifies(self._tls.ca_bundle, served):
            raise TLSFailed("the server's certificate is signed by an unknown authority", address=self.address)
        return RawResponse(200)

    def __getattr__(self, name: str) -> object:
        if self._tls.certificate:
            assert isinstance(self._tls.certificate, bytes) and isinstance(self._tls.private_key, bytes)
            pair = StoredPair(_chain(self._tls.certificate), SOME_KEY)
            return getattr(self._network.cluster.client(self._network.user(pair)), name)
        # Whoever shows nothing reads cluster-info.
        user = ADMIN if self._shown == Credential() else self._network.user(None)
        return getattr(self._network.cluster.client(user), name)


SOME_KEY = keys.generate(KeyAlgorithm.ECDSA_P256)


@lru_cache(maxsize=1024)
def _chain(text: bytes) -> tuple[Certificate, ...]:
    return tuple(parse_bundle(text))


@lru_cache(maxsize=1024)
def _verifies(bundle: bytes, served: bytes) -> bool:
    """On a day on which it was valid: the server's certificate outlives the test."""
    leaf, *chain = parse_bundle(served)
    try:
        verify_chain(
            leaf, chain, TrustAnchors.from_pem(bundle), now=leaf.not_after, usage=EXTENDED_KEY_USAGES[SERVER_AUTH]
        )
    except ClientCertificateError:
        return False
    return True


class Machine(Agent):
    """The agent of a machine that has a bootstrap kubeconfig; remembers what it has told its listeners."""

    def __init__(self, network: Network, root: Path, number: int) -> None:
        name = f"node-{number}"
        cluster = network.cluster
        info = DiscoveredCluster("https://127.0.0.1:6443", cluster.pki.authority.certificate.pem())
        root.mkdir(parents=True)
        bootstrap = root / "bootstrap.conf"
        bootstrap.write_text(node_kubeconfig.for_token(info, parse_token("abcdef.0123456789abcdef")))
        options = AgentOptions(
            name,
            ClusterFiles(root / "kubelet.conf", bootstrap),
            cert_dir=root / "pki",
            expiration_seconds=24 * 3600,
            socket=root / "s",
            healthz=None,
            recovery=False,
            # Ten hours, and one while the CA changes.
            refresh_seconds=10 * HOUR,
        )

        def connect(config: RESTConfig, clock: Clock) -> HTTPSClient:
            return cast("HTTPSClient", Line(network, config, clock))

        super().__init__(options, cluster.clock, random.Random(number).random, connect)
        self.store = CertificateStore(options.cert_dir)
        self.renewals: list[Certificate] = []
        self.failures = 0

    async def renewed(self, manager: Manager, former: StoredPair | None, /) -> None:
        found = self.store.current()
        assert found is not None
        self.renewals.append(found.leaf)
        await super().renewed(manager, former)

    def failed(self, manager: Manager, /) -> None:
        self.failures += 1
        super().failed(manager)


@asynccontextmanager
async def _at_work(machines: list[Machine]) -> AsyncIterator[None]:
    stop = asyncio.Event()
    tasks = [asyncio.create_task(each.run(stop)) for each in machines]
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait(tasks)
        assert not [task.exception() for task in tasks if not task.cancelled() and task.exception()]


class Fleet:
    """The fleet, and the operator with the tool."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.network = cluster, Network(cluster)
        self.layout = Layout(cluster.folder / "pki", cluster.folder)
        self.agents = [Machine(self.network, folder / str(n), n) for n in range(AGENTS)]

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
        assert all(each.client.usable for each in self.agents)

    async def requests(self) -> int:
        return len((await self.cluster.client().list(catalog.CERTIFICATE_SIGNING_REQUESTS)).items)


# The busiest test of all: a fleet, two days, a few hundred seconds of time a step.
def test_two_rotations_a_restart_a_ca_rotation_and_an_hour_of_outage(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(now=NOW, controllers=CONTROLLERS) as cluster:
            fleet = Fleet(cluster, tmp_path)
            network, agents = fleet.network, fleet.agents
            former = cluster.pki.authority.certificate
            async with _at_work(agents):
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
                assert issued == sum(len(each.renewals) for each in agents)
                await cluster.client().delete_collection(catalog.CERTIFICATE_SIGNING_REQUESTS)
                assert await fleet.step("finish") is Phase.FINISHED
                await fleet.live(23 * HOUR)
            following = load_authority(fleet.layout.authority("ca")).certificate
            assert following != former
            assert all(each.access.bundle() == (following,) for each in agents)
            for each in agents:
                found = each.store.current()
                assert found is not None and is_issued_by(found.leaf, following)
                assert found.leaf.subject.common_name.startswith("system:node:node-")
                assert not each.store.pending_key_path.exists()
                # One to begin with, one by the schedule or the CA, one after that.
                assert len(each.renewals) >= 3
            assert sum(each.failures for each in agents) > 0
            # One request for each certificate, although many had to ask more than once.
            assert issued + await fleet.requests() == sum(len(each.renewals) for each in agents)
            # The herd is spread: no five minutes see more than a tenth of the fleet, but for those after the outage, in
            # which whoever was due meanwhile tries again.
            begun = Counter(
                (each.renewals[number].not_before - NOW) // dt.timedelta(minutes=5)
                for each in agents
                for number in (1, 2)
            )
            back = (answered - NOW) // dt.timedelta(minutes=5)
            assert max(count for when, count in begun.items() if when not in (back - 1, back)) <= AGENTS // 10

    aio.run(scenario(), blocked_seconds=10.0)
