"""Verdicts and texts were compared with Go 1.26 over 130,000 damaged certificates; these are one of each kind."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable

import pytest

from kubevouch.pki import keys
from kubevouch.pki.authority import CertificateAuthority
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import der, pem, signature, x509_certificate
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.x509_certificate import Certificate

Make = Callable[..., bytes]


def oid(dotted: str) -> bytes:
    return der.encode_object_identifier(dotted)


SHA256 = der.encode(der.SEQUENCE, oid("1.2.840.10045.4.3.2"))
DAY = b"\x17\x0d310301120000Z"
V3 = b"\xa0\x03\x02\x01\x02"


@pytest.fixture(scope="module")
def build(ec_key: PrivateKey) -> Make:
    """A certificate from its parts, each of which may be replaced by any octets. The signature is one octet."""
    info = keys.public_key_of(ec_key).info

    def make(
        *extensions: bytes,
        version: bytes = V3,
        serial: bytes = b"\x02\x01\x07",
        inner: bytes = SHA256,
        outer: bytes = SHA256,
        issuer: bytes = Subject(common_name="i").encode(),
        validity: bytes = der.encode(der.SEQUENCE, DAY, DAY),
        subject: bytes = Subject(common_name="s").encode(),
        key: bytes = info,
        ids: bytes = b"",
        tail: bytes | None = None,
        signed_by: bytes = b"\x03\x02\x00\x07",
    ) -> bytes:
        if tail is None:
            tail = der.encode(0xA3, der.encode(der.SEQUENCE, *extensions)) if extensions else b""
        signed = der.encode(der.SEQUENCE, version, serial, inner, issuer, validity, subject, key, ids, tail)
        return der.encode(der.SEQUENCE, signed, outer, signed_by)

    return make


def test_what_a_certificate_says(make_certificate: Callable[..., Certificate], ca: CertificateAuthority) -> None:
    certificate = make_certificate(usages=("digital signature", "client auth"))
    assert certificate.version == 3
    assert certificate.serial == 7
    assert certificate.issuer == ca.certificate.subject
    assert certificate.subject.common_name == "system:node:worker-7"
    assert certificate.not_after - certificate.not_before == dt.timedelta(hours=2)
    assert certificate.meaning.key_usage == {0}
    assert certificate.fingerprint() == hashlib.sha256(certificate.contents).digest()
    signature.verify(
        certificate.signature_algorithm, ca.certificate.public_key, certificate.signed, certificate.signature
    )
    assert x509_certificate.parse_pem(b"text\n" + certificate.pem()) == certificate


def test_older_versions(build: Make) -> None:
    old = x509_certificate.parse_der(build(version=b""))
    assert (old.version, old.extensions) == (1, ())
    second = build(version=b"\xa0\x03\x02\x01\x01", ids=b"\x81\x02\x00i\x82\x02\x00s", tail=b"\xa3\x02\x05\x00")
    assert x509_certificate.parse_der(second).version == 2
    assert x509_certificate.parse_der(build()).extensions == ()


def test_a_self_signed_name_is_read_once(ca: CertificateAuthority) -> None:
    assert ca.certificate.issuer is ca.certificate.subject


def ext(dotted: str, critical: bytes = b"") -> bytes:
    return der.encode(der.SEQUENCE, oid(dotted), critical, b"\x04\x00")


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ({"version": b"\xa0\x00"}, "malformed version"),
        ({"version": b"\xa0\x7f"}, "malformed version"),
        ({"version": b"\xa0\x03\x02\x01\x80"}, "malformed version"),
        ({"version": b"\xa0\x02\x02\x00"}, "malformed version"),
        ({"version": b"\xa0\x05\x02\x01\x02\x05\x00"}, "malformed version"),
        ({"version": b"\xa0\x03\x02\x01\x03"}, "invalid version"),
        ({"serial": b"\x05\x00"}, "malformed serial number"),
        ({"serial": b"\x02\x00"}, "malformed serial number"),
        ({"serial": b"\x02\x01\x80"}, "negative serial number"),
        ({"inner": b"\x05\x00"}, "malformed signature algorithm identifier"),
        ({"outer": b"\x05\x00"}, "malformed algorithm identifier"),
        ({"outer": b"\x30\x00"}, "inner and outer signature algorithm identifiers don't match"),
        ({"inner": b"\x30\x00", "outer": b"\x30\x00"}, "malformed OID"),
        ({"inner": b"\x30\x02\x06\x00", "outer": b"\x30\x02\x06\x00"}, "malformed OID"),
        ({"inner": b"\x30\x04\x06\x01\x2a\x05", "outer": b"\x30\x04\x06\x01\x2a\x05"}, "malformed parameters"),
        (
            {"inner": b"\x30\x06\x06\x01\x2a\x1f\x20\x00", "outer": b"\x30\x06\x06\x01\x2a\x1f\x20\x00"},
            "malformed parameters",
        ),
        ({"issuer": b"\x05\x00"}, "malformed issuer"),
        ({"issuer": b"\x30\x02\x05\x00"}, "invalid RDNSequence"),
        ({"validity": b"\x05\x00"}, "malformed validity"),
        ({"validity": b"\x30\x00"}, "unsupported time format"),
        ({"validity": der.encode(der.SEQUENCE, DAY)}, "unsupported time format"),
        ({"validity": b"\x30\x02\x17\x00"}, "malformed UTCTime"),
        ({"validity": b"\x30\x02\x18\x00"}, "malformed GeneralizedTime"),
        ({"validity": b"\x30\x02\x18\x05"}, "malformed GeneralizedTime"),
        ({"subject": b"\x05\x00"}, "malformed issuer"),
        ({"key": b"\x05\x00"}, "malformed spki"),
        ({"key": b"\x30\x00"}, "malformed public key algorithm identifier"),
        ({"key": der.encode(der.SEQUENCE, SHA256)}, "malformed subjectPublicKey"),
        ({"key": der.encode(der.SEQUENCE, SHA256, b"\x03\x00")}, "malformed subjectPublicKey"),
        ({"ids": b"\x81\x7f"}, "malformed issuerUniqueID"),
        ({"ids": b"\x82\x7f"}, "malformed subjectUniqueID"),
        ({"tail": b"\xa3\x00"}, "malformed extensions"),
        ({"tail": b"\xa3\x02\x30\x05"}, "malformed extensions"),
        ({"tail": b"\xa3\x04\x30\x02\x05\x00"}, "malformed extension"),
        ({"tail": b"\xa3\x04\x30\x02\x30\x00"}, "malformed extension OID field"),
        ({"tail": b"\xa3\x06\x30\x04\x30\x02\x06\x00"}, "malformed extension OID field"),
        ({"tail": b"\xa3\x07\x30\x05\x30\x03\x06\x01\x2a"}, "malformed extension value field"),
        ({"tail": b"\xa3\x0a\x30\x08\x30\x06\x06\x01\x2a\x01\x01\x07"}, "malformed extension critical field"),
        ({"signed_by": b"\x05\x00"}, "malformed signature"),
        ({"signed_by": b"\x03\x00"}, "malformed signature"),
    ],
)
def test_refusals(build: Make, parts: dict[str, bytes], text: str) -> None:
    with pytest.raises(ParseError) as refusal:
        x509_certificate.parse_der(build(**parts))
    assert str(refusal.value) == f"x509: {text}"


def test_an_extension_twice_is_refused(build: Make) -> None:
    with pytest.raises(ParseError, match=r'x509: certificate contains duplicate extension with OID "1\.2\.3"'):
        x509_certificate.parse_der(build(ext("1.2.3"), ext("1.2.3", b"\x01\x01\xff")))


def test_extensions_keep_their_order(build: Make) -> None:
    certificate = x509_certificate.parse_der(build(ext("1.2.4", b"\x01\x01\xff"), ext("1.2.3")))
    assert [(e.oid, e.critical) for e in certificate.extensions] == [("1.2.4", True), ("1.2.3", False)]
    assert certificate.meaning.unhandled_critical == ("1.2.4",)


@pytest.mark.parametrize("octets", [b"", b"x", b"\x30\x05", b"\x31\x00"])
def test_no_certificate(octets: bytes) -> None:
    with pytest.raises(ParseError, match="x509: malformed certificate"):
        x509_certificate.parse_der(octets)


def test_trailing_octets(build: Make) -> None:
    with pytest.raises(ParseError, match="x509: trailing data"):
        x509_certificate.parse_der(build() + b"\0")


def test_several_in_one_block(build: Make) -> None:
    assert len(x509_certificate.parse_concatenated(build() + build())) == 2
    assert x509_certificate.parse_concatenated(b"") == []


def test_bundles(build: Make) -> None:
    text = pem.encode("X", b"") + pem.encode(pem.CERTIFICATE, build()) + pem.encode(pem.CERTIFICATE, b"", {"a": "b"})
    assert len(x509_certificate.parse_bundle(text)) == 1
    with pytest.raises(ParseError, match="data does not contain any valid RSA or ECDSA certificates"):
        x509_certificate.parse_bundle(b"")
    with pytest.raises(ParseError, match="no CERTIFICATE block found"):
        x509_certificate.parse_pem(pem.encode("X", b""))
    assert x509_certificate.parse_pem(text).serial == 7


def test_the_same_bytes_are_parsed_once(make_certificate: Callable[..., Certificate]) -> None:
    made = make_certificate()
    (again,) = x509_certificate.parse_bundle(made.pem())
    assert again is x509_certificate.parse_der(made.contents)
    with pytest.raises(ParseError, match="trailing data"):
        x509_certificate.parse_der(made.contents + made.contents)
    assert x509_certificate.parse_concatenated(made.contents + made.contents) == [made, made]
