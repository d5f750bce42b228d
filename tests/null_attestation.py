"""A method that proves nothing and takes any name and strength that it is told, for tests of what is around methods.

It is installed by ``tests/kubevouch_null.dist-info`` beside this file, for whoever has this folder on its path
(``PYTHONPATH``), and is in no wheel. What it shows is JSON: the fields of :class:`Shown`.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed, decode_dss_signature

from kubevouch.attestation import documents
from kubevouch.attestation.interface import (
    Asked,
    AttestationError,
    Attested,
    Binding,
    Challenge,
    Claim,
    Evidence,
    Random,
    RefusedEvidenceError,
    SettingsError,
    Sources,
    Strength,
    UnavailableError,
    UnsupportedVersionError,
)
from kubevouch.pki.tpm import algorithms, templates
from kubevouch.pki.tpm.resident_key import ResidentKey
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.util.clock import Clock

NAME = "null"


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Of the verifier.

    Args:
        versions: that it reads.
        challenge: whether it asks.
        unavailable: it cannot be asked, for this reason.
        serving: names that belong to any machine.
    """

    versions: tuple[str, ...] = ("v1",)
    challenge: bool = True
    unavailable: str = ""
    serving: tuple[str, ...] = ()


class Shown(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What a machine says of itself, which is believed.

    Args:
        digest: hexadecimal ``Binding.digest``; another one is refused with ``binding``.
        cluster_id: that of the binding; another one is refused with ``cluster``.
        tenant_claims: names of those claims that whoever rents the machine can write.
        refuse: refuse it with this step.
    """

    identity: str = ""
    digest: str = ""
    cluster_id: str = ""
    provider_id: str = ""
    node_name: str = ""
    strength: Strength = Strength.TPM
    renewable: bool = True
    addresses: tuple[str, ...] = ()
    dns_names: tuple[str, ...] = ()
    claims: Mapping[str, str] = {}
    tenant_claims: tuple[str, ...] = ()
    refuse: str = ""


class NullVerifier:
    name = NAME

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.versions: Sequence[str] = settings.versions
        self.needs_challenge = settings.challenge

    def destination(self, evidence: Evidence) -> str:
        return ""

    def challenge(self, opening: bytes, now: dt.datetime, random: Random) -> Challenge:
        if opening == b"refuse":
            raise RefusedEvidenceError("opening", "told so")
        return Challenge(content=opening, secret_digest=hashlib.sha256(opening).hexdigest(), state=opening)

    async def verify_client(
        self, evidence: Evidence, binding: Binding, challenge: Challenge | None, now: dt.datetime
    ) -> Attested:
        if evidence.version not in self.versions:
            raise UnsupportedVersionError(NAME, evidence.version, self.versions)
        if self._settings.unavailable:
            raise UnavailableError(self._settings.unavailable)
        shown = documents.decode(evidence.data, Shown, "the proof of null")
        if shown.refuse:
            raise RefusedEvidenceError(shown.refuse, "told so")
        if shown.digest != binding.digest.hex():
            raise RefusedEvidenceError("binding", "made for another key or challenge")
        if shown.cluster_id != binding.cluster_id:
            raise RefusedEvidenceError("cluster", "made for another cluster")
        return Attested(
            provider=NAME,
            version=evidence.version,
            identity=shown.identity,
            strength=shown.strength,
            provider_id=shown.provider_id,
            node_name=shown.node_name,
            renewable=shown.renewable,
            addresses=shown.addresses,
            dns_names=shown.dns_names,
            claims=tuple(
                Claim(name, value, NAME, shown.strength, tenant_controlled=name in shown.tenant_claims)
                for name, value in sorted(shown.claims.items())
            ),
            evidence_digest=hashlib.sha256(evidence.data).hexdigest(),
        )

    async def verify_serving(self, attested: Attested, names: Iterable[str], now: dt.datetime) -> Mapping[str, str]:
        own = {*self._settings.serving, *attested.addresses, *attested.dns_names}
        return {name: NAME for name in names if name in own}

    def machine_name(self, attested: Attested) -> str:
        return attested.node_name


class NullAttestor:
    """Settings: ``identity`` and whatever else :class:`Shown` has, and ``versions``, divided by commas; ``busy`` is a
    path, and while there is a file nothing can be proven; ``key=stays`` makes a key that is in no file."""

    name = NAME

    def __init__(self, settings: Mapping[str, str]) -> None:
        said = dict(settings)
        self.versions: Sequence[str] = tuple(said.pop("versions", "v1").split(","))
        self.needs_challenge = said.pop("challenge", "true") == "true"
        self._opening = said.pop("opening", "").encode()
        self._fails = said.pop("fails", "")
        self._busy = said.pop("busy", "")
        self._stays = said.pop("key", "") == "stays"
        try:
            self.shown = msgspec.convert(said, Shown, strict=False)
        except msgspec.ValidationError as err:
            raise SettingsError(f"settings of {NAME}: {err}") from err

    async def opening(self, version: str) -> bytes:
        return self._opening

    async def make_key(self) -> PrivateKey | None:
        return staying_key() if self._stays else None

    async def attest(self, version: str, key: PrivateKey, binding: Binding, asked: Asked | None) -> bytes:
        if self._fails:
            raise AttestationError(self._fails)
        if self._busy and Path(self._busy).exists():  # noqa: ASYNC240 - a look at a test's own file
            raise UnavailableError("busy", 1000.0)
        return show(self.shown, binding)

    async def provider_id(self) -> str:
        return self.shown.provider_id

    async def close(self) -> None:
        return None


def staying_key() -> ResidentKey:
    """As of a TPM. What is stored of it is the key itself here, which a TPM would have encrypted."""
    made = ec.generate_private_key(ec.SECP256R1())
    numbers = made.private_numbers()
    public = numbers.public_numbers
    unique = (public.x.to_bytes(32, "big"), public.y.to_bytes(32, "big"))
    return ResidentKey(
        0x40000001,
        msgspec.structs.replace(templates.NODE_KEY, unique=unique),
        numbers.private_value.to_bytes(32, "big"),
        _sign,
    )


def _sign(key: ResidentKey, digest: bytes, algorithm: int) -> tuple[int, int]:
    found = ec.derive_private_key(int.from_bytes(key.private, "big"), ec.SECP256R1())
    return decode_dss_signature(found.sign(digest, ec.ECDSA(Prehashed(algorithms.HASHES[algorithm].algorithm))))


def show(shown: Shown, binding: Binding) -> bytes:
    """The proof that says ``shown``, made for ``binding``."""
    return msgspec.json.encode(
        msgspec.structs.replace(shown, digest=binding.digest.hex(), cluster_id=binding.cluster_id)
    )


def make_verifier(settings: Mapping[str, Any], sources: Sources) -> NullVerifier:
    try:
        return NullVerifier(msgspec.convert(settings, Settings))
    except msgspec.ValidationError as err:
        raise SettingsError(f"settings of {NAME}: {err}") from err


async def make_attestor(settings: Mapping[str, str], clock: Clock) -> NullAttestor:
    return NullAttestor(settings)
