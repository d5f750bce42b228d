"""What takes part in deciding about a request for a certificate.

Approvers say what they think of a request, and change nothing. Bounds are asked once, when approvers would have it
approved: they may take something that there is only so much of, and hold whoever approves.

RefusedError         a bound that the request is outside of, for ever
"""

from __future__ import annotations

from typing import Protocol

from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.pki.x509.x509_request import CertificateRequest
from kubevouch.policy.facts import RequestFacts
from kubevouch.policy.verdict import Verdict


class Approver(Protocol):
    """What may approve or deny a request."""

    @property
    def name(self) -> str:
        """As :attr:`kubevouch.policy.verdict.Verdict.approver` has it."""
        ...

    def has_loaded(self) -> bool:
        """Whether it knows all that it decides by: nothing is decided before every approver does."""
        ...

    async def judge(self, csr: CertificateSigningRequest, facts: RequestFacts, request: CertificateRequest) -> Verdict:
        """What it says of an undecided request, whose ``facts`` and ``request`` are derived of ``csr``.

        Raises:
            ReconcileError, APIStatusError, TransportError: it cannot say now. Nobody's approval counts until it can.
        """
        ...


class Bound(Protocol):
    """What a request has to be within, whoever approves it."""

    async def admit(self, csr: CertificateSigningRequest, request: CertificateRequest) -> None:
        """Take what an approval takes.

        Raises:
            RefusedError: the request is denied.
            IgnorableError, ReconcileError, APIStatusError, TransportError: not now.
        """
        ...


class RefusedError(Exception):
    """The request is outside of ``bound``, for ever; ``reason`` is that of the condition."""

    def __init__(self, bound: str, reason: str, message: str) -> None:
        super().__init__(message)
        self.bound = bound
        self.reason = reason
