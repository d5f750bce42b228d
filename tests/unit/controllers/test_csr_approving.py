"""Who counts when approvers disagree, and a cache that is behind; what is approved is in the contract tests."""

from __future__ import annotations

from contextlib import suppress

import pytest

from asynctest import async_test
from controller_world import World, world
from decisions import request_pem
from kubevouch import wellknown
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.client.cache.indexer import Indexer
from kubevouch.client.cache.lister import Lister
from kubevouch.client.interface import Client, TransportError
from kubevouch.controllers import csr_approving
from kubevouch.controllers.approval import name_admission
from kubevouch.controllers.approval.interface import RefusedError, Uncounted
from kubevouch.controllers.approval.kubelet_client import KubeletClientApprover, MachineBounds
from kubevouch.controllers.approval.name_admission import NameAdmission, NameCaches
from kubevouch.controllers.approval.recovery_admission import RecoveryAdmission
from kubevouch.controllers.approval.token_admission import TokenAdmission
from kubevouch.controllers.csr_approving import CSRApprover
from kubevouch.controllers.interface import DONE, IgnorableError, ReconcileError, UnansweredError, request_of
from kubevouch.controllers.record_maps import RecordMaps
from kubevouch.controllers.recovery_records import RecoveryRecords
from kubevouch.ledger.entries import DENIED, Entry, Query
from kubevouch.ledger.interface import Ledger, LedgerUnavailable
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.machinery.meta import ObjectMeta, replace_metadata
from kubevouch.policy.verdict import Outcome, Verdict
from kubevouch.standalone.controllers import controller_user


def approver(at: World, cached: Indexer[CertificateSigningRequest]) -> CSRApprover:
    def connect(name: str) -> Client:
        return at.server.api.loopback(controller_user(name), name)

    keeper = wellknown.NODE_RECOVERY_CONTROLLER
    recovery = RecoveryAdmission(RecoveryRecords(connect(keeper), at.clock, keeper), None, at.clock)
    tokens = TokenAdmission(connect(wellknown.TOKEN_USES_CONTROLLER), Lister(Indexer()))
    for index in (name_admission.NODE_INDEX, name_admission.KEY_INDEX):
        with suppress(ValueError):
            cached.add_index(index, lambda _: ())
    caches = NameCaches(Lister(cached), Lister(Indexer()), RecordMaps(Indexer()))
    names = NameAdmission(connect(csr_approving.NAME), caches, tokens, at.clock, takeover=False)
    client = connect(csr_approving.NAME)
    bounds = MachineBounds(tokens, recovery, names)
    approvers = [KubeletClientApprover(client)]
    return CSRApprover(client, Lister(cached), approvers, [bounds], MemoryLedger(), at.clock, Uncounted())


async def asked(at: World, name: str = "csr-1") -> CertificateSigningRequest:
    spec = CertificateSigningRequestSpec(
        request=request_pem("system:node:n1", "system:nodes"),
        signer_name=wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
        usages=["digital signature", "client auth"],
    )
    machine = at.as_user("system:bootstrap:abcdef", "system:bootstrappers", wellknown.DEFAULT_NODE_TOKEN_GROUP)
    made = CertificateSigningRequest(metadata=ObjectMeta(name=name), spec=spec)
    return await machine.create(CERTIFICATE_SIGNING_REQUESTS, made)


@async_test
async def test_what_was_approved_is_left_alone_until_the_cache_has_heard_of_it() -> None:
    async with world() as at:
        cached: Indexer[CertificateSigningRequest] = Indexer()
        csr = await asked(at)
        cached.put(csr)
        approves = approver(at, cached)
        assert await approves.reconcile(request_of(csr)) == DONE
        approved = await at.client.get(CERTIFICATE_SIGNING_REQUESTS, "csr-1")
        assert [condition.type for condition in approved.status.conditions] == [wellknown.CSR_APPROVED]
        assert await approves.reconcile(request_of(csr)) == DONE
        # Another replica does not know, and loses the race.
        with pytest.raises(ReconcileError, match="the object has been modified"):
            await approver(at, cached).reconcile(request_of(csr))


@async_test
async def test_another_version_is_looked_at_again() -> None:
    async with world() as at:
        cached: Indexer[CertificateSigningRequest] = Indexer()
        csr = await asked(at)
        cached.put(csr)
        approves = approver(at, cached)
        await approves.reconcile(request_of(csr))
        cached.put(replace_metadata(csr, resource_version=f"{csr.metadata.resource_version}0"))
        with pytest.raises(ReconcileError):
            await approves.reconcile(request_of(csr))


class Says:
    """An approver that says one thing."""

    def __init__(self, says: Outcome | Exception, *, loaded: bool = True) -> None:
        self.name = str(says)
        self.asked = 0
        self._says = says
        self._loaded = loaded

    def has_loaded(self) -> bool:
        return self._loaded

    async def judge(self, *_: object) -> Verdict:
        self.asked += 1
        if isinstance(self._says, Exception):
            raise self._says
        return Verdict(self._says, self.name, reason=f"Reason{self._says.name.title()}", message="why")


class Admits:
    """A bound that counts, and may refuse."""

    def __init__(self, refusal: RefusedError | None = None) -> None:
        self.asked = 0
        self._refusal = refusal

    async def admit(self, *_: object) -> None:
        self.asked += 1
        if self._refusal is not None:
            raise self._refusal


async def decided(
    at: World, approvers: list[Says], bound: Admits, ledger: Ledger | None = None, name: str = "csr-1"
) -> tuple[list[str], Exception | None]:
    """Types and reasons of the conditions, and what was raised."""
    csr = await asked(at, name)
    cached: Indexer[CertificateSigningRequest] = Indexer()
    cached.put(csr)
    client = at.server.api.loopback(controller_user(csr_approving.NAME), "test")
    raised = None
    try:
        lister = Lister(cached)
        approver = CSRApprover(client, lister, approvers, [bound], ledger or MemoryLedger(), at.clock, Uncounted())
        await approver.reconcile(request_of(csr))
    except (ReconcileError, TransportError) as err:
        raised = err
    after = await at.client.get(CERTIFICATE_SIGNING_REQUESTS, csr.metadata.name)
    return [f"{each.type} {each.reason}" for each in after.status.conditions], raised


@async_test
async def test_a_denial_counts_whoever_approves_and_takes_nothing() -> None:
    async with world() as at:
        bound = Admits()
        says = [Says(Outcome.APPROVE), Says(Outcome.DENY)]
        assert await decided(at, says, bound) == (["Denied ReasonDeny"], None)
        assert bound.asked == 0


class Asks(Says):
    """Has somebody outside asked before it says anything."""

    async def judge(self, *_: object) -> Verdict:
        self.asked += 1
        if self.asked == 1:
            raise UnansweredError("asked")
        return Verdict(Outcome.APPROVE, self.name, reason="ReasonApprove", message="why")


class Forbids(Says):
    """Has come to deny by the time that it is asked again."""

    async def judge(self, *_: object) -> Verdict:
        self._says = Outcome.DENY if self.asked else Outcome.APPROVE
        return await super().judge()


@async_test
async def test_what_changes_while_somebody_outside_answers_counts() -> None:
    async with world() as at:
        says = [Forbids(Outcome.APPROVE), Asks(Outcome.APPROVE)]
        conditions, raised = await decided(at, says, Admits())
        assert conditions == [] and isinstance(raised, UnansweredError)
        assert (await decided(at, says, Admits(), name="csr-2"))[0] == ["Denied ReasonDeny"]


@async_test
async def test_an_answer_has_others_asked_again_that_could_not_say() -> None:
    async with world() as at:
        says = [Says(TransportError("away")), Asks(Outcome.APPROVE)]
        _, raised = await decided(at, says, Admits())
        assert isinstance(raised, UnansweredError)


@async_test
async def test_a_denial_waits_for_nobody_outside() -> None:
    async with world() as at:
        says = [Asks(Outcome.APPROVE), Says(Outcome.DENY)]
        assert await decided(at, says, Admits()) == (["Denied ReasonDeny"], None)


@async_test
async def test_of_two_that_approve_a_service_is_named_last() -> None:
    async with world() as at:
        ledger = MemoryLedger()
        service, own = Says(Outcome.APPROVE), Says(Outcome.APPROVE)
        service.name = "webhook/cmdb"
        await decided(at, [own, service], Admits(), ledger)
        (found,) = await ledger.find(Query())
        assert found.entry.approver == own.name


@async_test
async def test_an_approval_does_not_count_while_somebody_cannot_say() -> None:
    async with world() as at:
        failure, bound = TransportError("away"), Admits()
        assert await decided(at, [Says(Outcome.APPROVE), Says(failure)], bound) == ([], failure)
        assert bound.asked == 0


@async_test
async def test_a_denial_counts_while_somebody_cannot_say() -> None:
    async with world() as at:
        says = [Says(TransportError("away")), Says(Outcome.DENY)]
        assert await decided(at, says, Admits()) == (["Denied ReasonDeny"], None)


@async_test
async def test_nothing_is_decided_before_all_have_loaded() -> None:
    async with world() as at:
        first = Says(Outcome.DENY)
        conditions, raised = await decided(at, [first, Says(Outcome.NO_OPINION, loaded=False)], Admits())
        assert (conditions, first.asked) == ([], 0)
        assert isinstance(raised, IgnorableError)


@async_test
async def test_a_bound_denies_what_was_approved() -> None:
    async with world() as at:
        bound = Admits(RefusedError("bootstrap-token", "OutsideTokenBounds", "used up"))
        assert await decided(at, [Says(Outcome.APPROVE)], bound) == (["Denied OutsideTokenBounds"], None)


@async_test
async def test_what_nobody_decides_stays_open() -> None:
    async with world() as at:
        bound = Admits()
        assert await decided(at, [Says(Outcome.NO_OPINION)], bound) == ([], None)
        assert bound.asked == 0


@async_test
async def test_the_ledger_has_the_decision_with_what_was_looked_at() -> None:
    async with world() as at:
        ledger = MemoryLedger()
        await decided(at, [Says(Outcome.APPROVE), Says(Outcome.DENY)], Admits(), ledger)
        (entry,) = [each.entry for each in await ledger.find(Query())]
        assert (entry.kind, entry.request, entry.requester, entry.approver, entry.reason, entry.message) == (
            DENIED, "csr-1", "system:bootstrap:abcdef", "deny", "ReasonDeny", "why",
        )  # fmt: skip
        assert [(step["rule"], step["result"]) for step in entry.trace] == [("deny", "unmet"), ("approve", "met")]


class FullLedger(MemoryLedger):
    """It takes nothing."""

    async def append(self, *entries: Entry) -> int:
        raise LedgerUnavailable(f"no room for {len(entries)}")


@async_test
async def test_nobody_sees_a_decision_that_cannot_be_written_down() -> None:
    async with world() as at:
        conditions, raised = await decided(at, [Says(Outcome.APPROVE)], Admits(), FullLedger())
        assert conditions == []
        assert "cannot be written down: no room" in str(raised)


@async_test
async def test_a_decision_that_is_written_again_is_in_the_ledger_once() -> None:
    async with world() as at:
        csr = await asked(at)
        cached: Indexer[CertificateSigningRequest] = Indexer()
        # A cache that is behind makes a conflict.
        cached.put(replace_metadata(csr, resource_version="1"))
        ledger, client = MemoryLedger(), at.server.api.loopback(controller_user(csr_approving.NAME), "test")
        approves = CSRApprover(
            client, Lister(cached), [Says(Outcome.APPROVE)], [Admits()], ledger, at.clock, Uncounted()
        )
        with pytest.raises(ReconcileError, match="error updating approval for csr"):
            await approves.reconcile(request_of(csr))
        cached.put(csr)
        await approves.reconcile(request_of(csr))
        assert len(await ledger.find(Query())) == 1
