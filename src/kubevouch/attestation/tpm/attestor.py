"""The node's side of attestation by TPM: it says which TPM this is, and answers what only that TPM can.

The endorsement key and the attestation key are made from their templates each time, so that there is nothing to keep
but the node's own key.

Settings:
    device: of the TPM, as :class:`Device` takes it.
    key: ``resident`` (default): the node's key is made in the TPM and never leaves it; ``vouched``: it is a file like
        any other, and the TPM only says that it has seen it. Clusters have to allow that, and count it for less.
    endorsementKey: its kind, when a TPM has more than one with a certificate.
    endorsementCertificateFile: PEM, for TPMs whose maker has the certificate elsewhere; more than one: its chain.
    eventLogFile: what firmware has measured, for quotes.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from kubevouch.attestation import documents
from kubevouch.attestation.interface import Asked, AttestationError, Binding, RefusedEvidenceError, SettingsError
from kubevouch.attestation.tpm import node_keys, own_endorsement
from kubevouch.attestation.tpm.device import Connection, Device, TPMCommandError
from kubevouch.attestation.tpm.evidence import NAME, VERSION, Answer, KeyProtection, Opening, Question, Quote
from kubevouch.attestation.tpm.own_endorsement import Endorsement
from kubevouch.pki.errors import ParseError, StructureError
from kubevouch.pki.tpm import algorithms, attest, commands, ek_certificate, event_log, pcrs, public_area, templates
from kubevouch.pki.tpm.commands import EMPTY, Authorization, ResponseCode
from kubevouch.pki.tpm.pcrs import Selection
from kubevouch.pki.tpm.public_area import Attributes, Public
from kubevouch.pki.tpm.resident_key import ResidentKey
from kubevouch.pki.x509 import pem
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.util.clock import Clock

T = TypeVar("T")

RESIDENT, VOUCHED = "resident", "vouched"
EVENT_LOG = Path("/sys/kernel/security/tpm0/binary_bios_measurements")
MAX_EVENT_LOG_BYTES = 24 << 10
"""A request with all its evidence has 64 KiB, and what is in it is in base64 twice: in its JSON, and as PEM. Of longer
logs some data stay here."""
_MAX_FILE_BYTES = 64 << 10
_QUOTE_TRIES = 5
_NONCE_BYTES = 16
_SETTINGS = ("device", "key", "endorsementKey", "endorsementCertificateFile", "eventLogFile")


class ForeignChallengeError(AttestationError):
    """A challenge that was made for another TPM, or for another attestation key: nothing is wrong with this one."""


class TPMAttestor:
    """See the module."""

    name = NAME
    versions: Sequence[str] = (VERSION,)
    needs_challenge = True

    def __init__(
        self,
        device: Device,
        *,
        resident: bool = True,
        kind: str = "",
        certificates: Sequence[bytes] = (),
        event_log: Path = EVENT_LOG,
    ) -> None:
        self._device = device
        self._resident = resident
        self._kind = kind
        self._certificates = certificates
        self._event_log = event_log

    async def opening(self, version: str) -> bytes:
        """Raises :class:`AttestationError`."""
        return msgspec.json.encode(await self._on_tpm(self._opening))

    async def make_key(self) -> PrivateKey | None:
        """Raises :class:`AttestationError`."""
        return await asyncio.to_thread(node_keys.make, self._device) if self._resident else None

    async def attest(
        self,
        version: str,
        key: PrivateKey,
        binding: Binding,
        asked: Asked | None,
    ) -> bytes:
        """Raises:
        ForeignChallengeError: the challenge is not for this TPM.
        AttestationError: the TPM, or what was asked.
        """
        if asked is None:
            raise AttestationError("got no challenge, expected one: a TPM answers only what it was asked")
        question = documents.decode(asked.content, Question, f"the challenge {asked.name}")
        try:
            selections = [_selection(bank, chosen) for bank, chosen in question.pcrs.items()]
        except StructureError as err:
            raise AttestationError(f"the challenge {asked.name} asks for what no TPM has: {err}") from err
        return msgspec.json.encode(await self._on_tpm(lambda tpm: self._proof(tpm, key, binding, question, selections)))

    async def provider_id(self) -> str:
        return ""

    async def close(self) -> None:
        """Nothing is held between two calls."""

    async def _on_tpm(self, work: Callable[[Connection], T]) -> T:
        def run() -> T:
            with self._device.opened() as tpm:
                try:
                    return work(tpm)
                except StructureError as err:
                    raise AttestationError(f"{self._device.where} does not answer as a TPM: {err}") from err

        return await asyncio.to_thread(run)

    # -------------------------------------------------------------- which TPM this is

    def _opening(self, tpm: Connection) -> Opening:
        found = self._endorsement(tpm)
        _, attestation_public = _attestation_key(tpm)
        return Opening(
            ek_public=found.public.encode(),
            ak_public=attestation_public.encode(),
            ek_certificate=found.certificate,
            chain=[*self._certificates[1:], *found.chain][: ek_certificate.MAX_CHAIN],
        )

    def _endorsement(self, tpm: Connection) -> Endorsement:
        return own_endorsement.find(tpm, wanted=self._kind, given=next(iter(self._certificates), b""))

    # -------------------------------------------------------------- what only it can answer

    def _proof(
        self,
        tpm: Connection,
        key: PrivateKey,
        binding: Binding,
        question: Question,
        selections: Sequence[Selection],
    ) -> Answer:
        attestation_key, _ = _attestation_key(tpm)
        secret = self._activate(tpm, attestation_key, question)
        answer = Answer(secret=secret)
        if isinstance(key, ResidentKey):
            certified = node_keys.load(tpm, key)
            said = tpm.run(commands.certify(certified, attestation_key, binding.digest))
            tpm.flush(certified)
            attested, signature = commands.attested(said)
            answer = Answer(secret=secret, key_public=key.public.encode(), attest=attested, signature=signature)
        elif question.key_protection is not KeyProtection.VOUCHED:
            raise RefusedEvidenceError(
                "key-protection", "the cluster wants a key that cannot leave its TPM, and this one is in a file"
            )
        # A key in a file is in what the quote is made for, and nowhere else.
        if selections:
            quote = self._quote(tpm, attestation_key, binding, selections, with_log=question.event_log)
            answer = msgspec.structs.replace(answer, quote=quote)
        return answer

    def _activate(self, tpm: Connection, attestation_key: int, question: Question) -> bytes:
        found = self._endorsement(tpm)
        session = None
        by = EMPTY
        # Keys of the low range are used by a policy only; those of the high range refuse that one and take a password.
        if not found.public.has(Attributes.USER_WITH_AUTH):
            session = tpm.run(commands.start_policy_session(secrets.token_bytes(_NONCE_BYTES))).handle
            tpm.run(commands.policy_secret(commands.ENDORSEMENT, session))
            by = Authorization(session)
        try:
            credential = question.credential
            opened = tpm.run(
                commands.activate_credential(attestation_key, found.handle, by, credential.id_object, credential.secret)
            )
        except TPMCommandError as err:
            # Some TPMs call it a failure when they cannot decrypt what was made for another one, and go on working.
            if err.code in {ResponseCode.FAILURE, ResponseCode.INTEGRITY, ResponseCode.VALUE, ResponseCode.SIZE}:
                raise ForeignChallengeError(
                    f"the challenge was made for another TPM, or for another attestation key than it has now ({err})"
                ) from err
            raise
        finally:
            if session is not None:
                tpm.flush(session)
            if found.handle < commands.FIRST_PERSISTENT:
                tpm.flush(found.handle)
        return commands.first_sized(opened)

    def _quote(
        self,
        tpm: Connection,
        attestation_key: int,
        binding: Binding,
        selections: Sequence[Selection],
        *,
        with_log: bool,
    ) -> Quote:
        # Other policies of the cluster may ask for banks that this TPM does not keep.
        kept = commands.capability_banks(tpm.run(commands.get_capability(commands.CAPABILITY_PCRS, 0, 1)))
        selections = [
            Selection(each.bank, there)
            for each in selections
            if (there := tuple(pcr for pcr in each.pcrs if pcr in kept.get(each.bank, ())))
        ]
        if not selections:
            raise AttestationError(f"the TPM at {self._device.where} keeps none of the PCRs that the cluster asks for")
        for _ in range(_QUOTE_TRIES):
            values = _read(tpm, selections)
            statement, signature = commands.attested(
                tpm.run(commands.quote(attestation_key, binding.digest, selections))
            )
            said = attest.parse(statement, attest.QUOTE)
            if said.pcr_digest == pcrs.digest(selections, values, algorithms.SHA256):
                break
        else:
            raise AttestationError(f"the PCRs of {self._device.where} change faster than they can be read")
        log, omitted = _event_log(self._event_log) if with_log else (b"", ())
        return Quote(
            attest=statement,
            signature=signature,
            pcrs={
                algorithms.HASHES[bank].name: {str(pcr): value.hex() for pcr, value in sorted(of_bank.items())}
                for bank, of_bank in values.items()
            },
            event_log=log,
            omitted=omitted,
        )


def _selection(bank: str, chosen: Sequence[int]) -> Selection:
    """Raises :class:`StructureError`."""
    strange = [each for each in chosen if not 0 <= each <= pcrs.MAX_PCR]
    if strange:
        raise StructureError(f"got PCR {strange[0]:.6g}, expected 0 to {pcrs.MAX_PCR}")
    return Selection(pcrs.parse_bank(bank), tuple(sorted(set(chosen))))


def _attestation_key(tpm: Connection) -> tuple[int, Public]:
    made = tpm.run(commands.create_primary(commands.ENDORSEMENT, templates.ATTESTATION_KEY))
    return made.handle, public_area.parse_area(commands.first_sized(made))


def _read(tpm: Connection, selections: Sequence[Selection]) -> dict[int, dict[int, bytes]]:
    """The values of ``selections``, however few the TPM answers at a time."""
    found: dict[int, dict[int, bytes]] = {each.bank: {} for each in selections}
    missing = list(selections)
    while missing:
        _, values = commands.pcr_values(tpm.run(commands.pcr_read(missing)))
        if not values:
            raise AttestationError("the TPM has PCRs that it does not tell")
        for bank, pcr, value in values:
            found[bank][pcr] = value
        missing = [
            Selection(each.bank, left)
            for each in missing
            if (left := tuple(pcr for pcr in each.pcrs if pcr not in found[each.bank]))
        ]
    return found


def _event_log(path: Path) -> tuple[bytes, tuple[int, ...]]:
    """What firmware has measured, and of which events the data are left out so that it is not too long.

    Nothing if it cannot be read: a policy that needs it says so.
    """
    try:
        with path.open("rb") as file:
            content = file.read(event_log.MAX_OWN_LOG_BYTES + 1)
        return (
            (content, ())
            if len(content) <= MAX_EVENT_LOG_BYTES
            else event_log.without_data(content, MAX_EVENT_LOG_BYTES)
        )
    except (OSError, StructureError):
        return b"", ()


async def make_attestor(settings: Mapping[str, str], clock: Clock) -> TPMAttestor:
    """The attestor for this machine; keys of files sign with its TPM from now on.

    Raises:
        SettingsError: a setting that is not known, or cannot be used.
    """
    unknown = sorted(set(settings) - set(_SETTINGS))
    if unknown:
        raise SettingsError(f"got the setting {unknown[0][:64]!r}, expected one of {', '.join(_SETTINGS)}")
    key = settings.get("key", RESIDENT)
    if key not in {RESIDENT, VOUCHED}:
        raise SettingsError(f"got the setting key {key[:64]!r}, expected {RESIDENT} or {VOUCHED}")
    device = Device(settings.get("device", ""))
    node_keys.use(device)
    file = settings.get("endorsementCertificateFile", "")
    return TPMAttestor(
        device,
        resident=key == RESIDENT,
        kind=settings.get("endorsementKey", ""),
        certificates=_certificates(Path(file)) if file else (),
        event_log=Path(settings.get("eventLogFile", "") or EVENT_LOG),
    )


def _certificates(path: Path) -> Sequence[bytes]:
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_FILE_BYTES + 1)
        if len(text) > _MAX_FILE_BYTES:
            raise SettingsError(f"{path} is longer than {_MAX_FILE_BYTES} bytes")
        found = [block.contents for block in pem.blocks(text) if block.type == pem.CERTIFICATE]
    except (OSError, ParseError) as err:
        raise SettingsError(f"the certificate of the endorsement key cannot be read: {err}") from err
    if not found:
        raise SettingsError(f"{path} holds no certificate", "expected -----BEGIN CERTIFICATE-----")
    return found
