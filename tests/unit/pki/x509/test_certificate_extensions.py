from __future__ import annotations

import pytest

from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import certificate_extensions as ext
from kubevouch.pki.x509 import der
from kubevouch.pki.x509.certificate_extensions import Extension, Extensions


def seq(*parts: bytes) -> bytes:
    return der.encode(der.SEQUENCE, *parts)


def oid(dotted: str) -> bytes:
    return der.encode_object_identifier(dotted)


def read(dotted: str, value: bytes, *, critical: bool = False) -> Extensions:
    return ext.interpret((Extension(dotted, critical, value),))


def subtree(tag: int, raw: bytes) -> bytes:
    return seq(der.encode(tag, raw))


def constraints(permitted: bytes = b"", excluded: bytes | None = None) -> bytes:
    return seq(der.encode(0xA0, permitted), b"" if excluded is None else der.encode(0xA1, excluded))


def test_key_usage() -> None:
    assert read(ext.KEY_USAGE, bytes.fromhex("030307ff80")).key_usage == frozenset(range(9))
    assert read(ext.KEY_USAGE, bytes.fromhex("030205a0")).key_usage == {0, 2}
    assert read(ext.KEY_USAGE, bytes.fromhex("030100")).key_usage == frozenset()
    assert read(ext.KEY_USAGE, bytes.fromhex("03040000007f")).key_usage == frozenset()


def test_basic_constraints() -> None:
    assert read(ext.BASIC_CONSTRAINTS, seq()).has_basic_constraints
    found = read(ext.BASIC_CONSTRAINTS, seq(b"\x01\x01\xff", b"\x02\x01\x03"))
    assert (found.is_ca, found.max_path_length) == (True, 3)
    assert read(ext.BASIC_CONSTRAINTS, seq(b"\x01\x01\x00")).max_path_length is None


def test_identifiers_usages_and_names() -> None:
    assert read(ext.SUBJECT_KEY_ID, b"\x04\x02ab").subject_key_id == b"ab"
    assert read(ext.AUTHORITY_KEY_ID, seq(b"\x80\x02ab")).authority_key_id == b"ab"
    assert read(ext.AUTHORITY_KEY_ID, seq(b"\x81\x02ab")).authority_key_id == b""
    assert read(ext.EXTENDED_KEY_USAGE, seq(oid("1.2.3"), oid("1.2.4"))).extended_key_usages == ("1.2.3", "1.2.4")
    found = read(ext.SUBJECT_ALT_NAME, seq(b"\x82\x01d"), critical=True)
    assert (found.alt_names.dns_names, found.has_alt_names, found.unhandled_critical) == (("d",), True, ())


def test_critical_extensions_that_nobody_understands() -> None:
    assert read("1.2.3", b"", critical=True).unhandled_critical == ("1.2.3",)
    assert read("1.2.3", b"").unhandled_critical == ()
    assert read(ext.SUBJECT_ALT_NAME, seq(b"\xa4\x00"), critical=True).unhandled_critical == (ext.SUBJECT_ALT_NAME,)
    odd = constraints(subtree(0xA4, b""))
    assert read(ext.NAME_CONSTRAINTS, odd, critical=True).unhandled_critical == (ext.NAME_CONSTRAINTS,)


@pytest.mark.parametrize(
    ("dotted", "value"),
    [
        (ext.NAME_CONSTRAINTS, constraints(subtree(0x82, b".blue.test") + subtree(0x82, b""))),
        (ext.NAME_CONSTRAINTS, constraints(b"", subtree(0x87, bytes.fromhex("c0000200ffffff00")))),
        (ext.NAME_CONSTRAINTS, constraints(subtree(0x87, b"\0" * 32))),
        (ext.NAME_CONSTRAINTS, constraints(subtree(0x81, b"a.b@blue.test") + subtree(0x81, b"blue.test"))),
        (ext.NAME_CONSTRAINTS, constraints(subtree(0x86, b".blue.test"))),
        (ext.DISTRIBUTION_POINTS, seq(seq(b"\x81\x00"), seq(der.encode(0xA0, der.encode(0xA0, b"\x86\x01u\x82\x00"))))),
        (ext.DISTRIBUTION_POINTS, seq(seq(der.encode(0xA0, der.encode(0xA0, b"\x86\x01u"))))),
        (ext.POLICIES, seq(seq(oid("1.2.3")), seq(oid("1.2.4"), b"\x05\x00"))),
        (ext.POLICY_MAPPINGS, seq(seq(oid("1.2.3"), oid("1.2.4")))),
        (ext.POLICY_CONSTRAINTS, seq(b"\x80\x01\x00\x81\x01\x05")),
        (ext.POLICY_CONSTRAINTS, seq()),
        (ext.INHIBIT_ANY_POLICY, b"\x02\x01\x00"),
        (ext.AUTHORITY_INFO_ACCESS, seq(seq(oid("1.2.3"), b"\x86\x01u"), seq(oid("1.2.3"), b"\x82\x01d"))),
    ],
)
def test_what_is_read_only_to_be_judged(dotted: str, value: bytes) -> None:
    critical = dotted != ext.AUTHORITY_INFO_ACCESS
    assert read(dotted, value, critical=critical).unhandled_critical == ()


@pytest.mark.parametrize(
    ("dotted", "value", "text"),
    [
        (ext.KEY_USAGE, b"", "invalid key usage"),
        (ext.KEY_USAGE, b"\x03\x00", "invalid key usage"),
        (ext.BASIC_CONSTRAINTS, b"", "invalid basic constraints"),
        (ext.BASIC_CONSTRAINTS, seq(b"\x01\x01\x07"), "invalid basic constraints"),
        (ext.BASIC_CONSTRAINTS, seq(b"\x02\x01\xff"), "invalid basic constraints"),
        (ext.BASIC_CONSTRAINTS, seq(b"\x02\x00"), "invalid basic constraints"),
        (ext.SUBJECT_ALT_NAME, b"", "invalid subject alternative names"),
        (ext.EXTENDED_KEY_USAGE, b"", "invalid extended key usages"),
        (ext.EXTENDED_KEY_USAGE, seq(b"\x05\x00"), "invalid extended key usages"),
        (ext.EXTENDED_KEY_USAGE, seq(b"\x06\x00"), "invalid extended key usages"),
        (ext.SUBJECT_KEY_ID, b"x", "invalid subject key identifier"),
        (ext.AUTHORITY_KEY_ID, b"", "invalid authority key identifier"),
        (ext.AUTHORITY_KEY_ID, seq(b"\x80\x05"), "invalid authority key identifier"),
        (ext.NAME_CONSTRAINTS, b"", "invalid NameConstraints extension"),
        (ext.NAME_CONSTRAINTS, seq() + b"x", "invalid NameConstraints extension"),
        (ext.NAME_CONSTRAINTS, seq(b"\xa0\x05"), "invalid NameConstraints extension"),
        (ext.NAME_CONSTRAINTS, seq(b"\x05\x00"), "invalid NameConstraints extension"),
        (ext.NAME_CONSTRAINTS, constraints(), "empty name constraints extension"),
        (ext.NAME_CONSTRAINTS, seq(), "empty name constraints extension"),
        (ext.NAME_CONSTRAINTS, constraints(b"\x05\x00"), "invalid NameConstraints extension"),
        (ext.NAME_CONSTRAINTS, constraints(seq()), "invalid NameConstraints extension"),
        (ext.NAME_CONSTRAINTS, constraints(seq(b"\x9f\x20\x00")), "invalid NameConstraints extension"),
        (
            ext.NAME_CONSTRAINTS, constraints(subtree(0x82, b"\xff")),
            'invalid constraint value: x509: "\\xff" cannot be encoded as an IA5String',
        ),
        (ext.NAME_CONSTRAINTS, constraints(subtree(0x82, b"a..b")), 'failed to parse dnsName constraint "a..b"'),
        (ext.NAME_CONSTRAINTS, constraints(subtree(0x82, b".")), 'failed to parse dnsName constraint "."'),
        (ext.NAME_CONSTRAINTS, constraints(subtree(0x81, b"@h")), 'failed to parse rfc822Name constraint "@h"'),
        (ext.NAME_CONSTRAINTS, constraints(subtree(0x81, b"h.")), 'failed to parse rfc822Name constraint "h."'),
        (ext.NAME_CONSTRAINTS, constraints(subtree(0x86, b"h.")), 'failed to parse URI constraint "h."'),
        (
            ext.NAME_CONSTRAINTS, constraints(subtree(0x86, b"1.2.3.4")),
            'failed to parse URI constraint "1.2.3.4": cannot be IP address',
        ),
        (ext.NAME_CONSTRAINTS, constraints(subtree(0x87, b"1234")), "IP constraint contained value of length 4"),
        (
            ext.NAME_CONSTRAINTS, constraints(subtree(0x87, bytes.fromhex("c0000200ff00ff00"))),
            "IP constraint contained invalid mask ff00ff00",
        ),
        (ext.DISTRIBUTION_POINTS, b"", "invalid CRL distribution points"),
        (ext.DISTRIBUTION_POINTS, seq(b"\x05\x00"), "invalid CRL distribution point"),
        (ext.DISTRIBUTION_POINTS, seq(seq(b"\xa0\x05")), "invalid CRL distribution point"),
        (ext.DISTRIBUTION_POINTS, seq(seq(der.encode(0xA0, b""))), "invalid CRL distribution point"),
        (ext.POLICIES, b"", "invalid certificate policies"),
        (ext.POLICIES, seq(seq()), "invalid certificate policies"),
        (ext.POLICIES, seq(seq(oid("1.2.3")), seq(oid("1.2.3"))), "invalid certificate policies"),
        (ext.POLICIES, seq(seq(b"\x06\x00")), "invalid certificate policies"),
        (ext.POLICIES, seq(seq(b"\x06\x02\x2a\x80")), "invalid certificate policies"),
        (ext.POLICIES, seq(seq(b"\x06\x03\x2a\x80\x01")), "invalid certificate policies"),
        (ext.POLICY_MAPPINGS, b"", "invalid policy mappings extension"),
        (ext.POLICY_MAPPINGS, seq(seq(oid("1.2.3"))), "invalid policy mappings extension"),
        (ext.POLICY_CONSTRAINTS, b"", "invalid policy constraints extension"),
        (ext.POLICY_CONSTRAINTS, seq(b"\x80\x00"), "invalid policy constraints extension"),
        (ext.INHIBIT_ANY_POLICY, b"", "invalid inhibit any policy extension"),
        (ext.INHIBIT_ANY_POLICY, b"\x02\x00", "invalid inhibit any policy extension"),
        (ext.AUTHORITY_INFO_ACCESS, b"", "invalid authority info access"),
        (ext.AUTHORITY_INFO_ACCESS, seq(seq()), "invalid authority info access"),
        (ext.AUTHORITY_INFO_ACCESS, seq(seq(oid("1.2.3"), b"\x86\x05")), "invalid authority info access"),
    ],
)  # fmt: skip
def test_refusals(dotted: str, value: bytes, text: str) -> None:
    with pytest.raises(ParseError) as refusal:
        read(dotted, value)
    assert str(refusal.value) == f"x509: {text}"


@pytest.mark.parametrize(
    ("dotted", "text"),
    [
        (ext.SUBJECT_KEY_ID, "x509: subject key identifier incorrectly marked critical"),
        (ext.AUTHORITY_KEY_ID, "x509: authority key identifier incorrectly marked critical"),
        (ext.AUTHORITY_INFO_ACCESS, "x509: authority info access incorrectly marked critical"),
    ],
)
def test_what_must_not_be_critical(dotted: str, text: str) -> None:
    with pytest.raises(ParseError) as refusal:
        read(dotted, b"", critical=True)
    assert str(refusal.value) == text
