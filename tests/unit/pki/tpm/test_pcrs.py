from __future__ import annotations

import hashlib

import pytest

from kubevouch.pki.errors import StructureError
from kubevouch.pki.tpm import algorithms, pcrs
from kubevouch.pki.tpm.marshalling import Reader
from kubevouch.pki.tpm.pcrs import Selection

_BOTH = (Selection(algorithms.SHA1, (0, 7)), Selection(algorithms.SHA256, tuple(range(8))))


def _read(octets: bytes) -> tuple[Selection, ...]:
    return pcrs.read_selections(Reader(octets, "x"))


def test_selections_are_written_as_they_are_read() -> None:
    written = pcrs.encode_selections(_BOTH)
    assert written == bytes.fromhex("00000002 0004 03 810000 000b 03 ff0000")
    assert _read(written) == _BOTH


@pytest.mark.parametrize(
    ("octets", "message"),
    [
        ("00000011", "got 17 banks"),
        ("ffffffff", "got 4294967295 banks"),
        ("00000001 000b ff", "selection of 255 bytes"),
        ("00000002 000b 03 010000 000b 03 020000", "a bank twice"),
        ("00000002 000b 03 010000", "expected 2"),
    ],
)
def test_selections_that_are_refused(octets: str, message: str) -> None:
    with pytest.raises(StructureError, match=message):
        _read(bytes.fromhex(octets))


def test_the_digest_is_of_all_values_in_the_order_of_the_quote() -> None:
    values = {algorithms.SHA1: {0: b"a" * 20, 7: b"b" * 20}, algorithms.SHA256: {n: bytes((n,)) * 32 for n in range(8)}}
    joined = b"a" * 20 + b"b" * 20 + b"".join(bytes((n,)) * 32 for n in range(8))
    assert pcrs.digest(_BOTH, values, algorithms.SHA256) == hashlib.sha256(joined).digest()
    assert pcrs.digest(_BOTH, values, algorithms.SHA384) == hashlib.sha384(joined).digest()


def test_a_register_without_a_value_has_no_digest() -> None:
    with pytest.raises(StructureError, match="PCR 7 of bank 0004 was quoted and has no value"):
        pcrs.digest(_BOTH, {algorithms.SHA1: {0: b"a" * 20}}, algorithms.SHA256)


def test_values_are_read_as_people_write_them() -> None:
    assert pcrs.parse_values({"sha256": {"23": "00" * 32}}) == {algorithms.SHA256: {23: bytes(32)}}


@pytest.mark.parametrize(
    ("banks", "message"),
    [
        ({"md5": {}}, "got PCR bank 'md5'"),
        ({"sha256": {"24": "00" * 32}}, "got PCR '24'"),
        ({"sha256": {"-1": "00" * 32}}, "got PCR '-1'"),
        ({"sha256": {"07": "00" * 32}}, "got PCR '07'"),
        ({"sha256": {"٧": "00" * 32}}, "got PCR"),
        ({"sha256": {"7" * 5000: "00" * 32}}, "got PCR"),
        ({"sha256": {"7": "00" * 20}}, "got 20 bytes for PCR 7 of sha256, expected 32"),
        ({"sha256": {"7": "0g" * 32}}, "not hexadecimal"),
        ({"sha256": {"7": "00 " * 32}}, "expected 32"),
    ],
)
def test_values_that_are_refused(banks: dict[str, dict[str, str]], message: str) -> None:
    with pytest.raises(StructureError, match=message):
        pcrs.parse_values(banks)
