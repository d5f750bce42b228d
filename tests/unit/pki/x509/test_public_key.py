from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, mldsa, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from kubevouch.pki import keys
from kubevouch.pki.errors import DERError, KeyMaterialError, ParseError
from kubevouch.pki.x509 import der, public_key
from kubevouch.pki.x509.public_key import KeyKind

INFO = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def info(oid: str, parameters: bytes, bits: bytes) -> bytes:
    identifier = der.encode(der.SEQUENCE, der.encode_object_identifier(oid), parameters)
    return der.encode(der.SEQUENCE, identifier, der.encode_bit_string(bits))


def curve(oid: str) -> bytes:
    return der.encode_object_identifier(oid)


def numbers(*values: int) -> bytes:
    return der.encode(der.SEQUENCE, *map(der.encode_integer, values))


P256, P384 = "1.2.840.10045.3.1.7", "1.3.132.0.34"


@pytest.mark.parametrize(
    ("which", "name", "bits"),
    [(ec.SECP224R1(), "ECDSA-P224", 224), (ec.SECP256R1(), "ECDSA-P256", 256), (ec.SECP521R1(), "ECDSA-P521", 521)],
)
def test_curves(which: ec.EllipticCurve, name: str, bits: int) -> None:
    octets = ec.derive_private_key(7, which).public_key().public_bytes(*INFO)
    key = keys.load_public_key(octets)
    assert (key.kind, key.name, key.bits, key.canonical_info) == (KeyKind.ECDSA, name, bits, octets)
    assert key.key().public_bytes(*INFO) == octets


def test_rsa(rsa_key: rsa.RSAPrivateKey) -> None:
    octets = rsa_key.public_key().public_bytes(*INFO)
    key = keys.load_public_key(octets)
    assert (key.kind, key.name, key.exponent, key.odd_modulus) == (KeyKind.RSA, "RSA-2048", 65537, True)
    assert key.canonical_info == octets
    assert key.key().public_bytes(*INFO) == octets


def test_an_rsa_key_with_more_behind_its_numbers_is_written_without_it() -> None:
    bits = der.encode(der.SEQUENCE, der.encode_integer(15), der.encode_integer(3), der.encode(der.NULL)) + b"junk"
    key = keys.load_public_key(info(public_key.OID_RSA, b"\x05\x00", bits))
    assert key.canonical_info == info(public_key.OID_RSA, b"\x05\x00", numbers(15, 3))
    assert key.fingerprint() != keys.load_public_key(key.canonical_info).fingerprint()


def test_ed25519_and_ml_dsa() -> None:
    octets = ed25519.Ed25519PrivateKey.from_private_bytes(b"k" * 32).public_key().public_bytes(*INFO)
    assert keys.load_public_key(octets).name == "Ed25519"
    octets = mldsa.MLDSA65PrivateKey.generate().public_key().public_bytes(*INFO)
    key = keys.load_public_key(octets)
    assert (key.kind, key.name, key.canonical_info) == (KeyKind.ML_DSA, "ML-DSA-65", octets)


def test_dsa_is_read_and_no_more() -> None:
    key = keys.load_public_key(info(public_key.OID_DSA, numbers(23, 11, 4), der.encode_integer(8)))
    assert (key.kind, key.bits) == (KeyKind.DSA, 5)
    assert isinstance(dsa.DSAPublicNumbers(8, dsa.DSAParameterNumbers(23, 11, 4)), dsa.DSAPublicNumbers)


@pytest.mark.parametrize(
    "octets",
    [
        info("1.2.3.4", b"", b"x"),
        info("1.3.101.110", b"", b"k" * 32),
        info(public_key.OID_ML_DSA_44, b"", b"short"),
        info(public_key.OID_ML_DSA_44, b"\x05\x00", b"x" * 1312),
    ],
)
def test_an_unknown_algorithm_is_no_error(octets: bytes) -> None:
    key = keys.load_public_key(octets)
    assert (key.kind, key.info, key.canonical_info) == (KeyKind.UNKNOWN, octets, octets)


@pytest.mark.parametrize(
    ("octets", "text"),
    [
        (info(public_key.OID_RSA, b"", numbers(15, 3)), "x509: RSA key missing NULL parameters"),
        (info(public_key.OID_RSA, b"\x05\x00", b"x"), "x509: invalid RSA public key"),
        (info(public_key.OID_RSA, b"\x05\x00", b"\x30\x00"), "x509: invalid RSA modulus"),
        (info(public_key.OID_RSA, b"\x05\x00", numbers(15)), "x509: invalid RSA public exponent"),
        (info(public_key.OID_RSA, b"\x05\x00", numbers(15, 1 << 63)), "x509: invalid RSA public exponent"),
        (info(public_key.OID_RSA, b"\x05\x00", numbers(-15, 3)), "x509: RSA modulus is not a positive number"),
        (info(public_key.OID_RSA, b"\x05\x00", numbers(15, 0)), "x509: RSA public exponent is not a positive number"),
        (info(public_key.OID_ECDSA, b"", b"\x04"), "x509: invalid ECDSA parameters"),
        (info(public_key.OID_ECDSA, numbers(1), b"\x04"), "x509: invalid ECDSA parameters"),
        (info(public_key.OID_ECDSA, curve("1.3.132.0.10"), b"\x04"), "x509: unsupported elliptic curve"),
        (info(public_key.OID_ECDSA, curve(P256), b"\x02" + b"x" * 32), "ecdsa: invalid uncompressed public key"),
        (info(public_key.OID_ECDSA, curve(P256), b""), "ecdsa: invalid uncompressed public key"),
        (info(public_key.OID_ECDSA, curve(P384), b"\x04"), "invalid P384 point encoding"),
        (info(public_key.OID_ECDSA, curve(P256), b"\x04" + b"x" * 64), "P256 point not on curve"),
        (info(public_key.OID_ED25519, b"\x05\x00", b"k" * 32), "x509: Ed25519 key encoded with illegal parameters"),
        (info(public_key.OID_ED25519, b"", b"k"), "x509: wrong Ed25519 public key size"),
        (info(public_key.OID_DSA, numbers(1, 1, 1), b"x"), "x509: invalid DSA public key"),
        (info(public_key.OID_DSA, b"", der.encode_integer(1)), "x509: invalid DSA parameters"),
        (info(public_key.OID_DSA, numbers(1, 1), der.encode_integer(1)), "x509: invalid DSA parameters"),
        (info(public_key.OID_DSA, numbers(1, 1, 0), der.encode_integer(1)), "x509: zero or negative DSA parameter"),
    ],
)
def test_refusals(octets: bytes, text: str) -> None:
    with pytest.raises(ParseError) as refusal:
        keys.load_public_key(octets)
    assert str(refusal.value) == text


def test_a_key_that_the_library_refuses_is_refused_when_it_is_needed() -> None:
    key = keys.load_public_key(info(public_key.OID_RSA, b"\x05\x00", numbers(15, 2)))
    with pytest.raises(KeyMaterialError, match="RSA-4 key is not usable"):
        key.key()


def test_identifier_parameters_must_be_an_element() -> None:
    with pytest.raises(DERError):
        public_key.split_identifier(der.encode_object_identifier("1.2.3") + b"\x05")
