from __future__ import annotations

import pytest

from kubevouch.pki.errors import DERError
from kubevouch.pki.x509 import der


def refusal(octets: str, tag: int = der.SEQUENCE) -> str:
    data = bytes.fromhex(octets)
    with pytest.raises(DERError) as raised:
        der.expect(data, 0, len(data), tag, 0, "thing")
    return str(raised.value)


@pytest.mark.parametrize(
    ("octets", "text"),
    [
        ("", "asn1: syntax error: sequence truncated"),
        ("30", "asn1: syntax error: truncated tag or length"),
        ("3005", "asn1: syntax error: data truncated"),
        ("3080", "asn1: syntax error: indefinite length found (not DER)"),
        ("308200", "asn1: structure error: superfluous leading zeros in length"),
        ("3082", "asn1: syntax error: truncated tag or length"),
        ("30817f", "asn1: structure error: non-minimal length"),
        ("308580000000ff", "asn1: structure error: length too large"),
        ("3f1e00", "asn1: syntax error: non-minimal tag"),
        ("3f80", "asn1: syntax error: integer is not minimally encoded"),
        ("3fff", "asn1: syntax error: truncated base 128 integer"),
        ("3fffffffffff01", "asn1: structure error: base 128 integer too large"),
        ("3fffffffffff", "asn1: syntax error: truncated base 128 integer"),
        ("3f9fffffff7f00", "asn1: structure error: base 128 integer too large"),
        ("3f8100", "asn1: syntax error: truncated tag or length"),
    ],
)
def test_malformed_headers(octets: str, text: str) -> None:
    assert refusal(octets) == text


def test_a_mismatch_tells_what_go_tells() -> None:
    assert refusal("0201ff").startswith(
        "asn1: structure error: tags don't match (16 vs {class:0 tag:2 length:1 isCompound:false}) {optional:false "
    )
    assert refusal("0201ff").endswith("omitEmpty:false} thing @2")
    assert "{class:2 tag:40 length:0 isCompound:true}" in refusal("bf2800")


def test_long_lengths_and_high_tags() -> None:
    data = bytes.fromhex("308180") + b"\0" * 128
    assert der.expect(data, 0, len(data), der.SEQUENCE) == (3, 131)
    tag, start, stop = der.element(b"\x5f\x81\x01\x01z", 0, 5)
    assert (tag > 0xFF, start, stop) == (True, 4, 5)


def test_element_must_end_inside() -> None:
    with pytest.raises(DERError, match="data truncated"):
        der.element(b"\x04\x02z", 0, 3)


def test_elements() -> None:
    assert der.elements(b"\x05\x00\x04\x01z", 0, 5, None) == [(0, 2, 2), (2, 4, 5)]
    with pytest.raises(DERError, match="sequence tag mismatch"):
        der.elements(b"\x05\x00\x04\x01z", 0, 5, der.NULL)
    with pytest.raises(DERError, match="truncated sequence"):
        der.elements(b"\x05\x01", 0, 2, der.NULL)


@pytest.mark.parametrize(("octets", "value"), [("00", 0), ("7f", 127), ("80", -128), ("0080", 128), ("ff7f", -129)])
def test_integers(octets: str, value: int) -> None:
    assert der.integer(bytes.fromhex(octets)) == value
    assert der.encode_integer(value) == der.encode(der.INTEGER, bytes.fromhex(octets))


@pytest.mark.parametrize(
    ("octets", "text"), [("", "empty integer"), ("007f", "not minimally"), ("ff80", "not minimally")]
)
def test_malformed_integers(octets: str, text: str) -> None:
    with pytest.raises(DERError, match=text):
        der.integer(bytes.fromhex(octets))


def test_int64() -> None:
    assert der.int64(b"\x7f" * 8) == 0x7F7F7F7F7F7F7F7F
    with pytest.raises(DERError, match="integer too large"):
        der.int64(b"\x7f" * 9)


def test_boolean() -> None:
    assert der.boolean(b"\xff") is True
    assert der.boolean(b"\0") is False
    for contents in (b"\x01", b"", b"\xff\xff"):
        with pytest.raises(DERError, match="invalid boolean"):
            der.boolean(contents)


def test_bit_strings() -> None:
    assert der.bit_string(b"\x05\xa0") == (b"\xa0", 5)
    assert der.right_aligned(b"\x05\xa0") == b"\x05"
    assert der.right_aligned(b"\x00ab") == b"ab"
    assert der.bit_string(b"\0") == (b"", 0)
    for contents in (b"\x08\0", b"\x01", b"\x01\x01"):
        with pytest.raises(DERError, match="invalid padding bits"):
            der.bit_string(contents)
    with pytest.raises(DERError, match="zero length BIT STRING"):
        der.bit_string(b"")


@pytest.mark.parametrize("dotted", ["0.0", "1.39", "2.5.29.37.0", "2.999.1", "1.3.6.1.4.1.57683.2", "2.47.2147483647"])
def test_object_identifiers(dotted: str) -> None:
    encoded = der.encode_object_identifier(dotted)
    assert der.object_identifier(encoded[2:]) == dotted


@pytest.mark.parametrize("dotted", ["1", "3.1", "1.40", "2.-1", "a.b"])
def test_no_object_identifiers(dotted: str) -> None:
    with pytest.raises(ValueError):
        der.encode_object_identifier(dotted)


def test_an_empty_object_identifier_is_refused() -> None:
    with pytest.raises(DERError, match="zero length OBJECT IDENTIFIER"):
        der.object_identifier(b"")


@pytest.mark.parametrize(
    ("bits", "octets"),
    [((0, 2), "030205a0"), ((0,), "03020780"), (range(9), "030307ff80"), ((5, 6), "03020106"), ((), "030100")],
)
def test_named_bits(bits: tuple[int, ...], octets: str) -> None:
    assert der.encode_named_bits(bits).hex() == octets


def test_encode() -> None:
    assert der.encode(der.OCTET_STRING, b"a", b"b") == b"\x04\x02ab"
    assert der.encode(der.OCTET_STRING) == b"\x04\x00"
    assert der.encode(der.OCTET_STRING, b"x" * 200)[:3] == b"\x04\x81\xc8"
    assert der.encode(der.OCTET_STRING, b"x" * 300)[:4] == b"\x04\x82\x01\x2c"
    assert der.encode_bit_string(b"z") == b"\x03\x02\x00z"
    assert der.encode_set([b"b", b"a", b"a"]) == b"\x31\x03aab"
