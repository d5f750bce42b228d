"""The contract of signers, and what one is told.

OverlongError          a PolicyError: another program's certificate that lasts longer than what was granted
SignerError            a signer that cannot be set up or will not sign
├── UndecidedError     no decision, or no approval, stands behind the request
├── SignerUnavailable  what holds the key cannot be reached now: the request waits
└── SigningStopped     the signer once made a certificate that was not allowed: it signs no more
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from kubevouch.machinery.text.times import Time
from kubevouch.pki.errors import PolicyError
from kubevouch.pki.issuance import SigningRules
from kubevouch.pki.policy import attestation_provider
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.pki.x509.x509_request import CertificateRequest

KEY_IN_FILE = "file"
"""The kind of a signer whose key is here: nobody is asked, and nothing is waited for."""
UNAVAILABLE_RETRY_SECONDS = 5.0
"""How soon a signer that is away is asked again: its return is noticed within this time."""


class SignerError(Exception):
    """A signer that cannot be set up or will not sign. ``hint`` says what to do, where the text does not."""

    hint = ""


class UndecidedError(SignerError):
    """No decision, or no approval, stands behind the request."""


class SignerUnavailable(SignerError):
    """What holds the key cannot be reached, or has not decided yet. The request waits, and others go on.

    ``retry_after``: seconds until it is worth to ask again.
    """

    def __init__(self, message: str, retry_after: float = UNAVAILABLE_RETRY_SECONDS) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class SigningStopped(SignerError):
    """The signer once made a certificate that was not allowed. A human has to look."""


class OverlongError(PolicyError):
    """Another program has issued ``certificate``, which lasts longer than what was granted. Nobody gets it."""

    def __init__(self, message: str, certificate: Certificate) -> None:
        super().__init__(message)
        self.certificate = certificate


class Requester(msgspec.Struct, frozen=True):
    """Who asked, as the API server stamped it."""

    username: str
    uid: str = ""
    groups: Sequence[str] = ()
    extra: Mapping[str, Sequence[str]] = msgspec.field(default_factory=dict)


class Approval(msgspec.Struct, frozen=True):
    """The evidence that the request may be signed: the condition that approved it."""

    reason: str
    message: str
    at: Time | None = None


class Wanted(msgspec.Struct, frozen=True):
    """What is asked for: ``name``, ``uid`` and the time ``created`` are those of the CertificateSigningRequest."""

    name: str
    uid: str
    signer_name: str
    request: CertificateRequest
    usages: Sequence[str]
    expiration_seconds: int | None = None
    created: dt.datetime | None = None

    @property
    def is_granted(self) -> bool:
        """Whether ``expiration_seconds`` is what evidence is worth, and no wish of the requester."""
        return bool(attestation_provider(self.signer_name))


_SEAL = object()


@dataclass(frozen=True, slots=True)
class Decision:
    """That a certificate may be issued, to whom, why and by which rules. Only ``signers.issuance`` makes one."""

    requester: Requester
    approval: Approval
    wanted: Wanted
    rules: SigningRules
    at: dt.datetime
    seal: object = field(repr=False)

    def __post_init__(self) -> None:
        if self.seal is not _SEAL:
            raise UndecidedError("a decision is made by signers.issuance and by nothing else")


def seal() -> object:
    """For ``signers.issuance``: what makes a :class:`Decision` one."""
    return _SEAL


class Signer(Protocol):
    """Holds, or reaches, the key of a CA."""

    @property
    def kind(self) -> str:
        """What has the key, for metrics: ``file``, ``pkcs11``, ``process``, ``webhook``, ``acme`` …"""
        ...

    @property
    def rules(self) -> SigningRules:
        """Lifetime and profile."""
        ...

    @property
    def ends(self) -> dt.datetime | None:
        """When the CA ends that signs now; None where that is not known here."""
        ...

    async def sign(self, decision: Decision) -> Certificate:
        """The certificate that ``decision`` allows, at the time at which it was made.

        Raises:
            SignerError: it will not sign.
            PKIError: it cannot; see ``pki.issuance.issue``.
        """
        ...

    def chain_of(self, certificate: Certificate) -> Sequence[Certificate]:
        """What goes behind ``certificate``, which it has issued, in ``status.certificate``: intermediates, the next one
        first. Empty where whoever uses the certificate needs none."""
        ...
