"""Every piece of evidence of a TPM, by the rules that the verifier calls."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import evidence_cases
from evidence_cases import Case
from kubevouch.attestation.interface import RefusedEvidenceError
from kubevouch.attestation.tpm import certification, endorsement, measurement
from kubevouch.attestation.tpm.endorsement import Trust
from kubevouch.attestation.tpm.measurement import Measured, Policy
from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.pki.tpm import attest, credential, ek_certificate, pcrs
from kubevouch.pki.tpm.attest import ClockInfo
from kubevouch.pki.tpm.marshalling import sized
from kubevouch.pki.tpm.public_area import Public
from kubevouch.pki.x509 import pem, x509_certificate
from node_cases import CASES
from pretended_tpm import NOW


def trust_of(case: Case) -> Trust:
    roots = [x509_certificate.parse_pem(each.encode()) for each in case.roots]
    allowed = frozenset(case.given.get("ek_allow_list_sha256") or ())
    return Trust(roots=TrustAnchors(roots), allowed=allowed)


def chain_of(case: Case) -> list[bytes]:
    blocks = [pem.first_block(each.encode()) for each in case.given.get("chain") or ()]
    return [block.contents for block in blocks if block is not None]


def policy_of(given: dict[str, Any]) -> Policy:
    values = {
        bank: {pcr: frozenset({value}) for pcr, value in registers.items()}
        for bank, registers in pcrs.parse_values(given.get("values", {})).items()
    }
    return Policy(banks=tuple(map(pcrs.parse_bank, given["banks"])), pcrs=tuple(given["pcrs"]), values=values)


def endorsed(case: Case) -> None:
    endorsement.verify_endorsement(
        case.octets("ek_public"), case.octets("ek_certificate"), chain_of(case), trust_of(case), now=case.now
    )


def activated(case: Case) -> Public:
    credential.parse_file(case.octets("credential_blob"))
    key = certification.verify_attestation_key(case.octets("ak_public"))
    issued = hashlib.sha256(case.octets("secret_issued")).hexdigest().encode()
    certification.verify_activation(key, case.octets("ak_name"), issued, case.octets("secret_returned"))
    return key


def certified(case: Case, kind: int = attest.CERTIFY) -> None:
    key = certification.verify_attestation_key(case.octets("ak_public"))
    plain = case.octets("signature_plain")
    said = certification.verify_signed(
        key,
        case.octets("attest"),
        plain or case.octets("signature_tss"),
        plain=bool(plain),
        expected=kind,
        extra_data=hashlib.sha256(case.nonce + case.spki).digest(),
    )
    certification.verify_key(said, case.octets("key_public"), case.spki, case.octets("creation_data"))


def quoted(case: Case, prefix: str = "") -> Measured:
    key = certification.verify_attestation_key(case.octets("ak_public"))
    name = "quote_" if prefix else ""
    plain = case.octets(f"{name}signature_plain")
    said = certification.verify_signed(
        key,
        case.octets(f"{name}attest"),
        plain or case.octets(f"{name}signature_tss"),
        plain=bool(plain),
        expected=attest.QUOTE,
        extra_data=case.nonce,
        prefix=prefix,
    )
    stored = case.given.get("stored_clock")
    measured = measurement.verify_measurement(
        said, key, case.given["pcrs"], case.octets("event_log"), stored=_clock(stored) if stored else None
    )
    measurement.verify_policy(measured, policy_of(case.given["policy"]))
    return measured


def _clock(stored: dict[str, Any]) -> ClockInfo:
    told = {name.replace("_", "").lower(): value for name, value in stored.items()}
    return ClockInfo(told["resetcount"], told["restartcount"], told["clock"], bool(told.get("safe", True)))


def enrolled(case: Case) -> None:
    endorsed(case)
    activated(case)
    certified(case)
    if case.octets("quote_attest"):
        quoted(case, "quote-")


_RULES: dict[str, Callable[[Case], object]] = {
    "tpm-ek": endorsed,
    "tpm-activate": activated,
    "tpm-certify": certified,
    "tpm-creation": lambda case: certified(case, attest.CREATION),
    "tpm-quote": quoted,
    "tpm-enroll": enrolled,
}


@pytest.mark.parametrize("case", evidence_cases.of(*_RULES))
def test_evidence(case: Case) -> None:
    case.judge(lambda: _RULES[case.kind](case))


WORKED = [case for case in CASES if case["area"] == "attest-tpm"]
# Steps by what is wrong with it, in our words.
_QUOTE_STEPS = {"nonce": "extra-data"}


@pytest.mark.parametrize("row", [row for row in WORKED if row["when"] == "verify quote"], ids=lambda row: row["id"])
def test_worked_quotes(row: dict[str, Any]) -> None:
    given = {name[:-4]: bytes.fromhex(text) for name, text in row["given"].items() if name.endswith("_hex")}

    def rule() -> None:
        key = certification.verify_attestation_key(sized(given["ak_public"]))
        said = certification.verify_signed(
            key, given["attest"], given["signature"], plain=False, expected=attest.QUOTE, extra_data=given["nonce"]
        )
        measured = measurement.verify_measurement(said, key, {"sha256": row["given"]["pcrs"]}, b"")
        measurement.verify_policy(measured, Policy(banks=(0x000B,), pcrs=tuple(row["given"]["required"])))

    if row["then"]["ok"]:
        rule()
        return
    with pytest.raises(RefusedEvidenceError) as caught:
        rule()
    assert caught.value.step == _QUOTE_STEPS.get(row["then"]["why"], caught.value.step)


@pytest.mark.parametrize("row", [row for row in WORKED if row["when"] == "trust EK"], ids=lambda row: row["id"])
def test_worked_endorsements(row: dict[str, Any]) -> None:
    """The key in the case has no public area, so one stands for it whose hash is known."""
    given = row["given"]
    assert given["ek_cert"] == "absent"
    public = evidence_cases.named("ev-tpm-activate-005").octets("ek_public")
    stand_in = hashlib.sha256(public[2:]).hexdigest()
    allowed = frozenset(stand_in if each == given["ek_pub_sha256"] else each for each in given["allow_list"])
    trust = Trust(roots=TrustAnchors([]), allowed=allowed)
    if row["then"]["ok"]:
        assert endorsement.verify_endorsement(public, b"", (), trust, now=NOW).ek_hash == stand_in
        return
    with pytest.raises(RefusedEvidenceError) as caught:
        endorsement.verify_endorsement(public, b"", (), trust, now=NOW)
    assert caught.value.step == "ek-allow-list"


def test_a_worked_index() -> None:
    """``10 01 00 03 a2``, 930 bytes, and ones to the end of the index."""
    row = next(row for row in WORKED if row["when"] == "read EK certificate")
    assert row["given"]["nv_bytes"] == "10 01 00 03 a2 then 930 bytes DER then ff padding"
    contents = b"\x30\x82\x03\x9e" + bytes(926)
    assert ek_certificate.from_nv(bytes.fromhex("10010003a2") + contents + b"\xff" * 100) == contents


def test_every_worked_case_is_played_somewhere() -> None:
    elsewhere = {
        "verify key certification": "test_certification.py",
        "make credential id object from seed": "test_credential.py",
        "KDFa SHA-256": "test_credential.py",
        "answer challenge": "test_challenges.py",
    }
    here = {"verify quote", "trust EK", "read EK certificate"}
    assert {row["when"] for row in WORKED} == here | set(elsewhere)
    tests = {path.name for path in Path(__file__).parents[2].rglob("test_*.py")}
    assert set(elsewhere.values()) <= tests


def test_all_that_the_log_of_a_good_quote_says() -> None:
    measured = quoted(evidence_cases.named("ev-tpm-quote-003"))
    assert measured.log is not None
    assert measured.log.secure_boot is True
