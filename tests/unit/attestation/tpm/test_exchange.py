"""Both sides at once: what a TPM proves, and the verifier believes."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from asynctest import async_test
from kubevouch.attestation import catalog
from kubevouch.attestation.interface import (
    Asked,
    Attested,
    Attestor,
    Binding,
    Challenge,
    Evidence,
    RefusedEvidenceError,
    Strength,
    Verifier,
)
from kubevouch.attestation.tpm.attestor import make_attestor
from kubevouch.attestation.tpm.evidence import NAME, VERSION, Opening
from kubevouch.attestation.tpm.verifier import make_verifier
from kubevouch.client.interface import Client
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.tpm import commands
from kubevouch.pki.tpm.commands import CommandCode
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.util.clock import SystemClock
from software_tpm import NOW, Manufacturer, SoftwareTPM, software_tpm
from tpm_front import front

_MEASURED = {"asBooted": {"pcrs": [0, 7], "values": {"sha256": {"0": ["00" * 32]}}}}


@dataclass
class _Sources:
    clock: SystemClock
    client: Client | None = None


def _verifier(manufacturer: Manufacturer, **settings: Any) -> Verifier:
    return make_verifier({"roots": manufacturer.root_pem, **settings}, _Sources(SystemClock()))


async def _attestor(tpm: SoftwareTPM, **settings: str) -> Attestor:
    return await make_attestor({"device": tpm.where, **settings}, SystemClock())


async def _key(attestor: Attestor) -> PrivateKey:
    return await attestor.make_key() or keys.generate(KeyAlgorithm.ECDSA_P256)


def _binding(key: PrivateKey) -> Binding:
    return Binding(keys.public_key_of(key).canonical_info, "cluster", secrets.token_bytes(32))


async def _challenge(attestor: Attestor, verifier: Verifier) -> Challenge:
    return verifier.challenge(await attestor.opening(VERSION), NOW, secrets.token_bytes)


async def _answered(attestor: Attestor, key: PrivateKey, binding: Binding, challenge: Challenge) -> Evidence:
    asked = Asked("attest-1", binding.nonce, challenge.content)
    shown = await attestor.attest(VERSION, key, binding, asked)
    return Evidence(provider=NAME, version=VERSION, data=shown, challenge="attest-1")


async def _attested(attestor: Attestor, verifier: Verifier) -> Attested:
    key = await _key(attestor)
    binding = _binding(key)
    challenge = await _challenge(attestor, verifier)
    shown = await _answered(attestor, key, binding, challenge)
    return await verifier.verify_client(shown, binding, challenge, NOW)


def _claims(attested: Attested) -> Mapping[str, str]:
    return {each.name: each.value for each in attested.claims}


@pytest.mark.parametrize("kind", ["ECC-P256", "RSA-2048", "ECC-P384", "RSA-3072", "ECC-P521"])
@async_test
async def test_a_machine_is_known_by_its_tpm(tmp_path: Path, manufacturer: Manufacturer, kind: str) -> None:
    with software_tpm(tmp_path, manufacturer, (kind,)) as tpm:
        attestor, verifier = await _attestor(tpm), _verifier(manufacturer)
        first, again = await _attested(attestor, verifier), await _attested(attestor, verifier)
        tpm.stop()
        tpm.start()
        booted = await _attested(attestor, verifier)
        opening = msgspec.json.decode(await attestor.opening(VERSION), type=Opening)
    assert first.identity == again.identity == booted.identity
    assert first.identity == f"sha256:{hashlib.sha256(opening.ek_public[2:]).hexdigest()}"
    assert (first.strength, first.renewable, first.provider) == (Strength.TPM, True, "tpm")
    assert _claims(first)["tpm.manufacturer"] == "id:00001014"
    assert _claims(first)["tpm.keyProtection"] == "Resident"
    assert int(_claims(booted)["tpm.resetCount"]) == int(_claims(first)["tpm.resetCount"]) + 1


@async_test
async def test_a_measured_machine_is_worth_more(tpm: SoftwareTPM, manufacturer: Manufacturer) -> None:
    verifier = _verifier(manufacturer, pcrPolicies=_MEASURED, requireQuote=True)
    attested = await _attested(await _attestor(tpm), verifier)
    assert attested.strength is Strength.MEASURED
    assert _claims(attested)["tpm.pcrPolicy"] == "asBooted"
    other = {"other": {"pcrs": [0], "values": {"sha256": {"0": ["11" * 32]}}}}
    with pytest.raises(RefusedEvidenceError):
        await _attested(await _attestor(tpm), _verifier(manufacturer, pcrPolicies=other, requireQuote=True))


@async_test
async def test_a_tpm_without_a_certificate_counts_when_its_key_is_on_the_list(tmp_path: Path) -> None:
    with software_tpm(tmp_path) as tpm:
        attestor = await _attestor(tpm)
        opening = msgspec.json.decode(await attestor.opening(VERSION), type=Opening)
        listed = hashlib.sha256(opening.ek_public[2:]).hexdigest()
        attested = await _attested(attestor, make_verifier({"allowed": [listed]}, _Sources(SystemClock())))
        assert attested.identity == f"sha256:{listed}"
        with pytest.raises(RefusedEvidenceError) as caught:
            await _attested(attestor, make_verifier({"allowed": ["00" * 32]}, _Sources(SystemClock())))
        assert caught.value.step == "ek-allow-list"


@async_test
async def test_a_key_in_a_file_counts_for_less_and_only_where_that_is_said(
    tpm: SoftwareTPM, manufacturer: Manufacturer
) -> None:
    attestor = await _attestor(tpm, key="vouched")
    attested = await _attested(attestor, _verifier(manufacturer, keyProtection="Vouched"))
    assert attested.strength is Strength.KEY
    with pytest.raises(RefusedEvidenceError) as caught:
        await _attested(attestor, _verifier(manufacturer))
    assert caught.value.step == "key-protection"


@async_test
async def test_an_answer_is_good_for_one_key_and_one_nonce(tpm: SoftwareTPM, manufacturer: Manufacturer) -> None:
    attestor, verifier = await _attestor(tpm), _verifier(manufacturer)
    key, other = await _key(attestor), await _key(attestor)
    binding = _binding(key)
    challenge = await _challenge(attestor, verifier)
    shown = await _answered(attestor, key, binding, challenge)
    for wrong in (_binding(key), Binding(keys.public_key_of(other).canonical_info, "cluster", binding.nonce)):
        with pytest.raises(RefusedEvidenceError) as caught:
            await verifier.verify_client(shown, wrong, challenge, NOW)
        assert caught.value.step == "extra-data"
    with pytest.raises(RefusedEvidenceError) as caught:
        await verifier.verify_client(shown, binding, await _challenge(attestor, verifier), NOW)
    assert caught.value.step == "secret"


@async_test
async def test_a_cloned_disk_proves_nothing_in_another_machine(
    tmp_path: Path, tpm: SoftwareTPM, manufacturer: Manufacturer
) -> None:
    """The files of one machine, the TPM of another of the same maker."""
    verifier = _verifier(manufacturer)
    with software_tpm(tmp_path, manufacturer) as other:
        stolen = keys.load_pem(keys.to_pem(await _key(await _attestor(tpm))), in_tpm=True)
        attestor = await _attestor(other)
        binding = _binding(stolen)
        with pytest.raises(RefusedEvidenceError) as caught:
            await _answered(attestor, stolen, binding, await _challenge(attestor, verifier))
        assert caught.value.step == "key-lost"
        assert (await _attested(attestor, verifier)).identity != (
            await _attested(await _attestor(tpm), verifier)
        ).identity


@async_test
async def test_a_tpm_that_passes_the_challenge_on_proves_nothing(
    tmp_path: Path, tpm: SoftwareTPM, manufacturer: Manufacturer
) -> None:
    """A machine that opens with the endorsement key of another one, and certifies by its own TPM."""
    verifier = _verifier(manufacturer)
    with software_tpm(tmp_path, manufacturer) as other:
        honest = msgspec.json.decode(await (await _attestor(tpm)).opening(VERSION), type=Opening)
        own = msgspec.json.decode(await (await _attestor(other)).opening(VERSION), type=Opening)
        mixed = msgspec.structs.replace(honest, ak_public=own.ak_public)
        challenge = verifier.challenge(msgspec.json.encode(mixed), NOW, secrets.token_bytes)
        attestor = await _attestor(tpm)
        key = await _key(attestor)
        with pytest.raises(Exception, match="another attestation key"):
            await _answered(attestor, key, _binding(key), challenge)


@async_test
async def test_a_tpm_that_hesitates_proves_in_the_end(tpm: SoftwareTPM, manufacturer: Manufacturer) -> None:
    waiting: dict[int, list[bytes | int]] = {
        CommandCode.CREATE_PRIMARY: [commands.ResponseCode.RETRY],
        CommandCode.NV_READ: [commands.ResponseCode.NV_RATE],
        CommandCode.CERTIFY: [commands.ResponseCode.YIELDED],
    }
    with front(tpm, waiting) as slow:
        attestor = await make_attestor({"device": slow.where}, SystemClock())
        assert (await _attested(attestor, _verifier(manufacturer))).strength is Strength.TPM


def test_the_node_s_side_is_installed() -> None:
    assert catalog.attestor(NAME) is make_attestor
