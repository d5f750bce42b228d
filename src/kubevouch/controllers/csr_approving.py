"""certificatesigningrequest-approving-controller: asks every approver, and writes what they decide together.

What Kubernetes' controller of this name approves is in :mod:`kubevouch.controllers.approval.kubelet_client`.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import msgspec

from kubevouch import wellknown
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    has_condition,
)
from kubevouch.client.cache.lister import Lister
from kubevouch.client.interface import Client, TransportError
from kubevouch.client.rate_limiters import CSR_BASE_SECONDS, controller_rate_limiter
from kubevouch.controllers.approval import (
    certificate_policies,
    kubelet_client,
    kubelet_serving,
    late_requests,
    node_attestation,
    revocations,
    webhook,
)
from kubevouch.controllers.approval.approval_news import ApprovalNews
from kubevouch.controllers.approval.certificate_policies import PolicyApprover
from kubevouch.controllers.approval.interface import ApprovalMetrics, Approver, Bound, HeldBackError, RefusedError
from kubevouch.controllers.approval.kubelet_client import MachineBounds
from kubevouch.controllers.approval.node_attestation import NodeAttestationApprover
from kubevouch.controllers.bootstrap_secrets import requests_by_token
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import (
    DONE,
    Context,
    IgnorableError,
    ReconcileError,
    Request,
    Result,
    UnansweredError,
    request_of,
)
from kubevouch.controllers.requester_flow import requester_flows
from kubevouch.ledger.entries import APPROVED, DENIED, Entry, Query, bounded_trace, entry_of_request
from kubevouch.ledger.interface import Ledger, LedgerError, written_for
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import replace_metadata
from kubevouch.machinery.text.gotext import quote
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import x509_request
from kubevouch.pki.x509.x509_request import CertificateRequest
from kubevouch.policy import other_signers
from kubevouch.policy.facts import RequestFacts, facts_of
from kubevouch.policy.verdict import Outcome, Verdict, combine
from kubevouch.util.clock import Clock

NAME = wellknown.CSR_APPROVING_CONTROLLER

# Kubernetes has five; here they share commits of the store, and a waiting worker costs next to nothing.
WORKERS = 32
# Decisions that a cache may not have heard of.
_REMEMBERED = 1024
# Undecided requests of which it is known what they wait for.
_PENDING = 20_000
_UNKNOWN_REASON = "NoApprover"
"""Of requests that no approver knows: a person has to decide."""
_UNANSWERED_REASON = "Asked"
"""Of requests about which somebody outside is asked."""

APPROVERS: Sequence[Callable[[Context, QueueController], Approver | None]] = (
    revocations.build,
    node_attestation.build,
    kubelet_client.build,
    kubelet_serving.build,
    certificate_policies.build,
)
"""In the order in which their words count, services behind them. One that is not configured is None."""

_CONDITIONS = {Outcome.APPROVE: wellknown.CSR_APPROVED, Outcome.DENY: wellknown.CSR_DENIED}
_ENTRIES = {Outcome.APPROVE: APPROVED, Outcome.DENY: DENIED}
_DECISIONS = frozenset(_ENTRIES.values())
# How much later the server's clock may be than the one here.
_CLOCKS = dt.timedelta(minutes=5)


def is_open(csr: CertificateSigningRequest) -> bool:
    """Whether nobody has decided. The status of a decision is not looked at."""
    return not (
        csr.status.certificate or has_condition(csr, wellknown.CSR_APPROVED) or has_condition(csr, wellknown.CSR_DENIED)
    )


class CSRApprover:
    """Asks all approvers, then, before an approval, all bounds."""

    def __init__(
        self,
        client: Client,
        csrs: Lister[CertificateSigningRequest],
        approvers: Sequence[Approver],
        bounds: Sequence[Bound],
        ledger: Ledger,
        clock: Clock,
        metrics: ApprovalMetrics,
    ) -> None:
        self._client = client
        self._csrs = csrs
        self._approvers = approvers
        self._bounds = bounds
        self._ledger = ledger
        self._clock = clock
        self._metrics = metrics
        self.marks = False
        """Whether decisions are marked, as others decide there, too."""
        self._news = ApprovalNews(client, clock)
        self._decided: dict[str, str] = {}
        # By name: the signer, and why nobody has decided.
        self._pending: dict[str, tuple[str, str]] = {}
        metrics.pending(lambda: Counter(self._pending.values()))

    async def reconcile(self, request: Request) -> Result:
        csr = self._csrs.get(request.name)
        # Others than its own changes wake a request, too: sooner than the cache hears of the decision.
        if csr is None or not is_open(csr) or self._decided.get(csr.metadata.uid) == csr.metadata.resource_version:
            self._pending.pop(request.name, None)
            return DONE
        for approver in self._approvers:
            if not approver.has_loaded():
                raise IgnorableError(f"{approver.name} has not loaded what it decides by")
        try:
            wanted = x509_request.parse_pem(csr.spec.request or b"")
        except ParseError as err:
            raise ReconcileError(f"unable to parse csr {quote(request.name)}: {err}") from err
        facts = facts_of(csr, wanted)
        try:
            verdict = await judged(self._approvers, csr, facts, wanted)
        except UnansweredError:
            self._note_pending(csr, _UNANSWERED_REASON)
            raise
        if verdict.outcome is Outcome.APPROVE:
            verdict = await self._within_bounds(csr, wanted, verdict)
        if verdict.outcome is Outcome.NO_OPINION:
            await self._leave(csr, verdict)
            return DONE
        await self._record(csr, wanted, verdict)
        await self._decide(csr, verdict)
        waited = self._clock.now() - facts.created if facts.created is not None else dt.timedelta()
        self._metrics.decided(facts.signer_name, verdict.approver, verdict.outcome.value, waited.total_seconds())
        await self._news.decided(csr, verdict)
        return DONE

    async def _leave(self, csr: CertificateSigningRequest, verdict: Verdict) -> None:
        """Raises :class:`IgnorableError` if it has to come again by itself."""
        self._note_pending(csr, verdict.reason or _UNKNOWN_REASON)
        await self._news.waits(csr, verdict)
        if verdict.retry:
            raise IgnorableError(verdict.missing)

    def _note_pending(self, csr: CertificateSigningRequest, reason: str) -> None:
        name = csr.metadata.name
        if name in self._pending or len(self._pending) < _PENDING:
            self._pending[name] = csr.spec.signer_name, reason

    async def _within_bounds(
        self, csr: CertificateSigningRequest, wanted: CertificateRequest, approved: Verdict
    ) -> Verdict:
        try:
            for bound in self._bounds:
                await bound.admit(csr, wanted)
        except RefusedError as err:
            refused = Verdict(Outcome.DENY, err.bound, err.reason, str(err))
            return combine([refused, approved])
        except HeldBackError as err:
            held = Verdict(Outcome.NO_OPINION, err.bound, err.reason, missing=str(err), retry=True, blocks=True)
            return combine([held, approved])
        return approved

    async def _record(self, csr: CertificateSigningRequest, wanted: CertificateRequest, verdict: Verdict) -> None:
        """Once, before anybody can see the decision: after a conflict the same one is not written down again."""
        spec, meta, created = csr.spec, csr.metadata, csr.metadata.creation_timestamp
        entry = msgspec.structs.replace(
            entry_of_request(
                _ENTRIES[verdict.outcome],
                self._clock.now(),
                wanted,
                name=meta.name,
                uid=meta.uid,
                signer=spec.signer_name,
                requester=spec.username,
                groups=spec.groups,
                extra=spec.extra,
                usages=spec.usages,
                expiration_seconds=spec.expiration_seconds,
                created=None if created is None else created.datetime(),
            ),
            approver=verdict.approver,
            reason=verdict.reason,
            message=verdict.message,
            trace=bounded_trace(verdict.steps),
            evidence=verdict.evidence,
            rules=verdict.rules,
        )
        try:
            query = Query(
                kinds=frozenset(_ENTRIES.values()), uid=meta.uid, nothing_before=written_for(entry.created),
                newest_first=True, limit=1,
            )  # fmt: skip
            former = await self._ledger.find(query)
            if not any(_same(each.entry, entry) for each in former):
                await self._ledger.append(entry)
        except LedgerError as err:
            raise ReconcileError(f"the decision about csr {quote(meta.name)} cannot be written down: {err}") from err

    async def _decide(self, csr: CertificateSigningRequest, verdict: Verdict) -> None:
        # The server fills in the times.
        condition = CertificateSigningRequestCondition(
            type=_CONDITIONS[verdict.outcome],
            status=wellknown.CONDITION_TRUE,
            reason=verdict.reason,
            message=verdict.message,
        )
        status = msgspec.structs.replace(csr.status, conditions=[*csr.status.conditions, condition])
        if self.marks:
            mark = {wellknown.APPROVED_ANNOTATION: other_signers.approved_mark(csr)}
            csr = replace_metadata(csr, annotations={**csr.metadata.annotations, **mark})
        try:
            await self._client.update(
                CERTIFICATE_SIGNING_REQUESTS, msgspec.structs.replace(csr, status=status), subresource="approval"
            )
        except (APIStatusError, TransportError) as err:
            raise ReconcileError(f"error updating approval for csr: {err}") from err
        self._pending.pop(csr.metadata.name, None)
        self._decided[csr.metadata.uid] = csr.metadata.resource_version
        if len(self._decided) > _REMEMBERED:
            del self._decided[next(iter(self._decided))]


def _same(former: Entry, entry: Entry) -> bool:
    return (former.kind, former.digest, former.reason) == (entry.kind, entry.digest, entry.reason)


async def judged(
    approvers: Iterable[Approver], csr: CertificateSigningRequest, facts: RequestFacts, wanted: CertificateRequest
) -> Verdict:
    """What all say together, in the order of ``approvers``.

    None of them waits for somebody outside: with the last answer all look again, as what is true changes meanwhile.

    Raises:
        ReconcileError, APIStatusError, TransportError: what an approver raised, unless another one denies: it might
            have denied, too. UnansweredError before any other: the answer has all of them asked again.
    """
    said: dict[int, Sequence[Verdict]] = {}
    failure: Exception | None = None
    for place, approver in enumerate(approvers):
        try:
            found = await approver.judge(csr, facts, wanted)
        except (ReconcileError, APIStatusError, TransportError) as err:
            failure = err if failure is None or isinstance(err, UnansweredError) else failure
        else:
            said[place] = [found] if isinstance(found, Verdict) else found
    verdict = combine([verdict for _, each in sorted(said.items()) for verdict in each])
    if failure is not None and verdict.outcome is not Outcome.DENY:
        raise failure
    return verdict


def _requests(csr: CertificateSigningRequest) -> Iterable[Request]:
    return (request_of(csr),) if is_open(csr) else ()


def build(context: Context) -> QueueController:
    client = context.connect(NAME)
    informer = requests_by_token(context, client)
    approvers: list[Approver] = []
    bounds: list[Bound] = []
    approving = CSRApprover(
        client, informer.lister, approvers, bounds, context.ledger, context.clock, context.approval_metrics
    )
    approving.marks = context.is_attached
    controller = QueueController(
        NAME,
        approving,
        context.clock,
        workers=WORKERS,
        limiter=controller_rate_limiter(context.clock, CSR_BASE_SECONDS),
        flow=requester_flows(context, informer.lister),
    )
    controller.watch(informer, on_add=_requests, on_update=_requests, on_delete=_requests)
    # The first: nothing is taken by what waits.
    late = late_requests.build(context)
    if late is not None:
        bounds.append(late)
    for make in APPROVERS:
        approver = make(context, controller)
        if approver is not None:
            approvers.append(approver)
        if isinstance(approver, PolicyApprover):
            bounds.append(approver)
    approvers += webhook.build(context, controller)
    of_machines = kubelet_client.build_bounds(context, client, controller)
    bounds.append(of_machines)
    # The last: nobody has a claim whose request is refused for something else.
    for each in approvers:
        if isinstance(each, NodeAttestationApprover):
            each.names = of_machines.names if isinstance(of_machines, MachineBounds) else None
            bounds.append(each)
    return controller
