"""What a method of attestation is: what proves, what verifies, and what is known afterwards.

The node's side of a method (``attestor.py``) and the server's side (``verifier.py``) share ``evidence.py`` and never
import each other, so that a server installs without a TPM's libraries and a node without a cloud's.

AttestationError          ``str()`` says what was got and what was expected
├── RefusedEvidenceError  what was shown can never become right: ``step`` names the check that failed
├── UnsupportedVersionError   the evidence is of a version that is not read here; ``supported`` are those that are
├── UnavailableError      who has to be asked cannot be, or not yet: later may be another answer
└── SettingsError         a method was given settings that it cannot work with; ``hint`` says what to do
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec

from kubevouch.api.attested import Attested as Attested
from kubevouch.api.attested import Claim as Claim
from kubevouch.api.attested import Strength as Strength
from kubevouch.api.attested import at_least as at_least
from kubevouch.client.interface import Client
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.util.clock import Clock


class AttestationError(Exception):
    """The root of this package's errors."""


class RefusedEvidenceError(AttestationError):
    """What was shown can never become right.

    Args:
        step: the check that failed, in one word as the cases of evidence have it: ``signature``, ``extra-data`` …
    """

    def __init__(self, step: str, message: str) -> None:
        super().__init__(f"{step}: {message}")
        self.step = step


class UnsupportedVersionError(AttestationError):
    """The evidence is of a version that is not read here."""

    def __init__(self, provider: str, got: str, supported: Sequence[str]) -> None:
        super().__init__(f"got evidence {provider}/{got[:64]}, expected {', '.join(supported)}")
        self.supported = tuple(supported)


class UnavailableError(AttestationError):
    """Who has to be asked cannot be, or not yet. ``retry_after``: seconds until it is worth to try again."""

    def __init__(self, message: str, retry_after: float = 5.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class SettingsError(AttestationError):
    """Settings that a method cannot work with."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Binding(msgspec.Struct, frozen=True):
    """What a proof has to be made for: this key, in this cluster, now. A proof for another one is a replay.

    Args:
        spki: the SubjectPublicKeyInfo of the request, DER, as ``CertificateRequest.public_key.canonical_info`` has it.
        cluster_id: the UID of the Namespace kube-system.
        nonce: of the challenge, 32 bytes; empty where the method needs none.
    """

    spki: bytes
    cluster_id: str
    nonce: bytes = b""

    @property
    def digest(self) -> bytes:
        """SHA-256(nonce ‖ SPKI): what goes into qualifying data, audiences and signed headers."""
        return hashlib.sha256(self.nonce + self.spki).digest()


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One proof, as a request carries it.

    Args:
        data: of the method's own form, in JSON; read with ``documents.decode``.
        challenge: the name of the AttestationChallenge that it answers; empty for none.
    """

    provider: str
    version: str
    data: bytes
    challenge: str = ""


class Challenge(msgspec.Struct, frozen=True, kw_only=True):
    """What a verifier asks beside the nonce. All of it may be read by anybody.

    Args:
        content: for the attestor, in the method's own form.
        secret_digest: hexadecimal SHA-256 of a secret that only the right machine can read out of ``content``.
        state: what the verifier has to know again when the answer comes.
    """

    content: bytes = b""
    secret_digest: str = ""
    state: bytes = b""


Random = Callable[[int], bytes]
"""So many random octets: ``secrets.token_bytes``."""


class Verifier(Protocol):
    """The server's side of a method."""

    @property
    def name(self) -> str:
        """That of the method."""
        ...

    @property
    def versions(self) -> Sequence[str]:
        """Of evidence that is read, newest first."""
        ...

    @property
    def needs_challenge(self) -> bool:
        """Whether a proof counts only as the answer to a challenge."""
        ...

    def destination(self, evidence: Evidence) -> str:
        """Whom :meth:`verify_client` asks, in words that tell those apart that answer apart; empty if nobody.

        It reads what a machine has written, and refuses nothing.
        """
        ...

    def challenge(self, opening: bytes, now: dt.datetime, random: Random) -> Challenge:
        """What to ask a machine that has said ``opening``, in the method's own form; the nonce is made by the caller.

        Raises:
            RefusedEvidenceError: whatever it answers, it is refused.
        """
        ...

    async def verify_client(
        self, evidence: Evidence, binding: Binding, challenge: Challenge | None, now: dt.datetime
    ) -> Attested:
        """What ``evidence`` proves, if it is made for ``binding``.

        The caller has seen to it that ``challenge`` is for this key, had not ended when the request came and was not
        answered before.

        Args:
            now: when the request came: who has to wait for room or for a cloud is held to that, and not to the wait.

        Raises:
            RefusedEvidenceError, UnsupportedVersionError, UnavailableError
        """
        ...

    async def verify_serving(self, attested: Attested, names: Iterable[str], now: dt.datetime) -> Mapping[str, str]:
        """Those of ``names``, DNS names and IP addresses, that belong to the machine, each with who says so.

        Args:
            attested: what the machine's client certificate was given for.

        Raises:
            UnavailableError
        """
        ...

    def machine_name(self, attested: Attested) -> str:
        """The name of the Node that the evidence itself gives, or nothing: then inventory and policy do."""
        ...


class Sources(Protocol):
    """What a verifier may reach beside its settings."""

    @property
    def clock(self) -> Clock: ...

    @property
    def client(self) -> Client | None:
        """The cluster, for methods whose secrets are objects; None where there is none."""
        ...


@runtime_checkable
class CountingSources(Sources, Protocol):
    """Sources of somebody who counts what is asked of clouds."""

    def asked(self, host: str, status: str) -> None:
        """A service of a cloud was asked; ``status`` is ``none`` where it has not answered."""
        ...


class MakeVerifier(Protocol):
    """What the entry points of ``kubevouch.verifiers`` are."""

    def __call__(self, settings: Mapping[str, Any], sources: Sources) -> Verifier:
        """Raises :class:`SettingsError`."""
        ...


class Asked(msgspec.Struct, frozen=True):
    """What the node's side was asked: the challenge as the node sees it."""

    name: str
    nonce: bytes
    content: bytes = b""


class Attestor(Protocol):
    """The node's side of a method."""

    @property
    def name(self) -> str:
        """That of the method."""
        ...

    @property
    def versions(self) -> Sequence[str]:
        """Of evidence that can be made, newest first."""
        ...

    @property
    def needs_challenge(self) -> bool: ...

    async def opening(self, version: str) -> bytes:
        """What to say so that a challenge can be made, in the method's own form; empty if it needs nothing.

        Raises:
            AttestationError
        """
        ...

    async def make_key(self) -> PrivateKey | None:
        """A new key where the method makes it itself, as in a TPM; None leaves that to the caller."""
        ...

    async def attest(self, version: str, key: PrivateKey, binding: Binding, asked: Asked | None) -> bytes:
        """The proof in the method's own form, as JSON. ``binding`` is made of ``key``.

        It is fetched or made anew each time: evidence ages.

        Raises:
            AttestationError
        """
        ...

    async def provider_id(self) -> str:
        """What goes into the request's provider id extension; empty if the method knows none."""
        ...

    async def close(self) -> None:
        """Let go of what it holds."""
        ...


class MakeAttestor(Protocol):
    """What the entry points of ``kubevouch.attestors`` are."""

    def __call__(self, settings: Mapping[str, str], clock: Clock) -> Awaitable[Attestor]:
        """Raises :class:`SettingsError`."""
        ...
