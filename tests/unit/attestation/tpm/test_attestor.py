from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from asynctest import async_test
from kubevouch.attestation import request
from kubevouch.attestation.interface import (
    Asked,
    AttestationError,
    Binding,
    Evidence,
    RefusedEvidenceError,
    SettingsError,
)
from kubevouch.attestation.tpm import attestor as attestor_module
from kubevouch.attestation.tpm.attestor import ForeignChallengeError, TPMAttestor, make_attestor
from kubevouch.attestation.tpm.device import TPMAbsentError
from kubevouch.attestation.tpm.evidence import VERSION, Answer, KeyProtection, Opening, Question
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.tpm import algorithms, attest, commands, credential, pcrs, public_area, signatures, templates
from kubevouch.pki.tpm.commands import CommandCode
from kubevouch.pki.tpm.resident_key import ResidentKey
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.pki.x509.subject import Subject
from kubevouch.util.clock import SystemClock
from software_tpm import Manufacturer, SoftwareTPM, software_tpm
from tpm_front import front

_SECRET = bytes(range(32))


async def _attestor(tpm: SoftwareTPM, **settings: str) -> TPMAttestor:
    return await make_attestor({"device": tpm.where, **settings}, SystemClock())


def _binding(key: PrivateKey) -> Binding:
    return Binding(keys.public_key_of(key).canonical_info, "cluster", secrets.token_bytes(32))


async def _asked(
    attestor: TPMAttestor,
    binding: Binding,
    *,
    pcrs: Mapping[str, Sequence[int]] | None = None,
    event_log: bool = False,
    protection: KeyProtection = KeyProtection.RESIDENT,
) -> Asked:
    opening = msgspec.json.decode(await attestor.opening(VERSION), type=Opening)
    name = public_area.parse(opening.ak_public).name()
    made = credential.make(public_area.parse(opening.ek_public), name, _SECRET, secrets.token_bytes)
    question = Question(credential=made, key_protection=protection, pcrs=pcrs or {}, event_log=event_log)
    return Asked("attest-1", binding.nonce, msgspec.json.encode(question))


async def _answer(attestor: TPMAttestor, key: PrivateKey, binding: Binding, asked: Asked) -> Answer:
    return msgspec.json.decode(await attestor.attest(VERSION, key, binding, asked), type=Answer)


@pytest.mark.parametrize("kind", ["ECC-P256", "RSA-2048", "ECC-P384"])
@async_test
async def test_a_key_is_made_and_certified_for_what_was_asked(
    tmp_path: Path, manufacturer: Manufacturer, kind: str
) -> None:
    with software_tpm(tmp_path, manufacturer, (kind,)) as tpm:
        attestor = await _attestor(tpm)
        opening = msgspec.json.decode(await attestor.opening(VERSION), type=Opening)
        assert public_area.parse(opening.ek_public).kind == kind
        assert opening.ek_certificate
        key = await attestor.make_key()
        assert isinstance(key, ResidentKey)
        binding = _binding(key)
        answer = await _answer(attestor, key, binding, await _asked(attestor, binding))
        assert (answer.secret, answer.quote) == (_SECRET, None)
        said = attest.parse(answer.attest, attest.CERTIFY)
        assert (said.magic, said.type, said.extra_data) == (attest.GENERATED, attest.CERTIFY, binding.digest)
        assert said.name == public_area.parse(answer.key_public).name()
        scheme, signature = signatures.plain(answer.signature)
        signatures.verify(public_area.parse(opening.ak_public), answer.attest, signature, scheme)
        with tpm.device().opened() as connection:
            assert connection.handles(commands.FIRST_TRANSIENT) == ()
            assert connection.handles(commands.FIRST_LOADED_SESSION) == ()


@async_test
async def test_a_quote_comes_with_its_values_in_all_banks(tpm: SoftwareTPM, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"measured")
    attestor = await _attestor(tpm, eventLogFile=str(log))
    key = await attestor.make_key()
    assert key is not None
    binding = _binding(key)
    wanted = {"sha1": [7, 0], "sha256": list(range(24))}
    quote = (await _answer(attestor, key, binding, await _asked(attestor, binding, pcrs=wanted, event_log=True))).quote
    assert quote is not None
    said = attest.parse(quote.attest, attest.QUOTE)
    assert said.extra_data == binding.digest
    assert [each.pcrs for each in said.selections] == [(0, 7), tuple(range(24))]
    values = pcrs.parse_values(quote.pcrs)
    assert pcrs.digest(said.selections, values, algorithms.SHA256) == said.pcr_digest
    assert quote.event_log == b"measured"
    unasked = (await _answer(attestor, key, binding, await _asked(attestor, binding, pcrs=wanted))).quote
    assert unasked is not None
    assert unasked.event_log == b""


@async_test
async def test_an_event_log_that_no_request_has_room_for_stays_at_home(tpm: SoftwareTPM, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(bytes(attestor_module.MAX_EVENT_LOG_BYTES + 1))
    for file in (log, tmp_path / "none"):
        attestor = await _attestor(tpm, eventLogFile=str(file))
        key = await attestor.make_key()
        assert key is not None
        binding = _binding(key)
        asked = await _asked(attestor, binding, pcrs={"sha256": [0]}, event_log=True)
        quote = (await _answer(attestor, key, binding, asked)).quote
        assert quote is not None
        assert quote.event_log == b""


@async_test
async def test_a_request_has_room_for_the_longest_event_log(tpm: SoftwareTPM, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(secrets.token_bytes(attestor_module.MAX_EVENT_LOG_BYTES))
    attestor = await _attestor(tpm, eventLogFile=str(log))
    key = await attestor.make_key()
    assert key is not None
    binding = _binding(key)
    banks = {bank: list(range(24)) for bank in ("sha1", "sha256", "sha384", "sha512")}
    asked = await _asked(attestor, binding, pcrs=banks, event_log=True)
    shown = await attestor.attest(VERSION, key, binding, asked)
    assert len(shown) > attestor_module.MAX_EVENT_LOG_BYTES * 4 // 3
    proof = Evidence(provider="tpm", version=VERSION, data=shown, challenge="attest-abcde")
    signed = build_request(key, Subject(common_name="system:node:" + "n" * 200, organizations=("system:nodes",)))
    assert len(request.build(signed, [proof])) <= request.MAX_BYTES


@async_test
async def test_pcrs_that_change_meanwhile_are_read_again(tpm: SoftwareTPM) -> None:
    stale = commands.pcr_read([pcrs.Selection(algorithms.SHA256, (0,))])
    with tpm.device().opened() as connection:
        answer = connection.run(stale).parameters
    changed = b"\x80\1" + (10 + len(answer)).to_bytes(4, "big") + bytes(4) + answer[:-1] + b"\xee"
    with front(tpm, {CommandCode.PCR_READ: [changed, changed]}) as asked_first:
        attestor = await make_attestor({"device": asked_first.where}, SystemClock())
        key = await attestor.make_key()
        assert key is not None
        binding = _binding(key)
        quote = (await _answer(attestor, key, binding, await _asked(attestor, binding, pcrs={"sha256": [0]}))).quote
        assert quote is not None
        assert quote.pcrs["sha256"]["0"] == "00" * 32
        assert asked_first.seen.count(CommandCode.QUOTE) == 3
        asked_first.answers[CommandCode.PCR_READ] += [changed] * 5
        with pytest.raises(AttestationError, match="change faster than they can be read"):
            await _answer(attestor, key, binding, await _asked(attestor, binding, pcrs={"sha256": [0]}))


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"sm3": [0]}, "asks for what no TPM has: got PCR bank 'sm3'"),
        ({"sha256": [24]}, "got PCR 24, expected 0 to 23"),
        ({"sha256": [0, -1]}, "got PCR -1"),
        ({"sha256": [1 << 40]}, "got PCR 1.09951e"),
    ],
)
@async_test
async def test_pcrs_that_no_tpm_has_are_not_asked_for(
    tpm: SoftwareTPM, wanted: dict[str, list[int]], message: str
) -> None:
    attestor = await _attestor(tpm)
    key = await attestor.make_key()
    assert key is not None
    binding = _binding(key)
    with pytest.raises(AttestationError, match=message):
        await _answer(attestor, key, binding, await _asked(attestor, binding, pcrs=wanted))


@async_test
async def test_banks_that_the_tpm_does_not_keep_are_left_out(tmp_path: Path) -> None:
    with software_tpm(tmp_path / "tpm") as tpm:
        assert tpm.tool("pcrallocate", "sha1:none+sha256:all+sha384:none+sha512:none", folder=tmp_path).code == 0
        tpm.stop()
        tpm.start()
        attestor = await _attestor(tpm)
        key = await attestor.make_key()
        assert key is not None
        binding = _binding(key)
        asked = await _asked(attestor, binding, pcrs={"sha384": [0], "sha256": [0, 7]})
        quote = (await _answer(attestor, key, binding, asked)).quote
        assert quote is not None
        assert {bank: list(values) for bank, values in quote.pcrs.items()} == {"sha256": ["0", "7"]}
        with pytest.raises(AttestationError, match="keeps none of the PCRs"):
            await _answer(attestor, key, binding, await _asked(attestor, binding, pcrs={"sha384": [0]}))


# ------------------------------------------------------------------ keys in files


@async_test
async def test_a_key_in_a_file_is_named_by_the_quote_where_that_counts(tpm: SoftwareTPM) -> None:
    attestor = await _attestor(tpm, key="vouched")
    assert await attestor.make_key() is None
    key = keys.generate(KeyAlgorithm.ECDSA_P256)
    binding = _binding(key)
    asked = await _asked(attestor, binding, pcrs={"sha256": [0]}, protection=KeyProtection.VOUCHED)
    answer = await _answer(attestor, key, binding, asked)
    assert (answer.attest, answer.key_public) == (b"", b"")
    assert answer.quote is not None
    assert attest.parse(answer.quote.attest, attest.QUOTE).extra_data == binding.digest
    with pytest.raises(RefusedEvidenceError, match="cannot leave its TPM") as caught:
        await _answer(attestor, key, binding, await _asked(attestor, binding))
    assert caught.value.step == "key-protection"


# ------------------------------------------------------------------ challenges that are not for this TPM


@pytest.mark.parametrize("kind", ["RSA-2048", "ECC-P256", "ECC-P384"])
@async_test
async def test_a_challenge_for_another_tpm_is_no_broken_tpm(
    tmp_path: Path, manufacturer: Manufacturer, kind: str
) -> None:
    with (
        software_tpm(tmp_path / "a", manufacturer, (kind,)) as tpm,
        software_tpm(tmp_path / "b", manufacturer, (kind,)) as other,
    ):
        attestor = await _attestor(tpm)
        key = await attestor.make_key()
        assert key is not None
        binding = _binding(key)
        with pytest.raises(ForeignChallengeError, match="made for another TPM"):
            await _answer(attestor, key, binding, await _asked(await _attestor(other), binding))
        good = await _asked(attestor, binding)
        read = msgspec.json.decode(good.content, type=Question)
        changed = bytearray(read.credential.id_object)
        changed[-1] ^= 1
        bad = msgspec.structs.replace(read, credential=credential.Credential(bytes(changed), read.credential.secret))
        with pytest.raises(ForeignChallengeError):
            await _answer(attestor, key, binding, Asked("x", binding.nonce, msgspec.json.encode(bad)))
        assert (await _answer(attestor, key, binding, good)).secret == _SECRET


@async_test
async def test_a_challenge_for_another_attestation_key_is_refused(tpm: SoftwareTPM) -> None:
    attestor = await _attestor(tpm)
    key = await attestor.make_key()
    assert key is not None
    binding = _binding(key)
    opening = msgspec.json.decode(await attestor.opening(VERSION), type=Opening)
    other = public_area.parse(opening.ek_public).name()
    made = credential.make(public_area.parse(opening.ek_public), other, _SECRET, secrets.token_bytes)
    with pytest.raises(ForeignChallengeError):
        await _answer(attestor, key, binding, Asked("x", binding.nonce, msgspec.json.encode(Question(credential=made))))


@async_test
async def test_without_a_challenge_nothing_is_said(tpm: SoftwareTPM) -> None:
    attestor = await _attestor(tpm)
    key = keys.generate(KeyAlgorithm.ECDSA_P256)
    with pytest.raises(AttestationError, match="got no challenge"):
        await attestor.attest(VERSION, key, _binding(key), None)
    with pytest.raises(RefusedEvidenceError, match="attest-1"):
        await attestor.attest(VERSION, key, _binding(key), Asked("attest-1", b"", b"{}"))


# ------------------------------------------------------------------ settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"devise": "x"}, "got the setting 'devise', expected one of device, key"),
        ({"key": "Resident"}, "expected resident or vouched"),
        ({"device": "tpm"}, "expected a path"),
        ({"endorsementCertificateFile": "/nowhere"}, "cannot be read"),
    ],
)
@async_test
async def test_settings_that_cannot_be_used_are_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        await make_attestor(settings, SystemClock())


@async_test
async def test_an_absent_tpm_is_told_when_it_is_needed(tmp_path: Path) -> None:
    attestor = await make_attestor({"device": str(tmp_path / "tpmrm0")}, SystemClock())
    for call in (attestor.opening(VERSION), attestor.make_key()):
        with pytest.raises(TPMAbsentError):
            await call
    await attestor.close()
    assert await attestor.provider_id() == ""


@async_test
async def test_a_certificate_of_ones_own_comes_with_its_chain(tmp_path: Path, manufacturer: Manufacturer) -> None:
    file = tmp_path / "ek.pem"
    with software_tpm(tmp_path / "tpm") as tpm:
        certificate = manufacturer.certificate(tpm.public_key(templates.ENDORSEMENT_KEYS[0]))
        file.write_bytes(certificate.public_bytes(Encoding.PEM) + manufacturer.intermediate.public_bytes(Encoding.PEM))
        attestor = await _attestor(tpm, endorsementCertificateFile=str(file))
        opening = msgspec.json.decode(await attestor.opening(VERSION), type=Opening)
        assert opening.ek_certificate == certificate.public_bytes(Encoding.DER)
        assert list(opening.chain) == [manufacturer.intermediate.public_bytes(Encoding.DER)]
    for content in (b"nothing", bytes(70_000)):
        file.write_bytes(content)
        with pytest.raises(SettingsError):
            await _attestor(tpm, endorsementCertificateFile=str(file))
