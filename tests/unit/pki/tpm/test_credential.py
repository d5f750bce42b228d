from __future__ import annotations

import json
import secrets

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key

import evidence_cases
from kubevouch.attestation.interface import RefusedEvidenceError
from kubevouch.pki.errors import StructureError
from kubevouch.pki.tpm import algorithms, credential, public_area
from kubevouch.pki.tpm.public_area import Public
from opened_credentials import opened

_ROWS = {
    row["id"]: row for row in map(json.loads, (evidence_cases.FOLDER.parent / "node.jsonl").read_text().splitlines())
}
_NAME = b"\x00\x0b" + bytes(32)
_SECRET = bytes(range(32))
Private = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


def _private(case: evidence_cases.Case) -> Private:
    private = load_pem_private_key(case.text("ek_private_pem").encode(), None)
    assert isinstance(private, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey)
    return private


_RSA = _private(evidence_cases.named("ev-tpm-credential-001"))


def test_derived_as_the_worked_vector() -> None:
    given, then = _ROWS["attest-tpm-018"]["given"], _ROWS["attest-tpm-018"]["then"]
    sha256 = algorithms.HASHES[algorithms.SHA256]
    key, label = bytes.fromhex(given["key_hex"]), given["label"].encode() + b"\0"
    party = bytes.fromhex(given["u_hex"])
    assert credential.kdfa(sha256, key, label, party, b"", given["bits"]).hex() == then["hex"]
    assert (
        credential.kdfa(sha256, key, b"INTEGRITY\0", b"", b"", 256).hex()
        == "9d0eee85ba906b4eb5a28628d1406fc399e7de87d400e0bc42d7c44617498077"
    )


def test_the_object_of_the_worked_vector() -> None:
    given, then = _ROWS["attest-tpm-017"]["given"], _ROWS["attest-tpm-017"]["then"]
    seed, name, secret = (bytes.fromhex(given[each]) for each in ("seed_hex", "ak_name_hex", "secret_hex"))
    made = credential.id_object(seed, name, secret, algorithms.HASHES[algorithms.SHA256], 128)
    # The vector has it as a TPM2B.
    assert len(made).to_bytes(2, "big").hex() + made.hex() == then["id_object_hex"]


@pytest.mark.parametrize("case", evidence_cases.of("tpm-credential"))
def test_blobs_of_the_tools_open(case: evidence_cases.Case) -> None:
    private = _private(case)
    digest = algorithms.HASHES[public_area.parse(case.octets("ek_public")).name_algorithm]
    bits = public_area.parse(case.octets("ek_public")).symmetric[1]

    def rule() -> None:
        try:
            blob = credential.parse_file(case.octets("credential_blob"))
        except StructureError as err:
            raise RefusedEvidenceError("structure", str(err)) from err
        assert opened(blob, private, case.octets("ak_name"), digest.name, bits) == case.octets("secret")

    case.judge(rule)


def _endorsement_key(private: Private, name_algorithm: int, bits: int) -> Public:
    symmetric = (algorithms.AES, bits, algorithms.CFB)
    if isinstance(private, rsa.RSAPrivateKey):
        modulus = private.public_key().public_numbers().n.to_bytes(256, "big")
        return Public(
            type=algorithms.RSA, name_algorithm=name_algorithm, attributes=0, symmetric=symmetric, bits=2048,
            unique=(modulus,),
        )  # fmt: skip
    numbers, size = private.public_key().public_numbers(), (private.curve.key_size + 7) // 8
    curve = next(identifier for identifier, each in algorithms.CURVES.items() if each.name == private.curve.name)
    return Public(
        type=algorithms.ECC, name_algorithm=name_algorithm, attributes=0, symmetric=symmetric, curve=curve,
        unique=(numbers.x.to_bytes(size, "big"), numbers.y.to_bytes(size, "big")),
    )  # fmt: skip


_KEYS: list[tuple[Private, int, int]] = [
    (_RSA, algorithms.SHA256, 128),
    (_RSA, algorithms.SHA384, 256),
    (ec.generate_private_key(ec.SECP256R1()), algorithms.SHA256, 128),
    (ec.generate_private_key(ec.SECP384R1()), algorithms.SHA384, 256),
    (ec.generate_private_key(ec.SECP521R1()), algorithms.SHA512, 256),
]


@pytest.mark.parametrize(("private", "name_algorithm", "bits"), _KEYS)
def test_what_is_made_opens_for_its_key_and_its_name_only(private: Private, name_algorithm: int, bits: int) -> None:
    key = _endorsement_key(private, name_algorithm, bits)
    digest = algorithms.HASHES[name_algorithm].name
    made = credential.parse_file(credential.make(key, _NAME, _SECRET, secrets.token_bytes).file())
    assert opened(made, private, _NAME, digest, bits) == _SECRET
    for changed, name in ((made, _NAME[:-1] + b"\1"), (_flipped(made), _NAME)):
        with pytest.raises(RefusedEvidenceError, match="integrity"):
            opened(changed, private, name, digest, bits)


def _flipped(made: credential.Credential) -> credential.Credential:
    last = made.id_object[-1] ^ 1
    return msgspec.structs.replace(made, id_object=made.id_object[:-1] + bytes((last,)))


def test_two_credentials_are_never_alike() -> None:
    key = _endorsement_key(_KEYS[2][0], algorithms.SHA256, 128)
    made = {credential.make(key, _NAME, _SECRET, lambda count: bytes(count)).id_object for _ in range(3)}
    assert len(made) == 3


@pytest.mark.parametrize(
    "symmetric", [(0, 0, 0), (algorithms.AES, 64, algorithms.CFB), (algorithms.AES, 128, 0x44), (0x13, 128, 0x43)]
)
def test_a_key_that_protects_nothing_gets_no_credential(symmetric: tuple[int, int, int]) -> None:
    key = msgspec.structs.replace(_endorsement_key(_RSA, algorithms.SHA256, 128), symmetric=symmetric)
    with pytest.raises(StructureError, match="expected AES in CFB"):
        credential.make(key, _NAME, _SECRET, secrets.token_bytes)


def test_no_credential_rests_on_a_weak_hash() -> None:
    with pytest.raises(StructureError, match="0004"):
        credential.make(_endorsement_key(_RSA, algorithms.SHA1, 128), _NAME, _SECRET, secrets.token_bytes)


def test_files_that_are_refused() -> None:
    blob = evidence_cases.named("ev-tpm-credential-001").octets("credential_blob")
    for length in range(len(blob)):
        with pytest.raises(StructureError):
            credential.parse_file(blob[:length])
    with pytest.raises(StructureError):
        credential.parse_file(blob + b"\0")
    with pytest.raises(StructureError, match="expected badcc0de and version 1"):
        credential.parse_file(b"\0" + blob[1:])
