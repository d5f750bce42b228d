"""Denies what is asked for by somebody, with a certificate, or for a key that is revoked."""

from __future__ import annotations

from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import Context
from kubevouch.pki.x509.x509_request import CertificateRequest
from kubevouch.policy import revoked_requests
from kubevouch.policy.facts import RequestFacts
from kubevouch.policy.verdict import Outcome, Verdict
from kubevouch.revocation.revocations import Revocations

NAME = "revocations"


class RevocationApprover:
    """Never approves. Args: ``revocations`` are known before any controller runs."""

    name = NAME

    def __init__(self, revocations: Revocations) -> None:
        self._revocations = revocations

    def has_loaded(self) -> bool:
        return self._revocations.has_loaded

    async def judge(self, csr: CertificateSigningRequest, facts: RequestFacts, request: CertificateRequest) -> Verdict:  # noqa: ARG002
        """See :class:`kubevouch.controllers.approval.interface.Approver`."""
        why = revoked_requests.refusal(facts, self._revocations)
        if why:
            return Verdict(Outcome.DENY, NAME, revoked_requests.REASON, why)
        return Verdict(Outcome.NO_OPINION, NAME)


def build(context: Context, _: QueueController) -> RevocationApprover:
    return RevocationApprover(context.revocations)
