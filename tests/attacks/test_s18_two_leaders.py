"""S18: two processes that both hold themselves for the leader (etcd's locks) issue once, and write once.

What is right does not rest on a lock: each write carries the resourceVersion that was read, and serial numbers are
drawn at random.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import aclosing

import pytest

from asynctest import async_test
from join_requests import GROUPS
from kubevouch import wellknown
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.client.interface import EventType, WatchOptions
from kubevouch.ledger.entries import DISCARDED, ISSUED, Entry, Query, Recorded
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import certificate_builder, x509_certificate
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.server.bootstrap import own_kinds
from kubevouch.standalone.controllers import start_controllers
from kubevouch.testing.cluster import Cluster

LEADERS = 3
REQUESTS = 60


def _csr(number: int) -> CertificateSigningRequest:
    subject = Subject(common_name=f"system:node:worker-{number}", organizations=("system:nodes",))
    spec = CertificateSigningRequestSpec(
        request=build_request(keys.generate(KeyAlgorithm.ECDSA_P256), subject),
        signer_name=wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
        usages=["digital signature", "client auth"],
    )
    return CertificateSigningRequest(metadata=ObjectMeta(name=f"csr-{number}"), spec=spec)


@async_test
async def test_leaders_at_once_issue_one_certificate_a_request() -> None:
    async with Cluster() as cluster:
        token = await cluster.token_async()
        joining = cluster.client(f"system:bootstrap:{token.partition('.')[0]}", GROUPS)
        await own_kinds.ensure(cluster.server.client)
        leaders = [start_controllers(cluster.server, ("*",)) for _ in range(LEADERS)]
        decisions: dict[str, list[tuple[int, bytes]]] = defaultdict(list)

        async def read() -> None:
            watching = cluster.client().watch(
                catalog.CERTIFICATE_SIGNING_REQUESTS, options=WatchOptions(send_initial_events=True)
            )
            issued = 0
            async with aclosing(watching) as events:
                async for event in events:
                    if event.type is EventType.BOOKMARK or event.object is None:
                        continue
                    status = event.object.status
                    seen = decisions[event.object.metadata.name]
                    seen.append((len(status.conditions), status.certificate))
                    issued += bool(status.certificate) and not seen[-2][1]
                    if issued == REQUESTS:
                        return

        reading = asyncio.create_task(read())
        try:
            await asyncio.gather(
                *(joining.create(catalog.CERTIFICATE_SIGNING_REQUESTS, _csr(number)) for number in range(REQUESTS))
            )
            await reading
            for leader in leaders:
                await leader.settle()
        finally:
            reading.cancel()
            for leader in leaders:
                await leader.close()
        listed = (await cluster.client().list(catalog.CERTIFICATE_SIGNING_REQUESTS)).items
    for name, states in decisions.items():
        # Made, approved, issued: each once.
        assert [(conditions, bool(certificate)) for conditions, certificate in states] == [
            (0, False), (1, False), (1, True),
        ], name  # fmt: skip
    serials = Counter(x509_certificate.parse_bundle(csr.status.certificate)[0].serial for csr in listed)
    assert len(serials) == REQUESTS
    # The certificate that the watch saw is the one that stays.
    assert {csr.metadata.name: csr.status.certificate for csr in listed} == {
        name: states[-1][1] for name, states in decisions.items()
    }


class _Meeting:
    """A ledger of one leader, in which ``issued`` is held back until every leader has signed the same request: nobody
    has written a certificate into the API by then."""

    def __init__(self, others: dict[str, list[asyncio.Event]], leaders: int) -> None:
        self.entries: list[Entry] = []
        self._ledger = MemoryLedger()
        self._met = others
        self._leaders = leaders

    async def append(self, *entries: Entry) -> int:
        sequence = await self._ledger.append(*entries)
        self.entries += entries
        for each in entries:
            if each.kind != ISSUED:
                continue
            met = self._met[each.uid]
            met.append(asyncio.Event())
            if len(met) >= self._leaders:
                for event in met:
                    event.set()
            await met[-1].wait()
        return sequence

    async def find(self, query: Query) -> Sequence[Recorded]:
        return await self._ledger.find(query)

    def of(self, kind: str) -> dict[str, list[Entry]]:
        """Its entries of a kind, by uid."""
        by_uid: dict[str, list[Entry]] = defaultdict(list)
        for each in self.entries:
            if each.kind == kind:
                by_uid[each.uid].append(each)
        return by_uid


@async_test
async def test_leaders_with_a_ledger_each_sign_at_most_once_each() -> None:
    """What one ledger would make impossible: as many certificates for a request as there are leaders. It ends there."""
    count = 8
    async with Cluster() as cluster:
        token = await cluster.token_async()
        joining = cluster.client(f"system:bootstrap:{token.partition('.')[0]}", GROUPS)
        await own_kinds.ensure(cluster.server.client)
        met: dict[str, list[asyncio.Event]] = defaultdict(list)
        ledgers = [_Meeting(met, LEADERS) for _ in range(LEADERS)]
        leaders = [start_controllers(cluster.server, ("*",), ledger=each) for each in ledgers]
        try:
            await asyncio.gather(
                *(joining.create(catalog.CERTIFICATE_SIGNING_REQUESTS, _csr(number)) for number in range(count))
            )
            # Who could not write its certificate looks again after a while.
            for _ in range(60):
                await cluster.clock.run(1)
                if sum(len(each.of(DISCARDED)) for each in ledgers) == count * (LEADERS - 1):
                    break
            for leader in leaders:
                await leader.settle()
        finally:
            for leader in leaders:
                await leader.close()
        requests = (await cluster.client().list(catalog.CERTIFICATE_SIGNING_REQUESTS)).items
    assert len(requests) == count
    for csr in requests:
        uid, handed_out = csr.metadata.uid, x509_certificate.parse_bundle(csr.status.certificate)[0]
        issued = [each.of(ISSUED)[uid] for each in ledgers]
        # 1. One for each leader, however often it has tried.
        assert [len(each) for each in issued] == [1] * LEADERS
        signed = [x509_certificate.parse_der(each[0].certificate) for each in issued]
        # 2. They are all for the requester's key and name: nobody else can use one.
        assert {each.public_key.info for each in signed} == {handed_out.public_key.info}
        assert {each.subject.common_name for each in signed} == {handed_out.subject.common_name}
        # 3. One of them is handed out, and its leader says nothing of it; of the others each leader's ledger says so.
        assert [each.serial for each in signed].count(handed_out.serial) == 1
        for ledger, certificate in zip(ledgers, signed, strict=True):
            discarded = [each.serial for each in ledger.of(DISCARDED)[uid]]
            expected = [] if certificate.serial == handed_out.serial else [ledger.of(ISSUED)[uid][0].serial]
            assert discarded == expected


@pytest.mark.parametrize("bits", [certificate_builder.SERIAL_BITS, certificate_builder.STRICT_SERIAL_BITS])
def test_serial_numbers_are_random_in_64_bits_and_more(bits: int) -> None:
    assert bits >= 64
    drawn = [certificate_builder.random_serial(bits) for _ in range(128)]
    assert len(set(drawn)) == len(drawn)
    # Every bit is now set and now not; that one is not so by chance has a probability of 2 to the -127.
    for bit in range(bits):
        assert len({serial >> bit & 1 for serial in drawn}) == 2, bit
