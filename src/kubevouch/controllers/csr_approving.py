"""certificatesigningrequest-approving-controller: asks every approver, and writes what they decide together.

What Kubernetes' controller of this name approves is in :mod:`kubevouch.controllers.approval.kubelet_client`.
"""

from __future__ import annotations

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
from kubevouch.controllers.approval import kubelet_client, kubelet_serving, revocations, webhook
from kubevouch.controllers.approval.interface import Approver, Bound, RefusedError
from kubevouch.controllers.bootstrap_secrets import requests_by_token
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import DONE, Context, IgnorableError, ReconcileError, Request, Result, request_of
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.text.gotext import quote
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import x509_request
from kubevouch.pki.x509.x509_request import CertificateRequest
from kubevouch.policy.facts import RequestFacts, facts_of
from kubevouch.policy.verdict import Outcome, Verdict, combine

NAME = wellknown.CSR_APPROVING_CONTROLLER

# Kubernetes has five; here they share commits of the store, and a waiting worker costs next to nothing.
WORKERS = 32
# Decisions that a cache may not have heard of.
_REMEMBERED = 1024

APPROVERS: Sequence[Callable[[Context, QueueController], Approver | None]] = (
    revocations.build,
    kubelet_client.build,
    kubelet_serving.build,
)
"""In the order in which they are asked. One that is not configured is None."""

_CONDITIONS = {Outcome.APPROVE: wellknown.CSR_APPROVED, Outcome.DENY: wellknown.CSR_DENIED}


def is_open(csr: CertificateSigningRequest) -> bool:
    """Whether nobody has decided. The status of a decision is not looked at."""
    return not (
        csr.status.certificate or has_condition(csr, wellknown.CSR_APPROVED) or has_condition(csr, wellknown.CSR_DENIED)
    )


class CSRApprover:
    """Asks all approvers in their order, then, before an approval, all bounds."""

    def __init__(
        self,
        client: Client,
        csrs: Lister[CertificateSigningRequest],
        approvers: Sequence[Approver],
        bounds: Sequence[Bound],
    ) -> None:
        self._client = client
        self._csrs = csrs
        self._approvers = approvers
        self._bounds = bounds
        self._decided: dict[str, str] = {}

    async def reconcile(self, request: Request) -> Result:
        csr = self._csrs.get(request.name)
        # Others than its own changes wake a request, too: sooner than the cache hears of the decision.
        if csr is None or not is_open(csr) or self._decided.get(csr.metadata.uid) == csr.metadata.resource_version:
            return DONE
        for approver in self._approvers:
            if not approver.has_loaded():
                raise IgnorableError(f"{approver.name} has not loaded what it decides by")
        try:
            wanted = x509_request.parse_pem(csr.spec.request or b"")
        except ParseError as err:
            raise ReconcileError(f"unable to parse csr {quote(request.name)}: {err}") from err
        verdict = await self._judge(csr, facts_of(csr, wanted), wanted)
        if verdict.outcome is Outcome.APPROVE:
            verdict = await self._within_bounds(csr, wanted, verdict)
        if verdict.outcome is not Outcome.NO_OPINION:
            await self._decide(csr, verdict)
        elif verdict.retry:
            raise IgnorableError(verdict.missing)
        return DONE

    async def _judge(self, csr: CertificateSigningRequest, facts: RequestFacts, wanted: CertificateRequest) -> Verdict:
        """Raises what an approver raises, unless another one denies: it might have denied, too."""
        verdicts: list[Verdict] = []
        failure: Exception | None = None
        for approver in self._approvers:
            try:
                verdicts.append(await approver.judge(csr, facts, wanted))
            except (ReconcileError, APIStatusError, TransportError) as err:
                failure = failure or err
        verdict = combine(verdicts)
        if failure is not None and verdict.outcome is not Outcome.DENY:
            raise failure
        return verdict

    async def _within_bounds(
        self, csr: CertificateSigningRequest, wanted: CertificateRequest, approved: Verdict
    ) -> Verdict:
        try:
            for bound in self._bounds:
                await bound.admit(csr, wanted)
        except RefusedError as err:
            refused = Verdict(Outcome.DENY, err.bound, err.reason, str(err))
            return combine([refused, approved])
        return approved

    async def _decide(self, csr: CertificateSigningRequest, verdict: Verdict) -> None:
        # The server fills in the times.
        condition = CertificateSigningRequestCondition(
            type=_CONDITIONS[verdict.outcome],
            status=wellknown.CONDITION_TRUE,
            reason=verdict.reason,
            message=verdict.message,
        )
        status = msgspec.structs.replace(csr.status, conditions=[*csr.status.conditions, condition])
        try:
            await self._client.update(
                CERTIFICATE_SIGNING_REQUESTS, msgspec.structs.replace(csr, status=status), subresource="approval"
            )
        except (APIStatusError, TransportError) as err:
            raise ReconcileError(f"error updating approval for csr: {err}") from err
        self._decided[csr.metadata.uid] = csr.metadata.resource_version
        if len(self._decided) > _REMEMBERED:
            del self._decided[next(iter(self._decided))]


def _requests(csr: CertificateSigningRequest) -> Iterable[Request]:
    return (request_of(csr),) if is_open(csr) else ()


def build(context: Context) -> QueueController:
    client = context.connect(NAME)
    informer = requests_by_token(context, client)
    approvers: list[Approver] = []
    bounds: list[Bound] = []
    controller = QueueController(
        NAME,
        CSRApprover(client, informer.lister, approvers, bounds),
        context.clock,
        workers=WORKERS,
        limiter=controller_rate_limiter(context.clock, CSR_BASE_SECONDS),
    )
    controller.watch(informer, on_add=_requests, on_update=_requests)
    for make in APPROVERS:
        approver = make(context, controller)
        if approver is not None:
            approvers.append(approver)
    approvers += webhook.build(context, controller)
    bounds.append(kubelet_client.build_bounds(context, client, controller))
    return controller
