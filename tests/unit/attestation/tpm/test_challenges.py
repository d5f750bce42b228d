"""The whole way through the API: challenge, answer, request, certificate; and whom the same answer helps no more."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from cryptography.hazmat.primitives.serialization import Encoding

from asynctest import async_test
from attested_world import Machine, attested_world, certificate, identity, outcome
from controller_world import World
from kubevouch.api.kubevouch_v1alpha1.attestation_challenges import AttestationChallenge
from kubevouch.attestation.interface import Binding, Evidence
from kubevouch.attestation.tpm.evidence import Question
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.tpm import algorithms
from kubevouch.pki.tpm.public_area import Public
from node_cases import CASES
from pretended_tpm import KEY_ATTRIBUTES, Maker, PretendedTPM, public_of

ANSWERS = {case["id"]: case for case in CASES if case["when"] == "answer challenge"}
_CONFIGURED = "attestors: " + json.dumps(
    [{"provider": "tpm", "settings": {"roots": Maker().root.public_bytes(Encoding.PEM).decode()}}]
)


class TPMMachine(Machine):
    """A machine with a TPM in place of a word."""

    def __init__(self, at: World, name: str, tpm: PretendedTPM) -> None:
        super().__init__(at, name, "")
        self.tpm = tpm
        self.provider = "tpm"

    @property
    def resident(self) -> Public:
        return public_of(self.key, KEY_ATTRIBUTES)  # type: ignore[arg-type] # it is on a curve

    async def challenge(self, **spec: Any) -> AttestationChallenge:
        return await super().challenge(**{"opening": msgspec.json.encode(self.tpm.opening()), **spec})

    async def evidence(self, challenge: AttestationChallenge | None) -> Evidence:
        assert challenge is not None
        question = msgspec.json.decode(challenge.status.content, type=Question)
        digest = Binding(self.spki, "", challenge.status.nonce).digest
        answer = msgspec.json.encode(self.tpm.answer(question, self.resident, digest))
        return Evidence(provider="tpm", version="v1", data=answer, challenge=challenge.metadata.name)


@async_test
async def test_a_tpm_becomes_a_node() -> None:
    async with attested_world(_CONFIGURED) as at:
        machine = TPMMachine(at, "worker-7", PretendedTPM())
        joined = await machine.join()
        assert outcome(joined) == "issued"
        assert certificate(joined).public_key.canonical_info == machine.resident.spki()
        found = await identity(at, "worker-7")
        assert found is not None
        claims = {each.name: each.value for each in found.status.claims}
        assert found.status.identity == f"sha256:{claims['tpm.ekHash']}"
        assert claims["tpm.keyProtection"] == "Resident"

        # The same TPM under another name, and another TPM under the same one.
        assert outcome(await TPMMachine(at, "worker-8", machine.tpm).join()).startswith("denied: ")
        assert outcome(await TPMMachine(at, "worker-7", PretendedTPM("second")).join()).startswith("denied: ")
        assert await identity(at, "worker-8") is None
        after = await identity(at, "worker-7")
        assert after is not None
        assert after.status.identity == found.status.identity


@async_test
async def test_an_answer_counts_once() -> None:
    """Cases 019 and 020."""
    assert ANSWERS["attest-tpm-019"]["then"]["challenge_consumed"]
    assert ANSWERS["attest-tpm-020"]["then"] == {"second_ok": False, "why": "single use", "basis": "ours"}
    async with attested_world(_CONFIGURED) as at:
        machine = TPMMachine(at, "worker-7", PretendedTPM())
        request = machine.request(await machine.evidence(await machine.challenge()))
        assert outcome(await machine.file(request)) == "issued"
        assert outcome(await machine.file(request)) == "denied: challenge-used"


@async_test
async def test_a_challenge_is_for_one_key() -> None:
    """Case 022."""
    assert not ANSWERS["attest-tpm-022"]["then"]["ok"]
    async with attested_world(_CONFIGURED) as at:
        machine = TPMMachine(at, "worker-7", PretendedTPM())
        challenge = await machine.challenge()
        machine.key = keys.generate(KeyAlgorithm.ECDSA_P256)
        assert outcome(await machine.file(machine.request(await machine.evidence(challenge)))) == "denied: challenge"


@async_test
async def test_who_has_no_tpm_that_counts_gets_no_challenge() -> None:
    forged = PretendedTPM(maker=Maker("somebody"), ek_fields={"name_algorithm": algorithms.SHA256})
    async with attested_world(_CONFIGURED) as at:
        challenge = await TPMMachine(at, "worker-7", forged).challenge()
        assert [(each.type, each.reason) for each in challenge.status.conditions if each.status == "True"] == [
            ("Refused", "chain")
        ]
        assert not challenge.status.content
