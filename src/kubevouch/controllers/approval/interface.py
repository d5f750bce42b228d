"""What takes part in deciding about a request for a certificate.

Approvers say what they think of a request, and change nothing. Bounds are asked once, when approvers would have it
approved: they may take something that there is only so much of, and hold whoever approves.

RefusedError         a bound that the request is outside of, for ever
HeldBackError        a bound that the request is outside of now
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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

    async def judge(
        self, csr: CertificateSigningRequest, facts: RequestFacts, request: CertificateRequest
    ) -> Verdict | Sequence[Verdict]:
        """What it says of an undecided request, whose ``facts`` and ``request`` are derived of ``csr``.

        One that speaks for several, such as policies, has a verdict of each. It waits for nobody outside of the
        cluster: what it has to know from there it asks by ``controllers.outside_questions``.

        Raises:
            UnansweredError: somebody outside is asked; with the answer it is asked again.
            ReconcileError, APIStatusError, TransportError: it cannot say now. Nobody's approval counts until it can.
        """
        ...


class Bound(Protocol):
    """What a request has to be within, whoever approves it."""

    async def admit(self, csr: CertificateSigningRequest, request: CertificateRequest) -> None:
        """Take what an approval takes.

        Raises:
            RefusedError: the request is denied.
            HeldBackError: it waits, and says for what.
            IgnorableError, ReconcileError, APIStatusError, TransportError: not now.
        """
        ...


class ApprovalMetrics(Protocol):
    """What is counted."""

    def decided(self, signer: str, approver: str, outcome: str, seconds: float) -> None:
        """A request was approved or denied, ``seconds`` after it came."""
        ...

    def policy_failed(self, policy: str) -> None:
        """A rule of the policy could not be looked at: an expression failed, a record could not be read."""
        ...

    def asked(self, webhook: str, outcome: str, seconds: float) -> None:
        """A service was asked, and said ``outcome`` after ``seconds``; ``none`` for no answer."""
        ...

    def justified(self, source: str) -> None:
        """A name or an address of a serving certificate that was approved, and by what."""
        ...

    def attested(self, provider: str, result: str) -> None:
        """A proof of a machine was looked at: ``verified``, the step at which it was refused, or ``unavailable``."""
        ...

    def cloud_asked(self, host: str, status: str) -> None:
        """A service of a cloud was asked about a machine; ``status`` is ``none`` where it has not answered."""
        ...

    def pending(self, count: Callable[[], Mapping[tuple[str, str], int]]) -> None:
        """Ask this, at each scrape, for the number of undecided requests by signer and reason."""
        ...


class Uncounted:
    """For whoever has no metrics."""

    def decided(self, signer: str, approver: str, outcome: str, seconds: float) -> None:
        """See :class:`ApprovalMetrics`, as with the others."""

    def policy_failed(self, policy: str) -> None:
        pass

    def asked(self, webhook: str, outcome: str, seconds: float) -> None:
        pass

    def justified(self, source: str) -> None:
        pass

    def attested(self, provider: str, result: str) -> None:
        pass

    def cloud_asked(self, host: str, status: str) -> None:
        pass

    def pending(self, count: Callable[[], Mapping[tuple[str, str], int]]) -> None:
        pass


UNCOUNTED = Uncounted()


class RefusedError(Exception):
    """The request is outside of ``bound``, for ever; ``reason`` is that of the condition."""

    def __init__(self, bound: str, reason: str, message: str) -> None:
        super().__init__(message)
        self.bound = bound
        self.reason = reason


class HeldBackError(Exception):
    """The request is outside of ``bound`` until something changes, or a person approves; ``reason`` is one word."""

    def __init__(self, bound: str, reason: str, message: str) -> None:
        super().__init__(message)
        self.bound = bound
        self.reason = reason
