"""controllers/csr_signing.py and the ledger: whoever is killed at any step issues nothing twice that counts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from asynctest import async_test
from controller_world import FIXTURES, NOW, World, fixture, world
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestSpec,
    CertificateSigningRequestStatus,
)
from kubevouch.controllers.csr_signing import CSRSigner
from kubevouch.controllers.interface import ReconcileError, Request, UncountedSignatures
from kubevouch.ledger.entries import Entry, Query, Recorded
from kubevouch.ledger.interface import Ledger, LedgerUnavailable
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.ledger.store import SQLiteLedger
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import Time
from kubevouch.pki.x509 import pem, x509_certificate
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.signers.file import FileSigner
from kubevouch.signers.interface import Decision, Signer, SignerUnavailable
from kubevouch.signers.registry import Signers
from kubevouch.testing.clock import FakeClock
from kubevouch.wellknown import KUBE_APISERVER_CLIENT_KUBELET_SIGNER

SIGNED = Request("a")
STEPS = (
    "before append", "after append", "before sign", "after sign", "before append", "after append", "before update",
    "after update",
)  # fmt: skip
"""Of a signature, in their order; the first append is of what is intended, the second of what was issued."""


class Killed(BaseException):
    """What no handler takes for an error."""


class Fuse:
    """Burns down a step at a time; then it does what ``blow`` is."""

    def __init__(self, steps: int = 1000, blow: BaseException | None = None) -> None:
        self.left = steps
        self.blow = blow or Killed()
        self.passed: list[str] = []

    def step(self, name: str) -> None:
        self.passed.append(name)
        self.left -= 1
        if self.left == 0:
            raise self.blow


class Process:
    """A signing controller over a real server and a ledger, with a fuse."""

    def __init__(self, at: World, ledger: Ledger, fuse: Fuse | None = None) -> None:
        self.at, self.ledger, self.fuse = at, ledger, fuse or Fuse()
        self.held: CertificateSigningRequest | None = None
        real = FileSigner(FIXTURES / "ca-ec.crt", FIXTURES / "ca-ec.key")
        self.rules = real.rules
        self.chain_of = real.chain_of
        self.real = real
        self.kind = real.kind
        signers = Signers({KUBE_APISERVER_CLIENT_KUBELET_SIGNER: self.as_signer()})
        self.signer = CSRSigner(
            self.as_any(), self.as_any(), signers, self.as_any(), FakeClock(NOW), lambda csr: "",
            UncountedSignatures(),
        )  # fmt: skip

    def as_any(self) -> Any:
        return self

    def as_signer(self) -> Signer:
        return self.as_any()  # type: ignore[no-any-return]

    def get(self, name: str) -> CertificateSigningRequest | None:
        """The cache."""
        return self.held

    async def append(self, *entries: Entry) -> int:
        self.fuse.step("before append")
        sequence = await self.ledger.append(*entries)
        self.fuse.step("after append")
        return sequence

    async def find(self, query: Query) -> Sequence[Recorded]:
        return await self.ledger.find(query)

    async def sign(self, decision: Decision) -> Certificate:
        self.fuse.step("before sign")
        certificate = await self.real.sign(decision)
        self.fuse.step("after sign")
        return certificate

    async def create(self, resource: Any, obj: Any) -> Any:
        return await self.at.client.create(resource, obj)

    async def update(self, resource: Any, obj: Any, *, subresource: str) -> Any:
        self.fuse.step("before update")
        written = await self.at.client.update(resource, obj, subresource=subresource)
        self.fuse.step("after update")
        return written

    async def look(self) -> None:
        """The cache follows."""
        try:
            self.held = await self.at.client.get(CERTIFICATE_SIGNING_REQUESTS, "a")
        except APIStatusError:
            self.held = None

    async def reconcile(self) -> None:
        await self.signer.reconcile(SIGNED)


async def put(at: World, uid: str = "1") -> None:
    condition = CertificateSigningRequestCondition(
        type="Approved", status="True", last_update_time=Time.of(NOW), last_transition_time=Time.of(NOW)
    )
    spec = CertificateSigningRequestSpec(
        request=fixture("client-good.csr"),
        signer_name=KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
        usages=["digital signature", "client auth"],
    )
    csr = CertificateSigningRequest(
        metadata=ObjectMeta(name="a", uid=uid, creation_timestamp=Time.of(NOW)),
        spec=spec,
        status=CertificateSigningRequestStatus(conditions=[condition]),
    )
    await at.put(CERTIFICATE_SIGNING_REQUESTS, csr)


async def serial_of_what_counts(at: World) -> str:
    csr = await at.client.get(CERTIFICATE_SIGNING_REQUESTS, "a")
    block = pem.first_block(csr.status.certificate)
    assert block is not None
    return f"{x509_certificate.parse_der(block.contents).serial:x}"


async def kept(ledger: Ledger) -> list[tuple[str, str]]:
    return [(each.entry.kind, each.entry.serial) for each in await ledger.find(Query())]


@async_test
async def test_a_signature_has_these_steps() -> None:
    async with world() as at:
        await put(at)
        process = Process(at, MemoryLedger())
        await process.look()
        await process.reconcile()
        assert tuple(process.fuse.passed) == STEPS


@pytest.mark.parametrize("step", range(1, len(STEPS) + 1), ids=lambda step: f"{step} {STEPS[step - 1]}")
@pytest.mark.parametrize("blow", [Killed(), LedgerUnavailable("full")], ids=["killed", "full"])
@async_test
async def test_who_is_killed_at_any_step_issues_one_certificate_that_counts(
    tmp_path: Path, step: int, blow: BaseException
) -> None:
    async with world() as at, AsyncExitStack() as stack:
        await put(at)

        async def started() -> SQLiteLedger:
            ledger = await SQLiteLedger.open(tmp_path / "ledger.db", FakeClock(NOW))
            stack.push_async_callback(ledger.close)
            return ledger

        ledger = await started()
        process = Process(at, ledger, Fuse(step, blow))
        await process.look()
        with pytest.raises((Killed, ReconcileError, LedgerUnavailable)):
            await process.reconcile()
        before = await kept(ledger)
        await ledger.close()
        # The one that comes after it, whose cache may not have heard of the certificate yet.
        ledger = await started()
        again = Process(at, ledger)
        again.held = process.held
        try:
            await again.reconcile()
        except ReconcileError:
            await again.look()
            await again.reconcile()
        entries = await kept(ledger)
        assert entries[: len(before)] == before
        issued = [serial for kind, serial in entries if kind == "issued"]
        assert issued == [await serial_of_what_counts(at)]
        assert [kind for kind, _ in entries] == ["intended", "issued"]


@async_test
async def test_of_two_signers_at_once_one_certificate_counts_and_the_other_is_recorded() -> None:
    async with world() as at:
        await put(at)
        one, two = Process(at, MemoryLedger()), Process(at, MemoryLedger())
        await one.look()
        await two.look()
        await one.reconcile()
        with pytest.raises(ReconcileError, match="modified"):
            await two.reconcile()
        assert [kind for kind, _ in await kept(two.ledger)] == ["intended", "issued"]
        await two.look()
        await two.reconcile()
        counts = await serial_of_what_counts(at)
        assert [serial for kind, serial in await kept(one.ledger) if kind == "issued"] == [counts]
        (_, (_, lost), (kind, discarded)) = await kept(two.ledger)
        assert (kind, discarded) == ("discarded", lost) and lost != counts
        (told,) = await two.ledger.find(Query(serial=lost, kinds=frozenset({"discarded"})))
        assert told.entry.message == "another one was written for its request"
        # It is told once.
        await two.reconcile()
        assert len(await kept(two.ledger)) == 3


@async_test
async def test_an_answer_that_got_lost_discards_nothing() -> None:
    async with world() as at:
        await put(at)
        process = Process(at, MemoryLedger(), Fuse(len(STEPS), APIStatusErrorOf500()))
        await process.look()
        with pytest.raises(ReconcileError):
            await process.reconcile()
        await process.look()
        await process.reconcile()
        assert [kind for kind, _ in await kept(process.ledger)] == ["intended", "issued"]


def APIStatusErrorOf500() -> APIStatusError:  # noqa: N802
    from controller_world import answer

    return answer(500)


@pytest.mark.parametrize("is_again", [False, True])
@async_test
async def test_what_was_issued_for_a_request_that_is_gone_is_discarded(is_again: bool) -> None:
    async with world() as at:
        await put(at)
        process = Process(at, MemoryLedger(), Fuse(len(STEPS) - 1, APIStatusErrorOf500()))
        await process.look()
        with pytest.raises(ReconcileError):
            await process.reconcile()
        await at.client.delete(CERTIFICATE_SIGNING_REQUESTS, "a")
        if is_again:
            await put(at, uid="2")
        process.held = None
        if is_again:
            await process.look()
        await process.reconcile()
        kinds = [kind for kind, _ in await kept(process.ledger)]
        assert kinds == ["intended", "issued", "discarded", *(["intended", "issued"] if is_again else [])]


@async_test
async def test_a_signer_that_is_away_is_intended_once() -> None:
    """However often it is asked: the ledger would grow with each time."""
    async with world() as at:
        await put(at)
        process = Process(at, MemoryLedger())
        away = Process(at, process.ledger, Fuse(3, SignerUnavailable("away")))
        await away.look()
        for _ in range(3):
            away.fuse.left = 1 if away.fuse.passed else 3
            await away.reconcile()
        assert [kind for kind, _ in await kept(process.ledger)] == ["intended"]
        await process.look()
        await process.reconcile()
        assert [kind for kind, _ in await kept(process.ledger)] == ["intended", "issued"]
