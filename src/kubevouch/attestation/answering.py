"""What verifiers have in common that ask a machine for nothing but the nonce."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TypeVar

from kubevouch.attestation import documents
from kubevouch.attestation.interface import (
    Attested,
    Challenge,
    Evidence,
    Random,
    RefusedEvidenceError,
    UnsupportedVersionError,
)

T = TypeVar("T")


class Answering:
    """Part of a :class:`~kubevouch.attestation.interface.Verifier`."""

    versions: Sequence[str]

    def destination(self, evidence: Evidence) -> str:  # noqa: ARG002 - the protocol
        """Nobody: the evidence has it all."""
        return ""

    def challenge(self, opening: bytes, now: dt.datetime, random: Random) -> Challenge:  # noqa: ARG002 - the protocol
        """Nothing but the nonce."""
        return Challenge()

    def machine_name(self, attested: Attested) -> str:
        return attested.node_name

    def shown(self, evidence: Evidence, into: type[T], what: str) -> T:
        """What the machine shows, in a version that is read. Raises UnsupportedVersionError, RefusedEvidenceError."""
        if evidence.version not in self.versions:
            raise UnsupportedVersionError(evidence.provider, evidence.version, self.versions)
        return documents.decode(evidence.data, into, what)


def require(challenge: Challenge | None) -> None:
    """Raises RefusedEvidenceError where there is none."""
    if challenge is None:
        raise RefusedEvidenceError("nonce", "got no challenge, expected the answer to one")
