"""Requests that CertificateRequestPolicies approve, deny or keep waiting: what they look at is gathered here.

What follows is decided in :mod:`kubevouch.policy.certificate_policies`. Of two requests at once, one would not be seen:
right before an approval, what was approved since its policies were asked is held against it, with nothing waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, Protocol

import msgspec

from kubevouch import wellknown
from kubevouch.api.attested import Attested
from kubevouch.api.authorization_v1 import ResourceAttributes
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, NODES
from kubevouch.api.certificates_v1 import CertificateSigningRequest, is_undecided
from kubevouch.api.core_v1 import Node
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_APPROVALS, CERTIFICATE_REQUEST_POLICIES
from kubevouch.api.kubevouch_v1alpha1.certificate_approvals import CertificateApproval
from kubevouch.api.kubevouch_v1alpha1.certificate_request_policies import (
    CertificateRequestPolicy,
    CertificateRequestPolicySpec,
)
from kubevouch.api.kubevouch_v1alpha1.guards import authors_of
from kubevouch.api.kubevouch_v1alpha1.writer_guards import Writer, writer_of
from kubevouch.cel.environment import TURN, Budget, Turn, TurnOver
from kubevouch.client.cache.informer import ChangeHandler, SharedInformer
from kubevouch.client.cache.lister import Lister
from kubevouch.client.interface import Client
from kubevouch.controllers.approval.access_review import is_allowed
from kubevouch.controllers.approval.interface import ApprovalMetrics, RefusedError, Uncounted
from kubevouch.controllers.approval.policy_memory import PolicyMemory, Steps, has_failed
from kubevouch.controllers.approval.policy_records import PolicyRecords
from kubevouch.controllers.approval.policy_writers import PolicyWriters
from kubevouch.controllers.approval.voters import Voters
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.guards import Guards
from kubevouch.controllers.interface import Context, IgnorableError, Request, request_of
from kubevouch.machinery.codec import json_codec
from kubevouch.pki.x509.x509_request import CertificateRequest
from kubevouch.policy import inventory
from kubevouch.policy.certificate_policies import (
    CompiledPolicy,
    Known,
    compile_policy,
    cost_fault,
    decide,
    look,
    needs_of,
    votes_of,
    would_approve,
)
from kubevouch.policy.constraints import names_of, node_of
from kubevouch.policy.expressions import REQUEST_BUDGET, Surroundings, machine_value, proven_value
from kubevouch.policy.facts import RequestFacts, facts_of
from kubevouch.policy.inventory import Inventory
from kubevouch.policy.standing_decisions import StandingDecisions
from kubevouch.policy.verdict import Outcome, Step, StepResult, Verdict
from kubevouch.records.bootstrap_tokens import token_id_of_user
from kubevouch.records.node_recovery import is_recovering
from kubevouch.records.token_bounds import SOURCE_ADDRESS_ANNOTATION
from kubevouch.revocation.revocations import Revocations
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger
from kubevouch.util.worker import elsewhere, give_way_to_loop, working_for

log = get_logger("controllers.certificate_policies")

NAME = "policy"
REQUEST_INDEX = "request-uid"
"""Of CertificateApprovals, by the UID of the request that they are about."""
# Names times patterns that are compared on the loop: a millisecond or two.
_MANY = 2000
NOTHING_PROVEN: Mapping[str, Sequence[Attested]] = {}
# Requests that were judged and not approved yet.
_REMEMBERED = 4096


class Policies:
    """All policies, each compiled once for each of its specs.

    Args:
        changed: is told whenever a policy comes, goes or says something else.
    """

    def __init__(
        self,
        informer: SharedInformer[CertificateRequestPolicy],
        changed: Callable[[], None],
        decisions: StandingDecisions | None = None,
    ) -> None:
        self._informer = informer
        self._told = changed
        self._decisions = decisions or StandingDecisions()
        self._decisions.on_change(self._lost)
        self._decisions.on_load(changed)
        self._stale: dict[str, CertificateRequestPolicy] = {}
        self._compiled: dict[str, CompiledPolicy] = {}
        self._specs: dict[str, tuple[str, CertificateRequestPolicySpec, frozenset[str], Writer | None, str]] = {}
        self._compiling = asyncio.Lock()
        self.handler = ChangeHandler(self._changed)

    def have_loaded(self) -> bool:
        return self._informer.synced and self._decisions.has_loaded

    async def current(self) -> Sequence[CompiledPolicy]:
        """By name."""
        if self._stale:
            async with self._compiling:
                while self._stale:
                    name, policy = next(iter(self._stale.items()))
                    # All who ask wait for it, whoever asks first.
                    with working_for("policies"):
                        compiled = await elsewhere(partial(compile_policy, policy))
                    # It stays stale until it is compiled, so that whoever else asks waits; and may have changed again.
                    if self._stale.get(name) is policy:
                        del self._stale[name]
                        self._compiled[name] = compiled
        return [self._compiled[name] for name in sorted(self._compiled)]

    def _lost(self, plural: str, policy: Any, is_lost: bool) -> None:
        """One that stands although the server has lost it is asked beside whatever has its name there."""
        if plural == CERTIFICATE_REQUEST_POLICIES.plural:
            self._put(f"{policy.metadata.name}\0", policy, gone=not is_lost)

    def _changed(self, policy: CertificateRequestPolicy, gone: bool) -> None:
        self._put(policy.metadata.name, policy, gone=gone)

    def _put(self, name: str, policy: CertificateRequestPolicy, *, gone: bool) -> None:
        said = (policy.metadata.uid, policy.spec, authors_of(policy), writer_of(policy), cost_fault(policy))
        if gone:
            for known in (self._stale, self._compiled, self._specs):
                known.pop(name, None)
        elif self._specs.get(name) == said:
            # The rest of its status, as a rule.
            return
        else:
            self._specs[name] = said
            self._stale[name] = policy
        self._told()


class _Judged(NamedTuple):
    policy: CompiledPolicy
    may_use: bool | None
    rights: Sequence[Step]
    verdict: Verdict


class _Judgement(NamedTuple):
    """What was known, and said by policies that ask for records, when ``begun`` requests had been granted."""

    begun: int
    known: Known
    judged: Sequence[_Judged]
    relies: bool


class PolicySource(Protocol):
    """Where the policies are from."""

    def have_loaded(self) -> bool: ...

    async def current(self) -> Sequence[CompiledPolicy]:
        """By name."""
        ...


class PolicyApprover:
    """See :class:`kubevouch.controllers.approval.interface.Approver`, and ``Bound`` there."""

    name = NAME

    def __init__(
        self,
        client: Client,
        policies: PolicySource,
        records: PolicyRecords,
        nodes: Lister[Node],
        approvals: Lister[CertificateApproval],
        machines: Inventory,
        clock: Clock,
        metrics: ApprovalMetrics | None = None,
        *,
        trusts_annotations: bool,
        revocations: Revocations | None = None,
        proven: Mapping[str, Sequence[Attested]] = NOTHING_PROVEN,
    ) -> None:
        """Args:
        approvals: with :data:`REQUEST_INDEX`.
        revocations: void what those have said whom they are about; None for none.
        trusts_annotations: the API server says from where a request came, and lets nobody else say it.
        proven: by the UID of a request, what its machine has proven, while nobody has decided.
        """
        self._client = client
        self._policies = policies
        self._writers = PolicyWriters(client, clock, is_own_server=trusts_annotations)
        self._records = records
        self._nodes = nodes
        self._approvals = approvals
        self._machines = machines
        self._clock = clock
        self._metrics = metrics or Uncounted()
        self._trusts_annotations = trusts_annotations
        self._proven = proven
        self._voters = Voters(
            client,
            Revocations.none() if revocations is None else revocations,
            Guards(client, clock, is_own_server=trusts_annotations),
        )
        # By the UID of a request, between what is said of it and its approval.
        self._judgements: dict[str, _Judgement] = {}
        self._memory = PolicyMemory()

    def has_loaded(self) -> bool:
        return self._policies.have_loaded()

    async def judge(
        self,
        csr: CertificateSigningRequest,
        facts: RequestFacts,
        request: CertificateRequest,  # noqa: ARG002 - the facts have it all
    ) -> Sequence[Verdict]:
        """One verdict of each policy that selects the request."""
        selected = await _selected(await self._policies.current(), facts)
        if not selected:
            return ()
        begun, needs = self._records.granted_so_far, needs_of(selected)
        records = await self._records.look(facts, needs, self._clock.now())
        approvals = self._approvals.by_index(REQUEST_INDEX, facts.uid)
        void = await self._voters.void(votes_of(selected, facts, approvals))
        around = self._surroundings(csr, facts, selected)
        known = Known(around=around, records=records, approvals=approvals, void=void)
        judged = []
        for policy, steps in zip(selected, await self._steps(selected, facts, known), strict=True):
            may_use = await self._may_use(csr, policy) if would_approve(policy, steps) else None
            rights = await self._rights(policy, facts) if may_use and not policy.is_audit else ()
            judged.append(_Judged(policy, may_use, rights, decide(policy, steps, may_use, rights)))
        if needs:
            self._judgements[facts.uid] = _Judgement(begun, known, [each for each in judged if each.policy.needs],
                                                     _relies(judged))  # fmt: skip
            if len(self._judgements) > _REMEMBERED:
                del self._judgements[next(iter(self._judgements))]
        return [each.verdict for each in judged]

    async def _steps(self, policies: Sequence[CompiledPolicy], facts: RequestFacts, known: Known) -> Sequence[Steps]:
        """Of each policy; as they were, if they took long or failed and nothing has changed."""
        remembered = self._memory.find(facts.uid, policies, known)
        if remembered is not None:
            return remembered
        whole, was_long, found = Budget(REQUEST_BUDGET), False, []
        for policy in policies:
            steps, is_long = await _looked(policy, facts, known, whole)
            was_long = was_long or is_long
            found.append(steps)
            self._count(policy, steps)
        if was_long or has_failed(found):
            self._memory.keep(facts.uid, policies, known, found)
        return found

    async def admit(self, csr: CertificateSigningRequest, request: CertificateRequest) -> None:
        """See ``Bound``. Nothing is waited for."""
        facts = facts_of(csr, request)
        judgement = self._judgements.pop(facts.uid, None)
        if judgement is not None:
            self._look_again(facts, judgement)
        self._records.granted(facts, self._clock.now())

    def _look_again(self, facts: RequestFacts, judgement: _Judgement) -> None:
        """By what was approved meanwhile. Raises RefusedError, IgnorableError."""
        former = judgement.known.records
        needs = needs_of(each.policy for each in judgement.judged)
        records = self._records.with_grants(former, facts, needs, judgement.begun)
        if records is former:
            return
        known, whole = msgspec.structs.replace(judgement.known, records=records), Budget(REQUEST_BUDGET)
        turn = Turn(TURN)
        try:
            steps = [look(each.policy, facts, known, whole, turn) for each in judgement.judged]
        except TurnOver as err:
            raise IgnorableError("another request was approved a moment ago") from err
        verdicts = [
            decide(each.policy, found, each.may_use, each.rights)
            for each, found in zip(judgement.judged, steps, strict=True)
        ]
        for verdict in verdicts:
            if verdict.outcome is Outcome.DENY:
                raise RefusedError(verdict.approver, verdict.reason, verdict.message)
        approves = any(each.outcome is Outcome.APPROVE for each in verdicts)
        for verdict in verdicts:
            if verdict.blocks or (judgement.relies and not approves):
                raise IgnorableError(verdict.missing)

    def _surroundings(
        self, csr: CertificateSigningRequest, facts: RequestFacts, policies: Sequence[CompiledPolicy]
    ) -> Surroundings:
        used = frozenset[str]().union(*(each.names for each in policies))
        now, name = self._clock.now(), node_of(facts)
        node = self._nodes.get(name) if name and "node" in used else None
        if "machine" in used and not self._machines.has_loaded():
            raise IgnorableError("the inventory of machines has not been read, and a policy asks for it")
        expected = inventory.current(self._machines.machines(name), now) if name and "machine" in used else ()
        return Surroundings(
            now=now,
            node={} if node is None else json_codec.to_builtins(node),
            machine=machine_value(expected[0]) if expected else {},
            evidence={
                **evidence_of(csr, trusts_annotations=self._trusts_annotations),
                **proven_value(self._proven.get(facts.uid, ())),
            },
        )

    async def _may_use(self, csr: CertificateSigningRequest, policy: CompiledPolicy) -> bool:
        resource = CERTIFICATE_REQUEST_POLICIES
        asked = ResourceAttributes(
            group=resource.group, version="*", resource=resource.plural, name=policy.name, verb="use"
        )
        return await is_allowed(self._client, csr.spec, asked)

    async def _rights(self, policy: CompiledPolicy, facts: RequestFacts) -> Sequence[Step]:
        writer = await self._writers.look(policy, (facts.signer_name,))
        subject = await self._writers.look_at_subject(policy, facts)
        return (writer,) if subject is None else (writer, subject)

    def _count(self, policy: CompiledPolicy, steps: Sequence[Step]) -> None:
        for step in steps:
            if step.result == StepResult.ERROR:
                self._metrics.policy_failed(policy.name)
                log.debug("a rule of a policy failed", policy=policy.name, rule=step.rule, why=step.got)


def _relies(judged: Sequence[_Judged]) -> bool:
    """Whether all that approve go by what was issued before."""
    approving = [each.policy for each in judged if each.verdict.outcome is Outcome.APPROVE]
    return bool(approving) and all(each.needs for each in approving)


async def _selected(policies: Sequence[CompiledPolicy], facts: RequestFacts) -> list[CompiledPolicy]:
    def select() -> list[CompiledPolicy]:
        return [policy for policy in policies if policy.selects(facts)]

    return await elsewhere(select) if len(facts.groups) * len(policies) > _MANY else select()


async def _looked(policy: CompiledPolicy, facts: RequestFacts, known: Known, whole: Budget) -> tuple[Steps, bool]:
    """The steps, and whether they took long: then they are done beside the loop, from the beginning."""
    if policy.patterns * len(names_of(facts)) <= _MANY:
        with suppress(TurnOver):
            whole.pause = None
            return look(policy, facts, known, whole, Turn(TURN)), False

    def look_beside() -> Steps:
        whole.pause = give_way_to_loop
        return look(policy, facts, known, whole)

    return await elsewhere(look_beside), True


def evidence_of(csr: CertificateSigningRequest, *, trusts_annotations: bool) -> Mapping[str, Any]:
    """What was seen of how the request came; nothing that its requester says."""
    token = token_id_of_user(csr.spec.username)
    source = csr.metadata.annotations.get(SOURCE_ADDRESS_ANNOTATION, "") if trusts_annotations else ""
    found: dict[str, Any] = {"recovered": is_recovering(csr.spec.username)}
    return found | ({"token": token} if token else {}) | ({"sourceAddress": source} if source else {})


def _spoken_of(approval: CertificateApproval) -> Iterable[Request]:
    return (Request(approval.spec.request_name),)


def build(context: Context, controller: QueueController) -> PolicyApprover:
    client = context.connect(wellknown.CSR_APPROVING_CONTROLLER)
    csrs = context.informers.informer(CERTIFICATE_SIGNING_REQUESTS, client=client)
    nodes = context.informers.informer(NODES, client=client)

    def changed() -> None:
        """Every request that nobody has decided may be another policy's business now."""
        for csr in csrs.indexer.values():
            if is_undecided(csr):
                controller.queue.add(request_of(csr))

    informer = context.informers.informer(CERTIFICATE_REQUEST_POLICIES, client=client)
    policies = Policies(informer, changed, context.decisions)
    controller.follow(informer, policies.handler)
    approvals = context.informers.informer(CERTIFICATE_APPROVALS, client=client)
    with suppress(ValueError):  # somebody who shares the cache has added it
        approvals.indexer.add_index(REQUEST_INDEX, lambda each: (each.spec.request_uid,))
    controller.watch(approvals, on_add=_spoken_of, on_update=_spoken_of, on_delete=_spoken_of)
    return PolicyApprover(
        client,
        policies,
        PolicyRecords(context.ledger, csrs.indexer),
        nodes.lister,
        approvals.lister,
        context.inventory,
        context.clock,
        context.approval_metrics,
        trusts_annotations=context.is_own_server,
        revocations=context.revocations,
        proven=NOTHING_PROVEN if context.attestation is None else context.attestation.proven,
    )
