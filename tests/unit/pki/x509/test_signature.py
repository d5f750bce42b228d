from __future__ import annotations

import hashlib

import msgspec
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, mldsa, padding, rsa

from kubevouch.pki import keys
from kubevouch.pki.errors import KeyMaterialError, SignatureError
from kubevouch.pki.x509 import der, public_key, signature
from kubevouch.pki.x509.public_key import KeyKind, PublicKey
from kubevouch.pki.x509.signature import Digest, SignatureAlgorithm

OID_SHA256 = "2.16.840.1.101.3.4.2.1"
OID_SHA384 = "2.16.840.1.101.3.4.2.2"


def oid(dotted: str) -> bytes:
    return der.encode_object_identifier(dotted)


def algorithm(dotted: str, parameters: bytes = b"") -> SignatureAlgorithm:
    return signature.algorithm_of(oid(dotted) + parameters)


def pss(
    digest: str = OID_SHA256, inner: str = OID_SHA256, salt: int = 32, *, mgf: str = "1.2.840.113549.1.1.8",
    digest_parameters: bytes = b"", trailer: bytes = b"", first: int = 0xA0,
) -> SignatureAlgorithm:  # fmt: skip
    parameters = der.encode(
        der.SEQUENCE,
        der.encode(first, der.encode(der.SEQUENCE, oid(digest), digest_parameters)),
        der.encode(0xA1, der.encode(der.SEQUENCE, oid(mgf), der.encode(der.SEQUENCE, oid(inner), b"\x05\x00"))),
        der.encode(0xA2, der.encode_integer(salt)),
        trailer,
    )
    return algorithm("1.2.840.113549.1.1.10", parameters)


def test_known_algorithms() -> None:
    assert algorithm("1.2.840.10045.4.3.2").name == "ECDSA-SHA256"
    assert algorithm("1.2.840.113549.1.1.11").name == "SHA256-RSA"
    assert algorithm("1.3.14.3.2.29").name == "SHA1-RSA"
    assert algorithm("1.3.101.112").name == "Ed25519"
    assert algorithm("1.3.101.112", b"\x05\x00") is signature.UNKNOWN
    assert algorithm("1.2.3") is signature.UNKNOWN


def test_pss_settings() -> None:
    assert pss().name == "SHA256-RSAPSS"
    assert pss(trailer=der.encode(0xA3, der.encode_integer(1))).name == "SHA256-RSAPSS"
    assert pss(OID_SHA384, OID_SHA384, 48).name == "SHA384-RSAPSS"
    for unknown in (
        pss(inner=OID_SHA384),
        pss(salt=20),
        pss(mgf="1.2.3"),
        pss(digest_parameters=der.encode_integer(1)),
        pss(trailer=der.encode(0xA3, der.encode_integer(2))),
        pss(trailer=der.encode(0xA3)),
        pss("1.3.14.3.2.26", "1.3.14.3.2.26", 20),
        pss(first=0xA4),
        algorithm("1.2.840.113549.1.1.10"),
        algorithm("1.2.840.113549.1.1.10", b"\x30\x02\xa0\x00"),
    ):
        assert unknown is signature.UNKNOWN


def public(key: signature.PrivateKey) -> PublicKey:
    return keys.public_key_of(key)


@pytest.mark.parametrize("curve", [ec.SECP224R1(), ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()])
def test_ecdsa(curve: ec.EllipticCurve) -> None:
    key = ec.derive_private_key(77, curve)
    how = signature.signing(key)
    identifier = how.identifier[2:]
    found = signature.algorithm_of(identifier)
    assert signature.algorithm_for(public(key)) == found
    signature.verify(found, public(key), b"text", how.sign(b"text"))
    with pytest.raises(SignatureError, match="x509: ECDSA verification failure"):
        signature.verify(found, public(key), b"other", how.sign(b"text"))


def test_ed25519() -> None:
    key = ed25519.Ed25519PrivateKey.from_private_bytes(b"k" * 32)
    how = signature.signing(key)
    found = signature.algorithm_of(how.identifier[2:])
    assert signature.algorithm_for(public(key)) == found
    signature.verify(found, public(key), b"text", how.sign(b"text"))
    with pytest.raises(SignatureError, match="x509: Ed25519 verification failure"):
        signature.verify(found, public(key), b"text", b"short")


@pytest.mark.parametrize("digest", [Digest.SHA256, Digest.SHA384, Digest.SHA512])
def test_rsa(rsa_key: rsa.RSAPrivateKey, digest: Digest) -> None:
    how = signature.signing(rsa_key, rsa_digest=digest)
    start, stop = der.expect(how.identifier, 0, len(how.identifier), der.SEQUENCE)
    found = signature.algorithm_of(how.identifier[start:stop])
    assert found.digest is digest
    assert signature.algorithm_for(public(rsa_key)).name == "SHA256-RSA"
    signature.verify(found, public(rsa_key), b"text", how.sign(b"text"))
    with pytest.raises(SignatureError, match="crypto/rsa: verification error"):
        signature.verify(found, public(rsa_key), b"other", how.sign(b"text"))


def test_the_smallest_rsa_key_that_verifies() -> None:
    key = rsa.generate_private_key(65537, 1024)
    made = key.sign(b"text", padding.PKCS1v15(), hashes.SHA256())
    signature.verify(algorithm("1.2.840.113549.1.1.11"), public(key), b"text", made)


def test_rsa_pss(rsa_key: rsa.RSAPrivateKey) -> None:
    made = rsa_key.sign(b"text", padding.PSS(padding.MGF1(hashes.SHA256()), 32), hashes.SHA256())
    signature.verify(pss(), public(rsa_key), b"text", made)
    long_salt = rsa_key.sign(b"text", padding.PSS(padding.MGF1(hashes.SHA256()), 40), hashes.SHA256())
    with pytest.raises(SignatureError):
        signature.verify(pss(), public(rsa_key), b"text", long_salt)


def test_sha1_only_where_it_is_allowed(rsa_key: rsa.RSAPrivateKey) -> None:
    made = rsa_key.sign(b"text", padding.PKCS1v15(), hashes.SHA1())
    found = algorithm("1.2.840.113549.1.1.5", b"\x05\x00")
    signature.verify(found, public(rsa_key), b"text", made, allow_sha1=True)
    with pytest.raises(SignatureError, match="x509: cannot verify signature: insecure algorithm SHA1-RSA"):
        signature.verify(found, public(rsa_key), b"text", made)


def test_md5_never(rsa_key: rsa.RSAPrivateKey) -> None:
    with pytest.raises(SignatureError, match="x509: cannot verify signature: insecure algorithm MD5-RSA"):
        signature.verify(algorithm("1.2.840.113549.1.1.4"), public(rsa_key), b"", b"", allow_sha1=True)


def rsa_numbers(modulus: int, exponent: int) -> PublicKey:
    numbers = der.encode(der.SEQUENCE, der.encode_integer(modulus), der.encode_integer(exponent))
    identifier = der.encode(der.SEQUENCE, oid(public_key.OID_RSA), b"\x05\x00")
    return keys.load_public_key(der.encode(der.SEQUENCE, identifier, der.encode_bit_string(numbers)))


@pytest.mark.parametrize(
    ("modulus", "exponent", "text"),
    [
        (
            (1 << 512) - 1,
            3,
            "crypto/rsa: 512-bit keys are insecure (see https://go.dev/pkg/crypto/rsa#hdr-Minimum_key_size)",
        ),
        ((1 << 2048) - 2, 3, "crypto/rsa: public modulus is even"),
        ((1 << 2048) - 1, 1, "crypto/rsa: public exponent too small or negative"),
        ((1 << 2048) - 1, 4, "crypto/rsa: public exponent is even"),
        ((1 << 2048) - 1, (1 << 31) + 1, "crypto/rsa: public exponent too large"),
        ("huge", 3, "crypto/rsa: verification error"),
    ],
)
def test_rsa_keys_that_never_verify(modulus: int | str, exponent: int, text: str) -> None:
    if isinstance(modulus, str):
        modulus = (1 << 40000) - 1  # OpenSSL stops at 16384 bits
    with pytest.raises(SignatureError) as refusal:
        signature.verify(algorithm("1.2.840.113549.1.1.11"), rsa_numbers(modulus, exponent), b"", b"s" * 256)
    assert str(refusal.value) == text


def test_the_algorithm_must_be_one_for_the_key(ec_key: ec.EllipticCurvePrivateKey, rsa_key: rsa.RSAPrivateKey) -> None:
    with pytest.raises(SignatureError) as refusal:
        signature.verify(algorithm("1.2.840.10045.4.3.2"), public(rsa_key), b"", b"")
    assert str(refusal.value) == (
        "x509: signature algorithm specifies an ECDSA public key, but have public key of type *rsa.PublicKey"
    )
    with pytest.raises(SignatureError, match=r"an RSA public key, but have public key of type \*ecdsa.PublicKey"):
        signature.verify(algorithm("1.2.840.113549.1.1.11"), public(ec_key), b"", b"")
    with pytest.raises(SignatureError, match="algorithm unimplemented"):
        signature.verify(signature.UNKNOWN, public(ec_key), b"", b"")
    dsa = msgspec.structs.replace(public(ec_key), kind=KeyKind.DSA)
    with pytest.raises(SignatureError, match="algorithm unimplemented"):
        signature.verify(algorithm("2.16.840.1.101.3.4.3.2"), dsa, b"", b"")


@pytest.mark.parametrize("family", [mldsa.MLDSA44PrivateKey, mldsa.MLDSA65PrivateKey, mldsa.MLDSA87PrivateKey])
def test_ml_dsa_stands_behind_a_gate(family: type[mldsa.MLDSA44PrivateKey]) -> None:
    key = family.generate()
    how = signature.signing(key)
    found = signature.algorithm_of(how.identifier[2:])
    made = how.sign(b"text")
    signature.verify(found, public(key), b"text", made, post_quantum=True)
    with pytest.raises(SignatureError, match="algorithm unimplemented"):
        signature.verify(found, public(key), b"text", made)
    with pytest.raises(SignatureError, match=r"ML-DSA-\d+ verification failure"):
        signature.verify(found, public(key), b"other", made, post_quantum=True)


def test_ml_dsa_needs_its_own_key(ec_key: ec.EllipticCurvePrivateKey) -> None:
    with pytest.raises(SignatureError, match="specifies ML-DSA-44, but the public key is ECDSA-P256"):
        signature.verify(algorithm(public_key.OID_ML_DSA_44), public(ec_key), b"", b"", post_quantum=True)


def test_keys_that_do_not_sign() -> None:
    with pytest.raises(KeyMaterialError, match="curve secp256k1"):
        signature.signing(ec.generate_private_key(ec.SECP256K1()))
    with pytest.raises(KeyMaterialError, match="no signature algorithm for a "):
        signature.signing(hashlib.sha256())  # type: ignore[arg-type]
