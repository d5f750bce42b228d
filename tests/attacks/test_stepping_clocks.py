"""The clock of a server is set forward or back while it runs: nothing is signed twice or forgotten for good."""

from __future__ import annotations

import asyncio
import datetime as dt
from pathlib import Path

import pytest

from asynctest import async_test
from controller_world import FIXTURES, fixture
from join_requests import GROUPS
from kubevouch import wellknown
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.api.core_v1 import Node
from kubevouch.ledger.interface import Ledger
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.ledger.store import SQLiteLedger
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import x509_request
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.records import certificate_ledger
from kubevouch.revocation import node_records
from kubevouch.server.bootstrap import own_kinds
from kubevouch.signers.file import FileSigner
from kubevouch.signers.interface import Approval, Requester, Wanted
from kubevouch.signers.issuance import issue
from kubevouch.standalone.controllers import start_controllers
from kubevouch.standalone.options import IdentityOptions
from kubevouch.testing.clock import FakeClock, settle
from kubevouch.testing.cluster import Cluster
from kubevouch.util.settled_time import SETTLES_SECONDS, TOLERATED_SECONDS, SettledTime

NOW = dt.datetime(2026, 6, 1, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
SWEEP_SECONDS = 86400
WANTED = Wanted(
    "c", "u", wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER, x509_request.parse_pem(fixture("client-good.csr")),
    ["digital signature", "client auth"], created=NOW,
)  # fmt: skip


async def _ledger(kind: str, folder: Path) -> Ledger:
    return MemoryLedger() if kind == "memory" else await SQLiteLedger.open(folder / "ledger.db", FakeClock(NOW))


@pytest.mark.parametrize("kind", ["memory", "file"])
@pytest.mark.parametrize("steps", [(-6, -6), (-300, -300), (-300, 0), (-300, -1, 3), (0, -300), (1, -300, 1)], ids=str)
@async_test
async def test_a_request_is_signed_once_whatever_the_clock_says(
    tmp_path: Path, kind: str, steps: tuple[int, ...]
) -> None:
    """Each try at another time, in days from when the request was made: a status that could not be written is tried
    again."""
    ledger = await _ledger(kind, tmp_path)
    signer = FileSigner(FIXTURES / "ca-ec.crt", FIXTURES / "ca-ec.key")
    try:
        signed = [
            await issue(signer, Requester("u"), Approval("r", "m"), WANTED, now=NOW + days * DAY, ledger=ledger)
            for days in steps
        ]
    finally:
        if isinstance(ledger, SQLiteLedger):
            await ledger.close()
    assert len({each.serial for each in signed}) == 1


def _csr(name: str) -> CertificateSigningRequest:
    subject = Subject(common_name=f"system:node:{name}", organizations=("system:nodes",))
    spec = CertificateSigningRequestSpec(
        request=build_request(keys.generate(KeyAlgorithm.ECDSA_P256), subject),
        signer_name=wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
        usages=["digital signature", "client auth"],
    )
    return CertificateSigningRequest(metadata=ObjectMeta(name=f"csr-{name}"), spec=spec)


async def _remembered(cluster: Cluster) -> tuple[int, list[str]]:
    """How many valid certificates are known, and which nodes are locked out."""
    maps = (await cluster.client().list(catalog.CONFIG_MAPS, wellknown.KUBE_SYSTEM_NAMESPACE)).items
    known = [each.data for each in maps if each.metadata.name.startswith(certificate_ledger.PREFIX)]
    nodes = [each.data for each in maps if each.metadata.name.startswith(node_records.PREFIX)]
    locked = [name for data in nodes for name, record in node_records.decode(data).items() if record.locked]
    return sum(len(certificate_ledger.decode(each)) for each in known), locked


@async_test
async def test_a_clock_that_is_years_ahead_for_a_while_forgets_nothing() -> None:
    """With its valid certificate forgotten, a node's name would be free for the next bootstrap token."""
    async with Cluster() as cluster:
        token = await cluster.token_async()
        joining = cluster.client(f"system:bootstrap:{token.partition('.')[0]}", GROUPS)
        await own_kinds.ensure(cluster.server.client)
        running = start_controllers(cluster.server, ("*",), identity=IdentityOptions(lock_out_deleted_nodes=True))
        try:
            names = [f"worker-{number}" for number in range(6)]
            await asyncio.gather(*(joining.create(catalog.CERTIFICATE_SIGNING_REQUESTS, _csr(each)) for each in names))
            await cluster.client().create(catalog.NODES, Node(metadata=ObjectMeta(name="gone")))
            await cluster.clock.run(5)
            await running.settle()
            await cluster.client().delete(catalog.NODES, "gone")
            await cluster.clock.run(5)
            await running.settle()
            assert await _remembered(cluster) == (len(names), ["gone"])
            # 1. Years ahead while what has ended is swept away, which is once a day.
            right = cluster.clock.now()
            cluster.clock.set(right + 3 * 365 * DAY)
            cluster.clock.advance(SWEEP_SECONDS + 60)
            await settle()
            await running.settle()
            # 2. Right again, through the next sweep.
            cluster.clock.set(right + DAY)
            cluster.clock.advance(SWEEP_SECONDS + 60)
            await settle()
            await running.settle()
            assert await _remembered(cluster) == (len(names), ["gone"])
        finally:
            await running.close()


def test_a_step_forward_counts_a_day_later_and_one_back_at_once() -> None:
    clock = FakeClock(NOW)
    time = SettledTime(clock)
    # 1. Time that passes, and what a clock is set by usually, count at once.
    clock.advance(3600)
    assert time.now() == clock.now()
    clock.set(clock.now() + dt.timedelta(seconds=TOLERATED_SECONDS / 2))
    assert time.now() == clock.now()
    # 2. A step does not, and time goes on beside it.
    before = clock.now()
    clock.set(before + 365 * DAY)
    assert time.now() == before
    clock.advance(SETTLES_SECONDS - 1)
    assert time.now() == before + dt.timedelta(seconds=SETTLES_SECONDS - 1)
    # 3. Another step begins its day anew.
    clock.set(clock.now() + 365 * DAY)
    assert time.now() < before + 2 * DAY
    clock.advance(SETTLES_SECONDS)
    assert time.now() == clock.now()
    # 4. Back, and forward from there.
    clock.set(NOW - 365 * DAY)
    assert time.now() == NOW - 365 * DAY
    clock.set(NOW)
    assert time.now() == NOW - 365 * DAY
