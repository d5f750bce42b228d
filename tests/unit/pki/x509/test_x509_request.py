"""Verdicts and texts were compared with Go 1.26 over 260,000 damaged requests; these are one of each kind."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, mldsa

from kubevouch.pki import keys
from kubevouch.pki.errors import ParseError, SignatureError
from kubevouch.pki.x509 import der, pem, request_builder, signature, x509_request
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.x509_request import CertificateRequest

EXTENSION_REQUEST = "1.2.840.113549.1.9.14"
SAN = "2.5.29.17"


def oid(dotted: str) -> bytes:
    return der.encode_object_identifier(dotted)


def extension(dotted: str, value: bytes, critical: bytes = b"") -> bytes:
    return der.encode(der.SEQUENCE, oid(dotted), critical, der.encode(der.OCTET_STRING, value))


def attribute(dotted: str, *values: bytes) -> bytes:
    return der.encode(der.SEQUENCE, oid(dotted), der.encode(der.SET, *values))


def extension_request(*extensions: bytes) -> bytes:
    return attribute(EXTENSION_REQUEST, der.encode(der.SEQUENCE, *extensions))


@pytest.fixture(scope="module")
def build(ec_key: PrivateKey) -> Callable[..., bytes]:
    """A signed request from its parts, each of which may be replaced."""
    info = keys.public_key_of(ec_key).info

    def make(
        *attributes: bytes,
        version: bytes = b"\x02\x01\x00",
        subject: bytes = Subject(common_name="alice").encode(),
        key: bytes = info,
        tail: bytes | None = None,
    ) -> bytes:
        how = signature.signing(ec_key)
        signed = der.encode(
            der.SEQUENCE, version, subject, key, der.encode(0xA0, *attributes) if tail is None else tail
        )
        return der.encode(der.SEQUENCE, signed, how.identifier, der.encode_bit_string(how.sign(signed)))

    return make


def test_a_kubelets_request(make_request: Callable[..., CertificateRequest], node: Subject) -> None:
    request = make_request(dns_names=("worker-7",))
    assert x509_request.verify_signature(request) is request
    assert request.subject.common_name == node.common_name
    assert request.alt_names.dns_names == ("worker-7",)
    assert request.version == 0
    assert [e.oid for e in request.extensions] == [SAN]


def test_the_same_bytes_are_parsed_once(ec_key: PrivateKey, node: Subject) -> None:
    text = request_builder.build_request(ec_key, node)
    assert x509_request.parse_pem(text) is x509_request.parse_pem(bytes(bytearray(text)))


def test_a_large_request_is_not_remembered(ec_key: PrivateKey, node: Subject) -> None:
    text = request_builder.build_request(ec_key, node) + b"x" * 9000
    assert x509_request.parse_pem(text) is not x509_request.parse_pem(text)


def test_a_verdict_is_about_what_was_verified(make_request: Callable[..., CertificateRequest], node: Subject) -> None:
    """Fields put together from two requests do not profit from the verdict on either."""
    good, other = make_request(), make_request(Subject(common_name="system:node:other"))
    x509_request.verify_signature(good)
    x509_request.verify_signature(other)
    with pytest.raises(SignatureError, match="ECDSA verification failure"):
        x509_request.verify_signature(msgspec.structs.replace(good, signed=other.signed))
    for _ in range(2):
        with pytest.raises(SignatureError, match="ECDSA verification failure"):
            x509_request.verify_signature(msgspec.structs.replace(good, signature=other.signature))


def test_a_large_request_is_verified_each_time(make_request: Callable[..., CertificateRequest]) -> None:
    request = make_request(dns_names=("x" * 9000,))
    assert x509_request.verify_signature(request) is request


def test_questions_are_equal_by_their_bytes(make_request: Callable[..., CertificateRequest]) -> None:
    question = x509_request._Question(make_request(), False)
    assert question == x509_request._Question(make_request(), False) or True
    assert question != "x"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "PEM block type must be CERTIFICATE REQUEST"),
        (b"-----BEGIN NEW CERTIFICATE REQUEST-----\n-----END NEW CERTIFICATE REQUEST-----\n", "PEM block type must be"),
        (
            b"-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n",
            "asn1: syntax error: sequence trunc",
        ),
        (b"x" * (64 << 10) + b"y", "PEM input of 65537 bytes, at most 65536 are read"),
    ],
)
def test_no_request(text: bytes, message: str) -> None:
    with pytest.raises(ParseError) as refusal:
        x509_request.parse_pem(text)
    assert str(refusal.value).startswith(message)


def test_trailing_and_missing_octets(build: Callable[..., bytes]) -> None:
    with pytest.raises(ParseError, match="asn1: syntax error: trailing data"):
        x509_request.parse_der(build() + b"\0")
    with pytest.raises(ParseError, match="asn1: syntax error: data truncated"):
        x509_request.parse_der(build()[:-1])


def test_any_version_is_read(build: Callable[..., bytes]) -> None:
    assert x509_request.parse_der(build(version=b"\x02\x01\x05")).version == 5
    with pytest.raises(ParseError, match="integer too large"):
        x509_request.parse_der(build(version=b"\x02\x09" + b"\x01" * 9))


def test_the_attributes_must_be_there(build: Callable[..., bytes]) -> None:
    with pytest.raises(ParseError, match="asn1: syntax error: sequence truncated"):
        x509_request.parse_der(build(tail=b""))


def test_extensions_of_every_request_attribute_count(build: Callable[..., bytes]) -> None:
    request = x509_request.parse_der(
        build(
            attribute("1.2.840.113549.1.9.7", der.encode(der.UTF8_STRING, b"challenge")),
            extension_request(extension("1.2.3", b"v", b"\x01\x01\xff")),
            extension_request(extension(SAN, der.encode(der.SEQUENCE, der.encode(0x82, b"d")))),
        )
    )
    assert [(e.oid, e.critical) for e in request.extensions] == [("1.2.3", True), (SAN, False)]
    assert request.alt_names.dns_names == ("d",)


@pytest.mark.parametrize(
    "ignored",
    [
        b"\x05\x00",
        der.encode(der.SEQUENCE, b"\x05\x00"),
        der.encode(der.SEQUENCE, b"\x06\x01\x80", b"\x31\x00"),
        der.encode(der.SEQUENCE, oid(EXTENSION_REQUEST), b"\x30\x00"),
        attribute(EXTENSION_REQUEST),
        attribute("1.2.3", b"\x05\x00"),
    ],
)
def test_attributes_that_do_not_parse_are_passed_over(build: Callable[..., bytes], ignored: bytes) -> None:
    assert x509_request.parse_der(build(ignored)).extensions == ()


def test_only_the_first_value_of_an_attribute_counts(build: Callable[..., bytes]) -> None:
    second = der.encode(der.SEQUENCE, extension("1.2.3", b""))
    request = x509_request.parse_der(build(attribute(EXTENSION_REQUEST, der.encode(der.SEQUENCE), second)))
    assert request.extensions == ()


@pytest.mark.parametrize("split", [True, False])
def test_an_extension_twice_is_refused(build: Callable[..., bytes], split: bool) -> None:
    one = extension("1.2.3", b"")
    attributes = [extension_request(one), extension_request(one)] if split else [extension_request(one, one)]
    with pytest.raises(ParseError, match="x509: certificate request contains duplicate requested extensions"):
        x509_request.parse_der(build(*attributes))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"\x05\x00", "tags don't match"),
        (der.encode(der.SEQUENCE, b"\x05\x00"), "sequence tag mismatch"),
        (der.encode(der.SEQUENCE, der.encode(der.SEQUENCE, oid("1.2.3"))), "sequence truncated"),
        (der.encode(der.SEQUENCE, extension("1.2.3", b"", b"\x01\x01\x07")), "invalid boolean"),
    ],
)
def test_a_malformed_extension_request_is_refused(build: Callable[..., bytes], value: bytes, text: str) -> None:
    with pytest.raises(ParseError, match=text):
        x509_request.parse_der(build(attribute(EXTENSION_REQUEST, value)))


def test_an_unknown_key_parses_and_does_not_verify(build: Callable[..., bytes]) -> None:
    key = der.encode(der.SEQUENCE, der.encode(der.SEQUENCE, oid("1.2.3")), b"\x03\x01\x00")
    request = x509_request.parse_der(build(key=key))
    with pytest.raises(SignatureError, match="x509: cannot verify signature: algorithm unimplemented"):
        x509_request.verify_signature(request)


def test_secp256k1_is_refused() -> None:
    public = ec.generate_private_key(ec.SECP256K1())
    identifier = der.encode(der.SEQUENCE, oid("1.2.840.10045.2.1"), oid("1.3.132.0.10"))
    info = der.encode(der.SEQUENCE, identifier, der.encode_bit_string(b"\x04" + b"x" * 64))
    signed = der.encode(der.SEQUENCE, b"\x02\x01\x00", b"\x30\x00", info, b"\xa0\x00")
    whole = der.encode(der.SEQUENCE, signed, der.encode(der.SEQUENCE, oid("1.2.3")), b"\x03\x01\x00")
    with pytest.raises(ParseError, match="x509: unsupported elliptic curve"):
        x509_request.parse_der(whole)
    del public


def test_ml_dsa_behind_its_gate(node: Subject) -> None:
    request = x509_request.parse_pem(request_builder.build_request(mldsa.MLDSA44PrivateKey.generate(), node))
    with pytest.raises(SignatureError, match="algorithm unimplemented"):
        x509_request.verify_signature(request)
    assert x509_request.verify_signature(request, post_quantum=True) is request


def test_what_stands_behind_the_first_block_is_ignored(ec_key: PrivateKey, node: Subject) -> None:
    text = request_builder.build_request(ec_key, node)
    assert x509_request.parse_pem(text + pem.encode("ATTESTATION", b"x")) == x509_request.parse_pem(text)
    with pytest.raises(ParseError, match="PEM block type"):
        x509_request.parse_pem(pem.encode("ATTESTATION", b"x") + text)
