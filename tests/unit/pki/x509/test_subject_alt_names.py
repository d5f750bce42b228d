from __future__ import annotations

import ipaddress

import pytest

from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import der, subject_alt_names
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames

V4 = ipaddress.ip_address("192.0.2.17")
V6 = ipaddress.ip_address("2001:db8::17")


def value(*names: tuple[int, bytes]) -> bytes:
    return der.encode(der.SEQUENCE, *(der.encode(tag, raw) for tag, raw in names))


def test_names_are_sorted_into_kinds() -> None:
    mapped = b"\0" * 10 + b"\xff\xff" + V4.packed
    parsed = subject_alt_names.parse(
        value(
            (0x86, b"SPIFFE://t/x"),
            (0x87, mapped),
            (0x82, b"Not A Name"),
            (0x81, b"a@b"),
            (0x82, b""),
            (0x87, V6.packed),
        )
    )
    assert parsed == SubjectAltNames(
        dns_names=("Not A Name", ""), email_addresses=("a@b",), ip_addresses=(V4, V6), uris=("spiffe://t/x",)
    )
    assert parsed


def test_other_kinds_are_invisible() -> None:
    parsed = subject_alt_names.parse(
        value((0xA0, b"\x06\x01\x2a"), (0xA4, b""), (0x88, b"\x2a"), (0x02, b"x")) + b"junk"
    )
    assert parsed == subject_alt_names.NONE
    assert not parsed


@pytest.mark.parametrize(
    ("octets", "text"),
    [
        (b"", "x509: invalid subject alternative names"),
        (b"\x31\x00", "x509: invalid subject alternative names"),
        (b"\x30\x02\x82\x05", "x509: invalid subject alternative name"),
        (b"\x30\x03\x9f\x20\x00", "x509: invalid subject alternative name"),
        (value((0x82, b"\xe9")), "x509: SAN dNSName is malformed"),
        (value((0x81, b"\xe9")), "x509: SAN rfc822Name is malformed"),
        (value((0x86, b"\xe9")), "x509: SAN uniformResourceIdentifier is malformed"),
        (value((0x87, b"123")), "x509: cannot parse IP address of length 3"),
        (value((0x86, b"https://-.example..com/")), 'x509: cannot parse URI "https://-.example..com/": invalid domain'),
        (value((0x86, b"http://h./")), 'x509: cannot parse URI "http://h./": invalid domain'),
        (value((0x86, b":")), 'x509: cannot parse URI ":": parse ":": missing protocol scheme'),
    ],
)
def test_refusals(octets: bytes, text: str) -> None:
    with pytest.raises(ParseError) as refusal:
        subject_alt_names.parse(octets)
    assert str(refusal.value) == text


def test_encoding_keeps_the_order_within_kinds() -> None:
    names = SubjectAltNames(dns_names=("b", "a"), email_addresses=("a@b",), ip_addresses=(V6, V4), uris=("urn:x",))
    assert subject_alt_names.parse(names.encode()) == names
    assert names.encode().index(b"b") < names.encode().index(b"a@b") < names.encode().index(V6.packed)


def test_a_name_that_is_not_ascii_cannot_be_written() -> None:
    with pytest.raises(ValueError):
        SubjectAltNames(dns_names=("é",)).encode()


def test_canonical() -> None:
    assert subject_alt_names.canonical(ipaddress.ip_address("::ffff:192.0.2.17")) == V4
    assert subject_alt_names.canonical(V6) == V6
    assert subject_alt_names.canonical(V4) == V4
