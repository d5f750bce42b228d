from __future__ import annotations

import hashlib

import pytest

import evidence_cases
from kubevouch.pki.errors import StructureError
from kubevouch.pki.tpm import attest, public_area
from kubevouch.pki.tpm.marshalling import sized, u16

_CERTIFY = evidence_cases.named("ev-tpm-certify-008").octets("attest")
_QUOTE = evidence_cases.named("ev-tpm-quote-003").octets("attest")
_CREATION = evidence_cases.named("ev-tpm-creation-003")


def test_a_certification_says_which_key_it_is_about() -> None:
    case = evidence_cases.named("ev-tpm-certify-008")
    said = attest.parse(_CERTIFY, attest.CERTIFY)
    assert (said.magic, said.type, said.has_body) == (attest.GENERATED, attest.CERTIFY, True)
    assert said.name == public_area.parse(case.octets("key_public")).name()
    assert said.extra_data == hashlib.sha256(case.nonce + case.spki).digest()
    assert said.clock.moment[:2] == (2, 0)


def test_a_long_name_moves_what_stands_behind_it() -> None:
    case = evidence_cases.named("ev-tpm-certify-011")
    said = attest.parse(case.octets("attest"), attest.CERTIFY)
    assert len(said.qualified_signer) == 50
    assert said.name == public_area.parse(case.octets("key_public")).name()


def test_a_quote_says_which_registers() -> None:
    said = attest.parse(_QUOTE, attest.QUOTE)
    assert [each.pcrs for each in said.selections] == [tuple(range(8))]
    assert len(said.pcr_digest) == 32


def test_a_creation_names_the_hash_of_its_data() -> None:
    said = attest.parse(_CREATION.octets("attest"), attest.CREATION)
    assert said.creation_hash == hashlib.sha256(attest.creation_data(_CREATION.octets("creation_data"))).digest()


def test_the_body_of_another_type_is_not_read() -> None:
    said = attest.parse(_QUOTE, attest.CERTIFY)
    assert (said.type, said.has_body, said.name) == (attest.QUOTE, False, b"")


@pytest.mark.parametrize(
    ("octets", "kind"),
    [(_CERTIFY, attest.CERTIFY), (_QUOTE, attest.QUOTE), (_CREATION.octets("attest"), attest.CREATION)],
    ids=["certify", "quote", "creation"],
)
def test_cut_off_or_longer_is_refused(octets: bytes, kind: int) -> None:
    for length in range(len(octets)):
        with pytest.raises(StructureError):
            attest.parse(octets[:length], kind)
    with pytest.raises(StructureError, match="1 bytes behind the end"):
        attest.parse(octets + b"\0", kind)


def test_bombs_are_not_looked_at() -> None:
    with pytest.raises(StructureError, match="expected at most 2048"):
        attest.parse(_CERTIFY + bytes(4096), attest.CERTIFY)
    with pytest.raises(StructureError, match="got a size of 65535"):
        attest.parse(_CERTIFY[:42] + b"\xff\xff" + _CERTIFY[44:], attest.CERTIFY)


def test_creation_data_is_read_to_its_end() -> None:
    octets = _CREATION.octets("creation_data")
    contents = attest.creation_data(octets)
    assert u16(len(contents)) + contents == octets
    for length in range(len(contents)):
        with pytest.raises(StructureError):
            attest.creation_data(sized(contents[:length]))
    with pytest.raises(StructureError):
        attest.creation_data(sized(contents + b"\0"))
