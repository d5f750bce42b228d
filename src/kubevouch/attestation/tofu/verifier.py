"""The server's side of tofu: whether the machine has the key that it shows. Who has a name, the first use decides."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from kubevouch.attestation import settings
from kubevouch.attestation.answering import Answering, require
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
from kubevouch.attestation.tofu.evidence import NAME, VERSIONS, Proof, signed_message
from kubevouch.pki import keys
from kubevouch.pki.errors import ParseError, SignatureError
from kubevouch.pki.x509 import signature
from kubevouch.pki.x509.public_key import PublicKey

_KEY = "ECDSA-P256"


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """There are none."""


def make_verifier(settings_: Mapping[str, Any], sources: Sources) -> TofuVerifier:
    """Raises :class:`SettingsError`."""
    settings.read(settings_, Settings, NAME)
    return TofuVerifier()


class TofuVerifier(Answering):
    """A :class:`~kubevouch.attestation.interface.Verifier`."""

    name = NAME
    versions: Sequence[str] = VERSIONS
    needs_challenge = True

    async def verify_client(
        self, evidence: Evidence, binding: Binding, challenge: Challenge | None, now: dt.datetime
    ) -> Attested:
        proof = self.shown(evidence, Proof, "the proof of tofu")
        require(challenge)
        key = verify_proof(proof, digest=binding.digest, spki=binding.spki)
        identity = f"sha256:{hashlib.sha256(key.canonical_info).hexdigest()}"
        return Attested(
            provider=NAME,
            version=evidence.version,
            identity=identity,
            strength=Strength.FIRST_USE,
            renewable=True,
            claims=(Claim(name=f"{NAME}.key", value=identity, source=NAME, strength=Strength.FIRST_USE),),
            evidence_digest=hashlib.sha256(evidence.data).hexdigest(),
        )

    async def verify_serving(self, attested: Attested, names: Iterable[str], now: dt.datetime) -> Mapping[str, str]:
        """None: a key knows no addresses."""
        return {}

    def machine_name(self, attested: Attested) -> str:
        return ""


def verify_proof(proof: Proof, *, digest: bytes, spki: bytes) -> PublicKey:
    """The machine's key, which has signed ``digest``.

    Raises:
        RefusedEvidenceError: ``structure``, ``key``, ``signature``, in this order.
    """
    try:
        key = keys.load_public_key(proof.key)
    except ParseError as err:
        raise RefusedEvidenceError("structure", f"the machine's key: {err}") from err
    if key.name != _KEY:
        raise RefusedEvidenceError("key", f"got a key {key.name}, expected {_KEY}")
    # A certificate's key is renewed and goes with the node's files; what names the machine for ever stays apart.
    if key.canonical_info == spki:
        raise RefusedEvidenceError("key", "the machine's key is that of the request, expected one of its own")
    try:
        signature.verify(signature.algorithm_for(key), key, signed_message(digest), proof.signature)
    except SignatureError as err:
        raise RefusedEvidenceError("signature", "the machine's key has not signed this challenge") from err
    return key
