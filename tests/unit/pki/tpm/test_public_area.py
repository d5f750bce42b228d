from __future__ import annotations

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

import evidence_cases
from kubevouch.pki.errors import StructureError
from kubevouch.pki.tpm import algorithms, public_area
from kubevouch.pki.tpm.marshalling import sized, u16
from kubevouch.pki.tpm.public_area import RESIDENT, Attributes

_NODE = Path(evidence_cases.FOLDER).parent / "node.jsonl"
PUBLICS = sorted(
    {
        case.octets(name)
        for case in evidence_cases.everything()
        for name in ("ek_public", "ak_public", "key_public")
        if case.octets(name)
    }
)


def test_what_tpms_wrote_is_written_again_as_it_came() -> None:
    assert len(PUBLICS) > 12
    for octets in PUBLICS:
        read = public_area.parse(octets)
        assert read.encode() == octets
        assert public_area.parse_area(octets[2:]) == read
        assert isinstance(read.key(), rsa.RSAPublicKey if read.type == algorithms.RSA else ec.EllipticCurvePublicKey)


def test_names_are_those_that_the_tpm_gave() -> None:
    named = [case for case in evidence_cases.everything() if case.octets("ak_name") and case.octets("ak_public")]
    assert named
    for case in named:
        assert public_area.parse(case.octets("ak_public")).name() == case.octets("ak_name")


@pytest.mark.parametrize("identifier", ["fx-tpm-ak", "fx-tpm-kubelet-key"])
def test_names_of_the_worked_vectors(identifier: str) -> None:
    row = next(row for row in map(json.loads, _NODE.read_text().splitlines()) if row["id"] == identifier)
    read = public_area.parse_area(bytes.fromhex(row["given"]["tpmt_public_hex"]))
    assert read.attributes == int(row["given"]["attributes"], 16)
    if "name_hex" in row["then"]:
        assert read.name().hex() == row["then"]["name_hex"]


def test_kinds_have_the_names_that_people_know() -> None:
    assert {public_area.parse(each).kind for each in PUBLICS} == {"RSA-2048", "ECC-P256", "ECC-P384"}


def test_attributes_are_those_of_the_tools() -> None:
    ak = public_area.parse(evidence_cases.named("ev-tpm-certify-008").octets("ak_public"))
    assert ak.attributes == 0x00050072
    assert ak.has(RESIDENT | Attributes.RESTRICTED | Attributes.SIGN)
    assert not ak.has(Attributes.DECRYPT)


@pytest.mark.parametrize("octets", PUBLICS[:4], ids=len)
def test_cut_off_or_longer_is_refused(octets: bytes) -> None:
    area = octets[2:]
    for length in range(len(area)):
        with pytest.raises(StructureError):
            public_area.parse_area(area[:length])
    with pytest.raises(StructureError):
        public_area.parse_area(area + b"\0")
    with pytest.raises(StructureError):
        public_area.parse(sized(area) + b"\0")


def _changed(octets: bytes, at: int, value: bytes) -> bytes:
    return octets[:at] + value + octets[at + len(value) :]


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (0, u16(8), "object of type 0008"),
        (8, b"\xff\xff", "got a size of 65535 at 8, expected at most 64"),
        (10, u16(0x000A), "symmetric algorithm 000a"),
        (12, u16(0x0001), "scheme 0001"),
        (12, u16(algorithms.ECDAA), "ECDAA"),
        (18, u16(0x0018), "scheme 0018"),
        (20, b"\xff\xff", "got a size of 65535 at 20"),
    ],
)
def test_a_field_that_no_key_has_is_refused(at: int, value: bytes, message: str) -> None:
    area = evidence_cases.named("ev-tpm-certify-006").octets("ak_public")[2:]
    with pytest.raises(StructureError, match=message):
        public_area.parse_area(_changed(area, at, value))


def test_a_modulus_has_the_size_that_is_told() -> None:
    area = evidence_cases.named("ev-tpm-certify-008").octets("ak_public")[2:]
    for at, value in ((16, u16(1024)), (24, b"\x7f")):
        with pytest.raises(StructureError, match="got a modulus"):
            public_area.parse_area(_changed(area, at, value))


def test_a_point_beside_its_curve_is_no_key() -> None:
    area = evidence_cases.named("ev-tpm-certify-006").octets("ak_public")[2:]
    beside = public_area.parse_area(_changed(area, len(area) - 1, bytes((area[-1] ^ 1,))))
    with pytest.raises(StructureError, match="no usable key"):
        beside.key()


def test_an_even_modulus_is_no_key() -> None:
    """OpenSSL takes it and fails when it is used."""
    area = evidence_cases.named("ev-tpm-certify-008").octets("ak_public")[2:]
    with pytest.raises(StructureError, match="an even modulus"):
        public_area.parse_area(area[:-1] + bytes((area[-1] & 0xFE,))).key()


def test_a_curve_that_is_not_known_is_no_key() -> None:
    area = evidence_cases.named("ev-tpm-certify-006").octets("ak_public")[2:]
    other = public_area.parse_area(_changed(area, 16, u16(0x0010)))
    assert other.kind == "ECC-0010"
    with pytest.raises(StructureError, match="got curve 0010"):
        other.key()


def test_a_name_rests_on_no_weak_hash() -> None:
    area = evidence_cases.named("ev-tpm-certify-006").octets("ak_public")[2:]
    with pytest.raises(StructureError, match="0004"):
        public_area.parse_area(_changed(area, 2, u16(algorithms.SHA1))).name()


def test_a_bomb_is_not_looked_at() -> None:
    with pytest.raises(StructureError, match="expected at most 1024"):
        public_area.parse_area(bytes(1 << 16))
