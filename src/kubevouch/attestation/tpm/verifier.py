"""The server's side: what is asked of a machine with a TPM, and in which order its answer is verified.

The order is that of docs/attestation/tpm/control-plane.md: endorsement.py before the challenge; certification.py and
measurement.py when the answer has come.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from kubevouch.attestation import documents, serving_names, settings
from kubevouch.attestation.interface import (
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
    UnsupportedVersionError,
)
from kubevouch.attestation.tpm import certification, endorsement, measurement
from kubevouch.attestation.tpm.endorsement import Trust
from kubevouch.attestation.tpm.evidence import NAME, VERSION, Answer, KeyProtection, Opening, Question, Quote, State
from kubevouch.attestation.tpm.measurement import Measured, Policy
from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.pki.errors import ParseError, StructureError
from kubevouch.pki.tpm import algorithms, attest, credential, event_log, pcrs
from kubevouch.pki.tpm.attest import Attest
from kubevouch.pki.tpm.public_area import Public
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.util.logger import get_logger

log = get_logger("attestation.tpm")

VERSIONS = (VERSION,)
_MAX_POLICIES = 32
_HEXADECIMAL = frozenset("0123456789abcdef")


class PCRSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """One way in which machines may be booted.

    Args:
        pcrs: registers that have to be quoted.
        banks: in each of which.
        values: hexadecimal values that a register may have, by bank and number.
        event_log: the firmware's log has to come with the quote, and to lead to its values.
        secure_boot: … and to say that Secure Boot was on.
    """

    pcrs: Sequence[int] = measurement.FIRMWARE_PCRS
    banks: Sequence[str] = ("sha256",)
    values: Mapping[str, Mapping[str, Sequence[str]]] = {}
    event_log: bool = False
    secure_boot: bool = False


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What an operator says of TPMs.

    Args:
        roots, roots_file: certificates of their makers, in PEM.
        intermediates_file: certificates between those and TPMs, in PEM, which nodes need not bring.
        allowed: hexadecimal SHA-256 of the TPMT_PUBLIC of endorsement keys that need no certificate; ``allowed_file``
            has one a line.
        endorsement_keys: kinds that count, such as RSA-2048.
        revoked: hexadecimal SHA-256 of certificates and of endorsement keys that count no more.
        key_protection: of the key of a request.
        pcr_policies: ways in which machines may be booted, by name.
        require_quote: a machine that fits none of them, or shows no quote, is refused.
    """

    roots: str = ""
    roots_file: str = ""
    intermediates_file: str = ""
    allowed: Sequence[str] = ()
    allowed_file: str = ""
    endorsement_keys: Sequence[str] = endorsement.KINDS
    revoked: Sequence[str] = ()
    key_protection: KeyProtection = KeyProtection.RESIDENT
    pcr_policies: Mapping[str, PCRSettings] = {}
    require_quote: bool = False


def make_verifier(given: Mapping[str, Any], sources: Sources) -> TPMVerifier:
    """Raises :class:`SettingsError`."""
    read = settings.read(given, Settings, NAME)
    policies = {name: _policy(name, each) for name, each in read.pcr_policies.items()}
    if len(policies) > _MAX_POLICIES:
        raise SettingsError(f"settings of {NAME}: got {len(policies)} pcrPolicies, expected at most {_MAX_POLICIES}")
    if read.require_quote and not policies:
        raise SettingsError(
            f"settings of {NAME}: requireQuote without pcrPolicies",
            hint="a quote that is held against nothing proves nothing: name a policy",
        )
    return TPMVerifier(_trust(read), policies, read.key_protection, require_quote=read.require_quote)


class TPMVerifier:
    """A :class:`~kubevouch.attestation.interface.Verifier`."""

    name = NAME
    versions: Sequence[str] = VERSIONS
    needs_challenge = True

    def __init__(
        self,
        trust: Trust,
        policies: Mapping[str, Policy],
        key_protection: KeyProtection = KeyProtection.RESIDENT,
        *,
        require_quote: bool = False,
    ) -> None:
        self._trust = trust
        self._policies = policies
        self._key_protection = key_protection
        self._require_quote = require_quote

    def destination(self, evidence: Evidence) -> str:
        return ""

    def challenge(self, opening: bytes, now: dt.datetime, random: Random) -> Challenge:
        """A secret for the TPM of the endorsement key, if that one counts, and for the attestation key alone."""
        said = documents.decode(opening, Opening, "the opening of tpm")
        endorsed = endorsement.verify_endorsement(said.ek_public, said.ek_certificate, said.chain, self._trust, now=now)
        key = certification.verify_attestation_key(said.ak_public)
        secret = random(certification.SECRET_BYTES)
        try:
            made = credential.make(endorsed.key, key.name(), secret, random)
        except StructureError as err:
            raise RefusedEvidenceError("ek-attributes", str(err)) from err
        question = Question(
            credential=made,
            key_protection=self._key_protection,
            pcrs=self._asked,
            event_log=any(each.event_log or each.secure_boot for each in self._policies.values()),
        )
        return Challenge(
            content=msgspec.json.encode(question),
            secret_digest=hashlib.sha256(secret).hexdigest(),
            state=msgspec.json.encode(State(ek_hash=endorsed.ek_hash, ak_public=said.ak_public, facts=endorsed.facts)),
        )

    @property
    def _asked(self) -> dict[str, list[int]]:
        """A key in a file is named in a quote, which has to be over something."""
        wanted = measurement.asked_of(tuple(self._policies.values()))
        if not wanted and self._key_protection is KeyProtection.VOUCHED:
            return {"sha256": list(measurement.FIRMWARE_PCRS)}
        return wanted

    async def verify_client(
        self, evidence: Evidence, binding: Binding, challenge: Challenge | None, now: dt.datetime
    ) -> Attested:
        if evidence.version not in VERSIONS:
            raise UnsupportedVersionError(NAME, evidence.version, VERSIONS)
        if challenge is None:
            raise RefusedEvidenceError("nonce", "got no challenge, expected the answer to one")
        answer = documents.decode(evidence.data, Answer, "the answer of tpm")
        try:
            state = msgspec.json.decode(challenge.state, type=State)
        except msgspec.MsgspecError as err:
            raise RefusedEvidenceError("nonce", f"the challenge was made by another version of this: {err}") from err
        key = certification.verify_attestation_key(state.ak_public)
        # The name was computed from these octets when the credential was made; nobody but controllers writes them.
        certification.verify_activation(key, key.name(), challenge.secret_digest.encode(), answer.secret)
        said = self._certified(key, answer, binding)
        measured, policy = self._measured(key, answer.quote, said, binding)
        return self._attested(evidence, state, said, measured, policy)

    def _certified(self, key: Public, answer: Answer, binding: Binding) -> Attest | None:
        """What the TPM says of the request's key; None for a key in a file, where that counts."""
        if self._key_protection is KeyProtection.VOUCHED and not answer.key_public:
            log.warning("a key in a file counts as proof of a TPM: whoever copies the file is the machine")
            return None
        kind = attest.CREATION if answer.creation_data else attest.CERTIFY
        said = certification.verify_signed(
            key, answer.attest, answer.signature, plain=False, expected=kind, extra_data=binding.digest
        )
        certification.verify_key(said, answer.key_public, binding.spki, answer.creation_data)
        return said

    def _measured(
        self, key: Public, quote: Quote | None, certified: Attest | None, binding: Binding
    ) -> tuple[Measured | None, str]:
        """What was quoted and which policy that fits. Without any policy a quote is still no forged one."""
        if quote is None:
            if self._require_quote or certified is None:
                raise RefusedEvidenceError("quote", "got no quote, expected one")
            return None, ""
        said = certification.verify_signed(
            key, quote.attest, quote.signature, plain=False, expected=attest.QUOTE, extra_data=binding.digest,
            prefix="quote-",
        )  # fmt: skip
        if certified is not None and certified.clock.moment[:2] != said.clock.moment[:2]:
            raise RefusedEvidenceError("clock", "the machine was booted anew between its certification and its quote")
        measured = measurement.verify_measurement(said, key, quote.pcrs, quote.event_log, quote.omitted)
        if not self._policies:
            return measured, ""
        try:
            return measured, measurement.verify_policies(measured, self._policies)
        except RefusedEvidenceError:
            if self._require_quote:
                raise
            return measured, ""

    def _attested(
        self, evidence: Evidence, state: State, said: Attest | None, measured: Measured | None, policy: str
    ) -> Attested:
        # A key in a file is worth what its copy is worth, however the machine was booted that showed it first.
        strength = Strength.KEY if said is None else Strength.TPM
        if said is not None and policy and self._policies[policy].demands:
            strength = Strength.MEASURED
        return Attested(
            provider=NAME,
            version=evidence.version,
            identity=f"sha256:{state.ek_hash}",
            strength=strength,
            renewable=True,
            claims=tuple(_claims(state, said, measured, policy, strength)),
            evidence_digest=hashlib.sha256(evidence.data).hexdigest(),
        )

    async def verify_serving(self, attested: Attested, names: Iterable[str], now: dt.datetime) -> Mapping[str, str]:
        """A TPM knows no names."""
        return serving_names.among(attested, names)

    def machine_name(self, attested: Attested) -> str:
        return ""


def _claims(
    state: State, said: Attest | None, measured: Measured | None, policy: str, strength: Strength
) -> Iterator[Claim]:
    def claim(name: str, value: str, source: str) -> Claim:
        return Claim(name=name, value=value[:256], source=source, strength=strength)

    certificate = "tpm-ek-certificate" if state.facts else "tpm-ek-allow-list"
    yield claim("tpm.ekHash", state.ek_hash, certificate)
    for name, fact in state.facts.items():
        yield claim(name, fact, certificate)
    protection = KeyProtection.VOUCHED if said is None else KeyProtection.RESIDENT
    yield claim("tpm.keyProtection", protection, "tpm-quote" if said is None else "tpm-certify")
    if said is not None:
        yield claim("tpm.firmwareVersion", f"{said.firmware_version:016x}", "tpm-certify")
        yield claim("tpm.resetCount", str(said.clock.reset_count), "tpm-certify")
        yield claim("tpm.restartCount", str(said.clock.restart_count), "tpm-certify")
    if policy:
        yield claim("tpm.pcrPolicy", policy, "tpm-quote")
    if measured is None:
        return
    for bank, registers in sorted(measured.values.items()):
        for pcr, value in sorted(registers.items()):
            if bank == algorithms.SHA256 and pcr in measurement.FIRMWARE_PCRS:
                yield claim(f"tpm.pcr{pcr}", value.hex(), "tpm-quote")
    if measured.log is not None and measured.log.secure_boot is not None and _is_quoted(measured):
        yield claim("tpm.secureBoot", str(measured.log.secure_boot).lower(), "tpm-event-log")


def _is_quoted(measured: Measured) -> bool:
    """Whether the log's Secure Boot follows from a register that was quoted in a bank that is worth something."""
    assert measured.log is not None
    return any(
        bank in algorithms.STRONG_HASHES and bank in measured.log.banks and event_log.SECURE_BOOT_PCR in registers
        for bank, registers in measured.values.items()
    )


def _trust(read: Settings) -> Trust:
    allowed = frozenset((*_digests(read.allowed, "allowed"), *_listed(read.allowed_file)))
    roots: Sequence[Certificate] = ()
    if read.roots or read.roots_file:
        text = settings.text_or_file(read.roots, read.roots_file, NAME, "roots")
        roots = _bundle(text, "roots")
    elif not allowed:
        raise SettingsError(
            f"settings of {NAME}: got neither roots nor allowed",
            hint="give the certificates of the TPMs' makers, or the hashes of endorsement keys",
        )
    strange = set(read.endorsement_keys) - set(endorsement.KINDS)
    if strange or not read.endorsement_keys:
        raise SettingsError(
            f"settings of {NAME}: endorsementKeys: got {', '.join(sorted(strange)) or 'none'}",
            hint=f"expected some of {', '.join(endorsement.KINDS)}",
        )
    between: Sequence[Certificate] = ()
    if read.intermediates_file:
        text = settings.read_file(read.intermediates_file, NAME, "intermediatesFile")
        between = _bundle(text, "intermediatesFile")
    return Trust(
        roots=TrustAnchors(roots),
        intermediates=between,
        allowed=allowed,
        kinds=frozenset(read.endorsement_keys),
        revoked=frozenset(_digests(read.revoked, "revoked")),
    )


def _bundle(text: bytes, name: str) -> Sequence[Certificate]:
    try:
        read = x509_certificate.parse_bundle(text)
    except ParseError as err:
        raise SettingsError(f"settings of {NAME}: {name}: {err}", hint="give certificates in PEM") from err
    for each in read:
        if not each.meaning.is_ca:
            raise SettingsError(f"settings of {NAME}: {name}: {each.subject.common_name!r} is no CA")
    return read


def _listed(path: str) -> Iterator[str]:
    if not path:
        return iter(())
    lines = settings.read_file(path, NAME, "allowedFile").decode("utf-8", "replace").splitlines()
    stripped = (line.partition("#")[0].strip() for line in lines)
    return iter(_digests([each for each in stripped if each], "allowedFile"))


def _digests(texts: Sequence[str], name: str) -> Sequence[str]:
    read = [each.removeprefix("sha256:").lower() for each in texts]
    for each in read:
        if len(each) != 64 or not set(each) <= _HEXADECIMAL:
            raise SettingsError(f"settings of {NAME}: {name}: got {each[:80]!r}, expected a SHA-256 in hexadecimal")
    return read


def _policy(name: str, read: PCRSettings) -> Policy:
    where = f"settings of {NAME}: pcrPolicies.{name}"
    try:
        banks = tuple(pcrs.parse_bank(each) for each in read.banks)
        values: dict[int, dict[int, frozenset[bytes]]] = {}
        for bank, registers in read.values.items():
            for number, texts in registers.items():
                each = [pcrs.parse_values({bank: {number: text}}) for text in texts]
                identifier = pcrs.parse_bank(bank)
                allowed = frozenset(value[identifier][int(number)] for value in each)
                if not allowed:
                    raise StructureError(f"PCR {number} of {bank} may have no value at all")
                values.setdefault(identifier, {})[int(number)] = allowed
    except StructureError as err:
        raise SettingsError(f"{where}: {err}") from err
    if not banks or not {*banks, *values} <= algorithms.STRONG_HASHES:
        raise SettingsError(f"{where}: expected banks of sha256, sha384 or sha512", hint="SHA-1 proves nothing")
    if not all(0 <= each <= pcrs.MAX_PCR for each in read.pcrs):
        raise SettingsError(f"{where}: expected pcrs from 0 to {pcrs.MAX_PCR}")
    return Policy(
        banks=banks, pcrs=tuple(read.pcrs), values=values, event_log=read.event_log, secure_boot=read.secure_boot
    )
