"""What the node's side tells while it works, and what it raises.

AgentError                    ``hint`` says what to do
├── SettingsError             what it was told cannot be meant; nothing was asked or changed
├── NoClusterError            no cluster-info that could be checked until the time was over
├── NotTrustedError           something answered that is not proven to be the right cluster
├── CertificateStoreError     a file of ``/var/lib/kubelet/pki`` is not what it has to be
│   └── CertificateStoreInUseError   another program of ours is at work there
├── RequestDeniedError        the request was denied or has failed, or the server refuses it
│   ├── CredentialRefusedError    the API server does not know the credential, or knows it no more
│   └── AttestationRefusedError   what this machine shows does not count; ``reason`` is why
│       ├── MachineBannedError        an operator has banned it: nothing that it shows counts until that is lifted
│       └── EvidenceVersionError      the cluster reads no version of the evidence that this machine may show
├── AttestationUnavailableError   what this machine has to ask for its proof cannot be asked now
├── NotIssuedError            no certificate until the time was over, or the request went away
└── WrongCertificateError     what was issued is not what was asked for; it was not put on disk
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol


class AgentError(Exception):
    """The root of this package's errors."""

    def __init__(self, message: str, hint: str = "", *, spent: bool = False) -> None:
        """``spent``: the request can never give a certificate; only one for another key can."""
        super().__init__(message)
        self.hint = hint
        self.spent = spent


class SettingsError(AgentError):
    """What it was told cannot be meant."""


class NoClusterError(AgentError):
    """No cluster-info that could be checked until the time was over."""


class NotTrustedError(AgentError):
    """Something answered that is not proven to be the right cluster."""


class CertificateStoreError(AgentError):
    """A file of the certificate folder is not what it has to be."""


class CertificateStoreInUseError(CertificateStoreError):
    """Another program of ours is at work there."""


class RequestDeniedError(AgentError):
    """The request was denied or has failed, or the server refuses it; ``reason`` is that of the condition."""

    def __init__(self, message: str, hint: str = "", *, spent: bool = False, reason: str = "") -> None:
        super().__init__(message, hint, spent=spent)
        self.reason = reason


class CredentialRefusedError(RequestDeniedError):
    """The API server does not know the credential, or knows it no more: the machine was forgotten, or locked out."""


class AttestationRefusedError(RequestDeniedError):
    """What this machine shows does not count.

    Another key would not help, and could take from the machine what was recorded of it with this one.
    """


class MachineBannedError(AttestationRefusedError):
    """An operator has banned the machine."""


class EvidenceVersionError(AttestationRefusedError):
    """The cluster reads no version of the evidence that this machine may show."""


class AttestationUnavailableError(AgentError):
    """What this machine has to ask for its proof cannot be asked now: a TPM is busy, a metadata service is down."""

    def __init__(self, message: str, hint: str = "", *, retry_after: float = 0.0) -> None:
        """``retry_after``: seconds until it is worth to try again."""
        super().__init__(message, hint)
        self.retry_after = retry_after


class NotIssuedError(AgentError):
    """There is no certificate, and waiting longer would be of no use or was not wanted."""


class WrongCertificateError(AgentError):
    """What was issued is not what was asked for."""


class Step(StrEnum):
    """The steps of a join, in their order; the words are those that a person sees when one is done."""

    FETCHED = "cluster-info fetched"
    SIGNATURE_CHECKED = "signature checked with the token"
    CA_PINNED = "CA matches the pin"
    FETCHED_AGAIN = "fetched again over trusted TLS, and equal"
    SERVER_ASKED = "API server asked for its version"
    KEY_MADE = "key made"
    PROVEN = "proof made"
    REQUESTED = "request created"
    APPROVED = "approved"
    ISSUED = "certificate issued"
    WRITTEN = "files written"


class Observer(Protocol):
    """Who is told how it goes."""

    def done(self, step: Step, detail: str = "") -> None:
        """A step is done."""
        ...

    def waiting(self, why: str) -> None:
        """Something has to be waited for; told again only when the reason changes."""
        ...

    def warning(self, text: str) -> None:
        """Goes on, but somebody should know."""
        ...
