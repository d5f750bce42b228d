"""SubjectPublicKeyInfo as Go's ``crypto/x509`` (Go 1.26) reads it.

Only RSA, DSA, ECDSA on the four NIST curves and Ed25519 are keys to Go; any other algorithm parses as "unknown" and
nothing signed with it verifies. ML-DSA (FIPS 204) is known here and usable only where a caller opens the gate.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from typing import Any

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, mldsa
from cryptography.hazmat.primitives.serialization import load_der_public_key

from kubevouch.pki.errors import DERError, KeyMaterialError, ParseError
from kubevouch.pki.x509 import der


class KeyKind(StrEnum):
    """The families that differ in how they are verified; the values are Go's names."""

    UNKNOWN = "0"
    RSA = "RSA"
    DSA = "DSA"
    ECDSA = "ECDSA"
    ED25519 = "Ed25519"
    ML_DSA = "ML-DSA"


OID_RSA = "1.2.840.113549.1.1.1"
OID_DSA = "1.2.840.10040.4.1"
OID_ECDSA = "1.2.840.10045.2.1"
OID_ED25519 = "1.3.101.112"
# FIPS 204, RFC 9881 section 2.
OID_ML_DSA_44 = "2.16.840.1.101.3.4.3.17"
OID_ML_DSA_65 = "2.16.840.1.101.3.4.3.18"
OID_ML_DSA_87 = "2.16.840.1.101.3.4.3.19"

CURVES: dict[str, ec.EllipticCurve] = {
    "1.3.132.0.33": ec.SECP224R1(),
    "1.2.840.10045.3.1.7": ec.SECP256R1(),
    "1.3.132.0.34": ec.SECP384R1(),
    "1.3.132.0.35": ec.SECP521R1(),
}
# Name, how to load the key, and its size in octets (FIPS 204, table 2).
_ML_DSA: dict[str, tuple[str, Callable[[bytes], Any], int]] = {
    OID_ML_DSA_44: ("ML-DSA-44", mldsa.MLDSA44PublicKey.from_public_bytes, 1312),
    OID_ML_DSA_65: ("ML-DSA-65", mldsa.MLDSA65PublicKey.from_public_bytes, 1952),
    OID_ML_DSA_87: ("ML-DSA-87", mldsa.MLDSA87PublicKey.from_public_bytes, 2592),
}
_MAX_INT64 = (1 << 63) - 1


class PublicKey(msgspec.Struct, frozen=True, kw_only=True):
    """A public key.

    ``info`` is the SubjectPublicKeyInfo in DER as it came, ``canonical_info`` as Go writes it into a certificate;
    ``bits`` is the size of modulus or curve, ``exponent`` that of RSA and ``odd_modulus`` whether its modulus is odd.
    ``name`` tells the parameter set: ``RSA-2048``, ``ECDSA-P256``, ``Ed25519``, ``ML-DSA-65``.
    """

    kind: KeyKind
    info: bytes
    canonical_info: bytes
    name: str = "unknown"
    bits: int = 0
    exponent: int = 0
    odd_modulus: bool = True
    loaded: Any = None

    def fingerprint(self) -> bytes:
        """SHA-256 of the SubjectPublicKeyInfo as it came (RFC 7469 section 2.4)."""
        return hashlib.sha256(self.info).digest()

    def key(self) -> Any:
        """The key for ``cryptography``.

        Raises:
            KeyMaterialError: the library takes no such key.
        """
        if self.loaded is not None:
            return self.loaded
        try:
            return load_der_public_key(self.canonical_info)
        except (ValueError, UnsupportedAlgorithm) as error:
            raise KeyMaterialError(f"{self.name} key is not usable: {error}") from error


# The contents of the algorithm identifier of by far the most keys, P-256, so that it is read by comparing.
_P256_IDENTIFIER = bytes.fromhex("06072a8648ce3d020106082a8648ce3d030107")
_P256_PREFIX = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d03010703420004")
_P256 = CURVES["1.2.840.10045.3.1.7"]


def parse(info: bytes, identifier: bytes, bits: bytes) -> PublicKey:
    """The key of a SubjectPublicKeyInfo.

    Args:
        info: the whole structure in DER.
        identifier: the contents of its AlgorithmIdentifier.
        bits: the BIT STRING's octets, aligned to the right.

    Raises:
        ParseError: with Go's text. An unknown algorithm is no error.
    """
    if identifier == _P256_IDENTIFIER and len(info) == 91 and info.startswith(_P256_PREFIX):
        point = _p256_point(bits)
        return PublicKey(kind=KeyKind.ECDSA, info=info, canonical_info=info, name="ECDSA-P256", bits=256, loaded=point)
    oid, parameters = split_identifier(identifier)
    if oid == OID_RSA:
        return _rsa(info, parameters, bits)
    if oid == OID_ECDSA:
        return _ecdsa(info, parameters, bits)
    if oid == OID_ED25519:
        return _ed25519(info, parameters, bits)
    if oid == OID_DSA:
        return _dsa(info, parameters, bits)
    if oid in _ML_DSA and not parameters:
        return _ml_dsa(oid, info, bits)
    return PublicKey(kind=KeyKind.UNKNOWN, info=info, canonical_info=info)


def split_identifier(contents: bytes) -> tuple[str, bytes]:
    """Algorithm and parameters (whole element, empty when absent) of an AlgorithmIdentifier's contents.

    Raises:
        DERError: in ``encoding/asn1``'s words.
    """
    if contents == _P256_IDENTIFIER:
        return OID_ECDSA, contents[9:]
    start, stop = der.expect(contents, 0, len(contents), der.OBJECT_IDENTIFIER, 0, "ObjectIdentifier")
    oid = der.object_identifier(contents[start:stop])
    if stop == len(contents):
        return oid, b""
    end = der.element(contents, stop, len(contents))[2]
    return oid, contents[stop:end]


def _info(oid: str, parameters: bytes, bits: bytes) -> bytes:
    identifier = der.encode(der.SEQUENCE, der.encode_object_identifier(oid), parameters)
    return der.encode(der.SEQUENCE, identifier, der.encode_bit_string(bits))


_NULL = b"\x05\x00"


def _rsa(info: bytes, parameters: bytes, bits: bytes) -> PublicKey:
    if parameters != _NULL:
        raise ParseError("x509: RSA key missing NULL parameters")
    try:
        start, stop = der.expect(bits, 0, len(bits), der.SEQUENCE)
    except DERError as error:
        raise ParseError("x509: invalid RSA public key") from error
    modulus, start = _integer(bits, start, stop, "x509: invalid RSA modulus")
    exponent, _ = _integer(bits, start, stop, "x509: invalid RSA public exponent")
    if not -_MAX_INT64 - 1 <= exponent <= _MAX_INT64:
        raise ParseError("x509: invalid RSA public exponent")
    if modulus <= 0:
        raise ParseError("x509: RSA modulus is not a positive number")
    if exponent <= 0:
        raise ParseError("x509: RSA public exponent is not a positive number")
    size = modulus.bit_length()
    numbers = der.encode(der.SEQUENCE, der.encode_integer(modulus), der.encode_integer(exponent))
    return PublicKey(
        kind=KeyKind.RSA,
        info=info,
        canonical_info=_info(OID_RSA, _NULL, numbers),
        name=f"RSA-{size}",
        bits=size,
        exponent=exponent,
        odd_modulus=bool(modulus & 1),
    )


def _integer(octets: bytes, position: int, end: int, message: str) -> tuple[int, int]:
    try:
        start, stop = der.expect(octets, position, end, der.INTEGER)
        return der.integer(octets[start:stop]), stop
    except DERError as error:
        raise ParseError(message) from error


def _ecdsa(info: bytes, parameters: bytes, bits: bytes) -> PublicKey:
    try:
        start, stop = der.expect(parameters, 0, len(parameters), der.OBJECT_IDENTIFIER)
        oid = der.object_identifier(parameters[start:stop])
    except DERError as error:
        raise ParseError("x509: invalid ECDSA parameters") from error
    curve = CURVES.get(oid)
    if curve is None:
        raise ParseError("x509: unsupported elliptic curve")
    return PublicKey(
        kind=KeyKind.ECDSA,
        info=info,
        canonical_info=_info(OID_ECDSA, der.encode_object_identifier(oid), bits),
        name=f"ECDSA-P{curve.key_size}",
        bits=curve.key_size,
        loaded=_point(curve, bits),
    )


@lru_cache(maxsize=1024)
def _p256_point(octets: bytes) -> ec.EllipticCurvePublicKey:
    """A joining node's key is read three times: in the request, and in the certificate by the signer and the server."""
    return _point(_P256, octets)


def _point(curve: ec.EllipticCurve, octets: bytes) -> ec.EllipticCurvePublicKey:
    if not octets or octets[0] != 4:
        raise ParseError("ecdsa: invalid uncompressed public key")
    if len(octets) != 1 + 2 * ((curve.key_size + 7) // 8):
        raise ParseError(f"invalid P{curve.key_size} point encoding")
    try:
        return ec.EllipticCurvePublicKey.from_encoded_point(curve, octets)
    except ValueError as error:
        raise ParseError(f"P{curve.key_size} point not on curve") from error


def _ed25519(info: bytes, parameters: bytes, bits: bytes) -> PublicKey:
    if parameters:
        raise ParseError("x509: Ed25519 key encoded with illegal parameters")
    if len(bits) != 32:
        raise ParseError("x509: wrong Ed25519 public key size")
    return PublicKey(
        kind=KeyKind.ED25519,
        info=info,
        canonical_info=_info(OID_ED25519, b"", bits),
        name="Ed25519",
        bits=256,
        loaded=ed25519.Ed25519PublicKey.from_public_bytes(bits),
    )


def _dsa(info: bytes, parameters: bytes, bits: bytes) -> PublicKey:
    """Parsed only to refuse what Go refuses: nothing signed with DSA verifies."""
    public, _ = _integer(bits, 0, len(bits), "x509: invalid DSA public key")
    numbers = [public]
    try:
        start, stop = der.expect(parameters, 0, len(parameters), der.SEQUENCE)
        for _ in range(3):
            number, start = _integer(parameters, start, stop, "x509: invalid DSA parameters")
            numbers.append(number)
    except DERError as error:
        raise ParseError("x509: invalid DSA parameters") from error
    if min(numbers) <= 0:
        raise ParseError("x509: zero or negative DSA parameter")
    return PublicKey(kind=KeyKind.DSA, info=info, canonical_info=info, name="DSA", bits=numbers[1].bit_length())


def _ml_dsa(oid: str, info: bytes, bits: bytes) -> PublicKey:
    name, load, size = _ML_DSA[oid]
    if len(bits) != size:
        # To Go the algorithm is unknown and the key not looked at.
        return PublicKey(kind=KeyKind.UNKNOWN, info=info, canonical_info=info)
    return PublicKey(
        kind=KeyKind.ML_DSA,
        info=info,
        canonical_info=_info(oid, b"", bits),
        name=name,
        loaded=load(bits),
    )
