"""The server's side of insecure: it believes whoever comes first, once, and says so each time."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from kubevouch.attestation import settings
from kubevouch.attestation.answering import Answering, require
from kubevouch.attestation.insecure.evidence import NAME, PROVES, VERSIONS, WARNING, Proof
from kubevouch.attestation.interface import (
    Attested,
    Binding,
    Challenge,
    Claim,
    Evidence,
    RefusedEvidenceError,
    Sources,
    Strength,
)
from kubevouch.util.logger import get_logger

log = get_logger("attestation.insecure")


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """There are none."""


def make_verifier(settings_: Mapping[str, Any], sources: Sources) -> InsecureVerifier:
    """Raises :class:`SettingsError`."""
    settings.read(settings_, Settings, NAME)
    return InsecureVerifier()


class InsecureVerifier(Answering):
    """A :class:`~kubevouch.attestation.interface.Verifier`."""

    name = NAME
    versions: Sequence[str] = VERSIONS
    needs_challenge = True

    async def verify_client(
        self, evidence: Evidence, binding: Binding, challenge: Challenge | None, now: dt.datetime
    ) -> Attested:
        proof = self.shown(evidence, Proof, "the proof of insecure")
        if proof.proves != PROVES:
            raise RefusedEvidenceError("structure", f"got {proof.proves[:64]!r}, expected {PROVES!r}")
        require(challenge)
        log.warning(WARNING)
        return Attested(
            provider=NAME,
            version=evidence.version,
            # Another one for each request: no second request is ever the same machine, so that nothing is renewed.
            identity=f"request:{binding.digest.hex()}",
            strength=Strength.INSECURE,
            claims=(Claim(name=f"{NAME}.proves", value=PROVES, source=NAME, strength=Strength.INSECURE),),
            evidence_digest=hashlib.sha256(evidence.data).hexdigest(),
        )

    async def verify_serving(self, attested: Attested, names: Iterable[str], now: dt.datetime) -> Mapping[str, str]:
        """None, ever."""
        return {}

    def machine_name(self, attested: Attested) -> str:
        return ""
