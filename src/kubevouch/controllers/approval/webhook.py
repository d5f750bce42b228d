"""Services outside of the cluster that are asked about requests, each with its own name among the approvers.

Nothing but a whole and fitting answer approves. No worker waits for a service, and one that is away is left alone for a
while.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.client.webhook import WebhookError
from kubevouch.config.approver_webhooks import DENY, WAIT
from kubevouch.controllers.approval.interface import UNCOUNTED, ApprovalMetrics
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import ApproverService, Context, IgnorableError, Request, request_of
from kubevouch.controllers.outside_questions import RequestQuestions, request_questions
from kubevouch.pki.x509.x509_request import CertificateRequest
from kubevouch.policy import approval_review
from kubevouch.policy.approval_review import ReviewError
from kubevouch.policy.facts import RequestFacts
from kubevouch.policy.verdict import Outcome, Step, StepResult, Verdict
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger
from kubevouch.util.uuids import random_uuid

log = get_logger("controllers.approver_webhook")

FAILED_REASON = "WebhookFailed"
FIRST_REST, LONGEST_REST = 1.0, 30.0
"""Seconds for which a service that gave no answer is not asked again; the second doubles."""
_REMEMBERED = 4096


class WebhookApprover:
    """See :class:`kubevouch.controllers.approval.interface.Approver`."""

    def __init__(
        self,
        service: ApproverService,
        clock: Clock,
        questions: RequestQuestions,
        wake: Callable[[Request], None],
        metrics: ApprovalMetrics = UNCOUNTED,
    ) -> None:
        self._settings = service.settings
        self._webhook = service.webhook
        self._clock = clock
        self._questions = questions
        self._wake = wake
        self._metrics = metrics
        # Until when it rests, and for how long it will the next time.
        self._resting, self._rest = 0.0, FIRST_REST
        self._why = ""
        self._waiting: dict[Request, None] = {}

    @property
    def name(self) -> str:
        return f"webhook/{self._settings.name}"

    def has_loaded(self) -> bool:
        return True

    async def judge(self, csr: CertificateSigningRequest, facts: RequestFacts, request: CertificateRequest) -> Verdict:  # noqa: ARG002 - the facts have it all
        """See the protocol."""
        if facts.signer_name not in self._settings.signer_names:
            return Verdict(Outcome.NO_OPINION, self.name)
        if self._clock.monotonic() < self._resting:
            return self._without_answer(csr, self._why)
        try:
            return self._questions.answer(csr, self.name, self.name, lambda: self._ask(csr, facts))
        except (WebhookError, ReviewError) as err:
            return self._without_answer(csr, str(err))

    async def _ask(self, csr: CertificateSigningRequest, facts: RequestFacts) -> Verdict:
        """Raises WebhookError, ReviewError."""
        if self._clock.monotonic() < self._resting:
            # It had to wait for room, and meanwhile another question got no answer.
            raise WebhookError(self._why)
        uid = random_uuid()
        begun, outcome = self._clock.monotonic(), "none"
        try:
            answer = await self._webhook.ask_bytes(approval_review.question(uid, facts, csr), attempts=1)
            verdict = approval_review.verdict(self.name, uid, answer)
            outcome = verdict.outcome
        except (WebhookError, ReviewError) as err:
            self._fail(str(err))
            raise
        finally:
            self._metrics.asked(self._settings.name, outcome, self._clock.monotonic() - begun)
        self._answered()
        return verdict

    def _fail(self, why: str) -> None:
        self._why = why
        self._resting = self._clock.monotonic() + self._rest
        self._rest = min(self._rest * 2, LONGEST_REST)
        log.warning("no answer of an approver", approver=self.name, policy=self._settings.failure_policy, err=why)

    def _answered(self) -> None:
        self._resting, self._rest = 0.0, FIRST_REST
        waiting, self._waiting = self._waiting, {}
        for each in waiting:
            self._wake(each)

    def _without_answer(self, csr: CertificateSigningRequest, why: str) -> Verdict:
        """By the failure policy. Raises IgnorableError where the request waits."""
        step = Step("answer", StepResult.ERROR, why)
        if self._settings.failure_policy == DENY:
            message = f"{self.name} gave no answer: {why}"
            return Verdict(Outcome.DENY, self.name, FAILED_REASON, message, steps=(step,))
        if len(self._waiting) < _REMEMBERED:
            self._waiting[request_of(csr)] = None
        if self._settings.failure_policy == WAIT:
            raise IgnorableError(f"{self.name} gave no answer: {why}")
        missing = f"an answer of the service: {why}"
        return Verdict(Outcome.NO_OPINION, self.name, FAILED_REASON, missing=missing, steps=(step,), retry=True)


def build(context: Context, controller: QueueController) -> Sequence[WebhookApprover]:
    """One for each service, in their order."""
    questions = request_questions(controller.questions, context)
    made = (context.clock, questions, controller.queue.add, context.approval_metrics)
    return [WebhookApprover(each, *made) for each in context.approver_services]
