from __future__ import annotations

import pytest

from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import der, subject
from kubevouch.pki.x509.subject import Subject

CN, ORG, UID = subject.COMMON_NAME, subject.ORGANIZATION, subject.USER_UID


def atav(oid: str, tag: int, value: bytes) -> bytes:
    return der.encode(der.SEQUENCE, der.encode_object_identifier(oid), der.encode(tag, value))


def name(*rdns: bytes) -> bytes:
    return der.encode(der.SEQUENCE, *(der.encode(der.SET, rdn) for rdn in rdns))


def requested(octets: bytes) -> Subject:
    return subject.parse_requested(octets, 0, len(octets))


def test_the_last_common_name_counts_and_every_organization() -> None:
    octets = name(
        atav(CN, der.UTF8_STRING, b"first") + atav(ORG, der.UTF8_STRING, b"a"),
        atav(ORG, der.PRINTABLE_STRING, b"b"),
        atav(UID, der.UTF8_STRING, b"u"),
        atav(CN, der.UTF8_STRING, b"last"),
        b"",
    )
    for parsed in (requested(octets), subject.parse_certified(octets)):
        assert parsed.common_name == "last"
        assert parsed.organizations == ("a", "b")
        assert parsed.values(UID) == ["u"]


def test_the_last_common_name_counts_even_when_it_is_empty() -> None:
    octets = name(atav(CN, der.UTF8_STRING, b"first"), atav(CN, der.UTF8_STRING, b""))
    assert requested(octets).common_name == ""


@pytest.mark.parametrize(
    ("tag", "raw", "value"),
    [
        (der.UTF8_STRING, "é☃".encode(), "é☃"),
        (der.PRINTABLE_STRING, b"a*b&c", "a*b&c"),
        (der.NUMERIC_STRING, b"12 3", "12 3"),
        (der.T61_STRING, b"\xe9", "é"),
        (der.IA5_STRING, b"a@b", "a@b"),
        (der.BMP_STRING, b"\x00a\x26\x03", "a☃"),
        (der.BMP_STRING, b"\x00a\x00\x00", "a"),
        (der.BMP_STRING, b"", ""),
    ],
)
def test_strings(tag: int, raw: bytes, value: str) -> None:
    octets = name(atav(CN, tag, raw))
    assert requested(octets).common_name == value
    assert subject.parse_certified(octets).common_name == value


@pytest.mark.parametrize(
    ("tag", "raw", "in_request", "in_certificate"),
    [
        (der.UTF8_STRING, b"\xff", "asn1: invalid UTF-8 string", "invalid UTF-8 string"),
        (der.UTF8_STRING, b"\xed\xa0\x80", "asn1: invalid UTF-8 string", "invalid UTF-8 string"),
        (
            der.PRINTABLE_STRING, b"@", "asn1: syntax error: PrintableString contains invalid character",
            "invalid PrintableString",
        ),
        (
            der.NUMERIC_STRING, b"x", "asn1: syntax error: NumericString contains invalid character",
            "invalid NumericString",
        ),
        (der.IA5_STRING, b"\x80", "asn1: syntax error: IA5String contains invalid character", "invalid IA5String"),
        (der.BMP_STRING, b"a", "invalid BMPString", "invalid BMPString"),
        (der.BMP_STRING, b"\xd8\x00", "invalid BMPString", "invalid BMPString"),
        (der.BMP_STRING, b"\xfd\xd0", "invalid BMPString", "invalid BMPString"),
        (der.BMP_STRING, b"\xff\xfe", "invalid BMPString", "invalid BMPString"),
    ],
)  # fmt: skip
def test_malformed_strings(tag: int, raw: bytes, in_request: str, in_certificate: str) -> None:
    octets = name(atav(CN, tag, raw))
    with pytest.raises(ParseError) as refusal:
        requested(octets)
    assert str(refusal.value) == in_request
    with pytest.raises(ParseError) as refusal:
        subject.parse_certified(octets)
    assert str(refusal.value) == f"x509: invalid RDNSequence: invalid attribute value: {in_certificate}"


@pytest.mark.parametrize(
    ("tag", "raw"),
    [
        (der.BOOLEAN, b"\xff"), (der.INTEGER, b"\x07"), (der.BIT_STRING, b"\x00"), (der.OBJECT_IDENTIFIER, b"\x2a"),
        (der.UTC_TIME, b"310301120000Z"), (der.GENERALIZED_TIME, b"20310301120000.5Z"), (der.OCTET_STRING, b"\xff"),
        (0x1A, b"VisibleString"), (der.SEQUENCE, b""), (0x80, b"context"),
    ],
)  # fmt: skip
def test_in_a_request_a_value_that_is_no_string_counts_as_absent(tag: int, raw: bytes) -> None:
    octets = name(atav(CN, tag, raw), atav(ORG, der.UTF8_STRING, b"o"))
    parsed = requested(octets)
    assert parsed.common_name == ""
    assert parsed.attributes == ((CN, None), (ORG, "o"))
    assert parsed.values(CN) == []
    with pytest.raises(ParseError, match=f"unsupported string type: {tag}"):
        subject.parse_certified(octets)


@pytest.mark.parametrize(
    ("tag", "raw"),
    [
        (der.BOOLEAN, b"\x07"), (der.INTEGER, b""), (der.INTEGER, b"\x01" * 9), (der.BIT_STRING, b""),
        (der.OBJECT_IDENTIFIER, b""), (der.UTC_TIME, b"x"), (der.GENERALIZED_TIME, b"x"),
    ],
)  # fmt: skip
def test_but_such_a_value_must_be_well_formed(tag: int, raw: bytes) -> None:
    with pytest.raises(ParseError):
        requested(name(atav(CN, tag, raw)))


@pytest.mark.parametrize(
    ("octets", "where"),
    [
        ("3100", ""),
        ("30020500", ""),
        ("300431020500", ": invalid attribute"),
        ("3006310430020500", ": invalid attribute type"),
        ("3007310530030603ff", ": invalid attribute type"),
        ("30043102300a", ": invalid attribute"),
        ("30093107300506032a80ff", ": invalid attribute type"),
        ("3009310730050603550403", ": invalid attribute value"),
        ("300d310b30090603550403" + "1f800161", ": invalid attribute value"),
        ("300c310a300806035504031f2000", ": invalid attribute value"),
    ],
)
def test_malformed_names_of_certificates(octets: str, where: str) -> None:
    with pytest.raises(ParseError) as refusal:
        subject.parse_certified(bytes.fromhex(octets))
    assert str(refusal.value) == f"x509: invalid RDNSequence{where}"


def test_a_long_name_is_parsed_without_being_remembered() -> None:
    octets = name(atav(CN, der.UTF8_STRING, b"x" * 2000))
    assert subject.parse_certified(octets).common_name == "x" * 2000


def test_trailing_octets_behind_a_requested_name() -> None:
    octets = name() + b"\x05\x00"
    with pytest.raises(ParseError, match=r"trailing data after X\.509 Subject"):
        requested(octets)


def test_encoding_in_fixed_order_with_one_rdn_per_type() -> None:
    made = Subject(
        common_name="cn", serial_number="s", countries=("XX",), provinces=("p",), localities=("l",),
        street_addresses=("st",), postal_codes=("1",), organizations=("b", "a"), organizational_units=("u",),
    )  # fmt: skip
    parsed = subject.parse_certified(made.encode())
    order = [oid for oid, _ in parsed.attributes]
    assert order == [
        subject.COUNTRY, subject.PROVINCE, subject.LOCALITY, subject.STREET_ADDRESS, subject.POSTAL_CODE,
        subject.ORGANIZATION, subject.ORGANIZATION, subject.ORGANIZATIONAL_UNIT, CN, subject.SERIAL_NUMBER,
    ]  # fmt: skip
    assert parsed.organizations == ("a", "b")


def test_what_is_printable_is_written_so_and_the_rest_is_utf8() -> None:
    octets = Subject(common_name="system:node:n1", organizations=("a@b", "a*b", "a&b", "a_b")).encode()
    assert b"\x13\x0esystem:node:n1" in octets
    for value in (b"a@b", b"a*b", b"a&b", b"a_b"):
        assert b"\x0c\x03" + value in octets


def test_an_empty_subject_is_an_empty_sequence() -> None:
    assert Subject().encode() == b"\x30\x00"
    assert requested(b"\x30\x00") == Subject()
