"""The one way to a certificate: requester, approval, request and policy go in, a decision record stays behind."""

from __future__ import annotations

import datetime as dt

import structlog

from kubevouch.pki.errors import PolicyError
from kubevouch.pki.issuance import verify_signable
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.signers.interface import (
    Approval,
    Decision,
    DecisionRecords,
    Requester,
    Signer,
    UndecidedError,
    Wanted,
    seal,
)

log = structlog.get_logger("signers.issuance")


class LogRecords:
    """Leaves decisions in the log."""

    def decided(self, decision: Decision) -> None:
        log.debug("certificate allowed", csr=decision.wanted.name, requester=decision.requester.username)

    def issued(self, decision: Decision, certificate: Certificate) -> None:
        wanted = decision.wanted
        log.info(
            "certificate issued",
            csr=wanted.name,
            uid=wanted.uid,
            signer=wanted.signer_name,
            requester=decision.requester.username,
            approval=decision.approval.reason,
            subject=certificate.subject.common_name,
            serial=f"{certificate.serial:x}",
            not_after=certificate.not_after.isoformat(),
        )

    def refused(self, requester: Requester, wanted: Wanted, why: str) -> None:
        log.info(
            "certificate refused", csr=wanted.name, uid=wanted.uid, signer=wanted.signer_name,
            requester=requester.username, why=why,
        )  # fmt: skip


async def issue(
    signer: Signer,
    requester: Requester,
    approval: Approval | None,
    wanted: Wanted,
    *,
    now: dt.datetime,
    records: DecisionRecords,
) -> Certificate:
    """Have ``signer`` sign what is wanted, if it was approved and the signer's policy allows it.

    Raises:
        PolicyError: the request can never be signed; the text is for the Failed condition.
        UndecidedError: it was not approved.
        SignerError, PKIError: the signer does not sign now.
    """
    decision = _decide(signer, requester, approval, wanted, now, records)
    records.decided(decision)
    certificate = await signer.sign(decision)
    records.issued(decision, certificate)
    return certificate


def _decide(
    signer: Signer,
    requester: Requester,
    approval: Approval | None,
    wanted: Wanted,
    now: dt.datetime,
    records: DecisionRecords,
) -> Decision:
    if approval is None:
        raise UndecidedError(f"certificate signing request {wanted.name} is not approved")
    rules = signer.rules
    try:
        # Before anything is recorded as allowed, and whatever holds the key (docs/adr/0019-rules-twice.md).
        verify_signable(wanted.signer_name, wanted.request, wanted.usages, rules.profile)
    except PolicyError as err:
        records.refused(requester, wanted, str(err))
        raise
    return Decision(requester, approval, wanted, rules, now, seal())
