"""Signature algorithms: which there are, how Go (1.26) judges them, verifying and making signatures.

MD5 never verifies, SHA-1 only where the caller says so (Go does for certificate requests), RSA under 1024 bits and DSA
never.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import msgspec
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, mldsa, padding, rsa

from kubevouch.pki.errors import DERError, KeyMaterialError, SignatureError
from kubevouch.pki.x509 import der
from kubevouch.pki.x509.public_key import (
    OID_ML_DSA_44,
    OID_ML_DSA_65,
    OID_ML_DSA_87,
    KeyKind,
    PublicKey,
    split_identifier,
)

PrivateKey = (
    rsa.RSAPrivateKey
    | ec.EllipticCurvePrivateKey
    | ed25519.Ed25519PrivateKey
    | mldsa.MLDSA44PrivateKey
    | mldsa.MLDSA65PrivateKey
    | mldsa.MLDSA87PrivateKey
)


class Digest(StrEnum):
    """Empty where the algorithm hashes by itself."""

    NONE = ""
    MD5 = "MD5"
    SHA1 = "SHA1"
    SHA256 = "SHA256"
    SHA384 = "SHA384"
    SHA512 = "SHA512"


class SignatureAlgorithm(msgspec.Struct, frozen=True):
    """``name`` is Go's; ``pss`` tells RSASSA-PSS from PKCS #1 v1.5."""

    name: str
    kind: KeyKind
    digest: Digest = Digest.NONE
    pss: bool = False


UNKNOWN = SignatureAlgorithm("0", KeyKind.UNKNOWN)
_BY_OID = {
    "1.2.840.113549.1.1.4": SignatureAlgorithm("MD5-RSA", KeyKind.RSA, Digest.MD5),
    "1.2.840.113549.1.1.5": SignatureAlgorithm("SHA1-RSA", KeyKind.RSA, Digest.SHA1),
    # ISO's OID for the same algorithm, which old tools wrote.
    "1.3.14.3.2.29": SignatureAlgorithm("SHA1-RSA", KeyKind.RSA, Digest.SHA1),
    "1.2.840.113549.1.1.11": SignatureAlgorithm("SHA256-RSA", KeyKind.RSA, Digest.SHA256),
    "1.2.840.113549.1.1.12": SignatureAlgorithm("SHA384-RSA", KeyKind.RSA, Digest.SHA384),
    "1.2.840.113549.1.1.13": SignatureAlgorithm("SHA512-RSA", KeyKind.RSA, Digest.SHA512),
    "1.2.840.10040.4.3": SignatureAlgorithm("DSA-SHA1", KeyKind.DSA, Digest.SHA1),
    "2.16.840.1.101.3.4.3.2": SignatureAlgorithm("DSA-SHA256", KeyKind.DSA, Digest.SHA256),
    "1.2.840.10045.4.1": SignatureAlgorithm("ECDSA-SHA1", KeyKind.ECDSA, Digest.SHA1),
    "1.2.840.10045.4.3.2": SignatureAlgorithm("ECDSA-SHA256", KeyKind.ECDSA, Digest.SHA256),
    "1.2.840.10045.4.3.3": SignatureAlgorithm("ECDSA-SHA384", KeyKind.ECDSA, Digest.SHA384),
    "1.2.840.10045.4.3.4": SignatureAlgorithm("ECDSA-SHA512", KeyKind.ECDSA, Digest.SHA512),
    "1.3.101.112": SignatureAlgorithm("Ed25519", KeyKind.ED25519),
    OID_ML_DSA_44: SignatureAlgorithm("ML-DSA-44", KeyKind.ML_DSA),
    OID_ML_DSA_65: SignatureAlgorithm("ML-DSA-65", KeyKind.ML_DSA),
    OID_ML_DSA_87: SignatureAlgorithm("ML-DSA-87", KeyKind.ML_DSA),
}
_WITHOUT_PARAMETERS = {KeyKind.ED25519, KeyKind.ML_DSA}
_OID_PSS = "1.2.840.113549.1.1.10"
_OID_MGF1 = "1.2.840.113549.1.1.8"
_PSS_DIGESTS = {
    ("2.16.840.1.101.3.4.2.1", 32): SignatureAlgorithm("SHA256-RSAPSS", KeyKind.RSA, Digest.SHA256, pss=True),
    ("2.16.840.1.101.3.4.2.2", 48): SignatureAlgorithm("SHA384-RSAPSS", KeyKind.RSA, Digest.SHA384, pss=True),
    ("2.16.840.1.101.3.4.2.3", 64): SignatureAlgorithm("SHA512-RSAPSS", KeyKind.RSA, Digest.SHA512, pss=True),
}
_HASHES: dict[Digest, Callable[[], hashes.HashAlgorithm]] = {
    Digest.SHA1: hashes.SHA1,
    Digest.SHA256: hashes.SHA256,
    Digest.SHA384: hashes.SHA384,
    Digest.SHA512: hashes.SHA512,
}
_ECDSA = {digest: ec.ECDSA(make()) for digest, make in _HASHES.items()}

# The contents of the identifier of nearly every request and certificate seen.
_ECDSA_SHA256_IDENTIFIER = bytes.fromhex("06082a8648ce3d040302")
_ECDSA_SHA256 = _BY_OID["1.2.840.10045.4.3.2"]


def algorithm_of(identifier: bytes) -> SignatureAlgorithm:
    """The algorithm in the contents of an AlgorithmIdentifier; what Go does not know is :data:`UNKNOWN`.

    Raises:
        DERError: the identifier is malformed.
    """
    if identifier == _ECDSA_SHA256_IDENTIFIER:
        return _ECDSA_SHA256
    oid, parameters = split_identifier(identifier)
    if oid == _OID_PSS:
        try:
            return _pss(parameters)
        except DERError:
            return UNKNOWN
    algorithm = _BY_OID.get(oid, UNKNOWN)
    return UNKNOWN if parameters and algorithm.kind in _WITHOUT_PARAMETERS else algorithm


def algorithm_for(key: PublicKey) -> SignatureAlgorithm:
    """What :func:`signing` uses for the private half of ``key``; of what never signs :data:`UNKNOWN`."""
    if key.kind is KeyKind.ECDSA:
        signer = _ECDSA_SIGNERS.get(key.bits)
        return algorithm_of(signer[0][2:]) if signer is not None else UNKNOWN
    if key.kind is KeyKind.RSA:
        return algorithm_of(_RSA_IDENTIFIERS[Digest.SHA256][2:])
    return next((each for each in _BY_OID.values() if each.kind is key.kind and key.name == each.name), UNKNOWN)


def _pss(parameters: bytes) -> SignatureAlgorithm:
    """Only three settings are let through: MGF1 with the same hash, salt as long as the hash, trailer field 1."""
    position, stop = der.expect(parameters, 0, len(parameters), der.SEQUENCE)
    digest, position = _explicit(parameters, position, stop, 0xA0, der.SEQUENCE)
    mask, position = _explicit(parameters, position, stop, 0xA1, der.SEQUENCE)
    salt, position = _explicit(parameters, position, stop, 0xA2, der.INTEGER)
    trailer = 1
    if position < stop and parameters[position] == 0xA3:
        trailer = der.int64(_explicit(parameters, position, stop, 0xA3, der.INTEGER)[0])
    digest_oid, digest_parameters = split_identifier(digest)
    mask_oid, mask_parameters = split_identifier(mask)
    start, end = der.expect(mask_parameters, 0, len(mask_parameters), der.SEQUENCE)
    inner_oid, inner_parameters = split_identifier(mask_parameters[start:end])
    plain = {digest_parameters, inner_parameters} <= {b"", b"\x05\x00"}
    if mask_oid != _OID_MGF1 or inner_oid != digest_oid or not plain or trailer != 1:
        return UNKNOWN
    return _PSS_DIGESTS.get((digest_oid, der.int64(salt)), UNKNOWN)


def _explicit(octets: bytes, position: int, end: int, tag: int, inner: int) -> tuple[bytes, int]:
    """The contents of the element inside an explicit tag, and the position behind it.

    Like ``encoding/asn1``, this takes no notice of the length of the tag around it, as long as it is not zero.
    """
    identifier, start, stop = der.header(octets, position, end)
    if identifier != tag or start == stop:
        raise der.structure_error("explicitly tagged member didn't match")
    begin, limit = der.expect(octets, start, end, inner)
    return octets[begin:limit], limit


_UNIMPLEMENTED = "x509: cannot verify signature: algorithm unimplemented"
_GO_KEY_TYPES = {KeyKind.RSA: "*rsa.PublicKey", KeyKind.ECDSA: "*ecdsa.PublicKey", KeyKind.ED25519: "ed25519.PublicKey"}
_MIN_RSA_BITS = 1024
_MAX_RSA_EXPONENT = (1 << 31) - 1


def verify(
    algorithm: SignatureAlgorithm,
    key: PublicKey,
    signed: bytes,
    signature: bytes,
    *,
    allow_sha1: bool = False,
    post_quantum: bool = False,
) -> None:
    """Verify ``signature`` over ``signed``; the algorithm must be one for this kind of key.

    Args:
        allow_sha1: let SHA-1 pass.
        post_quantum: let ML-DSA pass, which Kubernetes 1.36 does not know.

    Raises:
        SignatureError: it does not verify, or must not; with Go's text.
    """
    if algorithm.kind is KeyKind.ML_DSA and post_quantum:
        _verify_ml_dsa(algorithm, key, signed, signature)
        return
    if algorithm.digest is Digest.NONE and algorithm.kind is not KeyKind.ED25519:
        raise SignatureError(_UNIMPLEMENTED)
    if algorithm.digest is Digest.MD5 or (algorithm.digest is Digest.SHA1 and not allow_sha1):
        raise SignatureError(f"x509: cannot verify signature: insecure algorithm {algorithm.name}")
    if key.kind not in _GO_KEY_TYPES:
        raise SignatureError(_UNIMPLEMENTED)
    if algorithm.kind is not key.kind:
        raise SignatureError(
            f"x509: signature algorithm specifies an {algorithm.kind} public key, but have public key of type "
            f"{_GO_KEY_TYPES[key.kind]}"
        )
    if key.kind is KeyKind.RSA:
        _verify_rsa(algorithm, key, signed, signature)
    else:
        _verify_curve(algorithm, key, signed, signature)


def _verify_curve(algorithm: SignatureAlgorithm, key: PublicKey, signed: bytes, signature: bytes) -> None:
    try:
        if key.kind is KeyKind.ECDSA:
            key.key().verify(signature, signed, _ECDSA[algorithm.digest])
        else:
            key.key().verify(signature, signed)
    except InvalidSignature as error:
        raise SignatureError(f"x509: {key.kind} verification failure") from error


def _verify_rsa(algorithm: SignatureAlgorithm, key: PublicKey, signed: bytes, signature: bytes) -> None:
    if key.bits < _MIN_RSA_BITS:
        raise SignatureError(
            f"crypto/rsa: {key.bits}-bit keys are insecure (see https://go.dev/pkg/crypto/rsa#hdr-Minimum_key_size)"
        )
    if not key.odd_modulus:
        raise SignatureError("crypto/rsa: public modulus is even")
    if key.exponent < 2:
        raise SignatureError("crypto/rsa: public exponent too small or negative")
    if not key.exponent & 1:
        raise SignatureError("crypto/rsa: public exponent is even")
    if key.exponent > _MAX_RSA_EXPONENT:
        raise SignatureError("crypto/rsa: public exponent too large")
    digest = _HASHES[algorithm.digest]()
    scheme: padding.AsymmetricPadding = padding.PKCS1v15()
    if algorithm.pss:
        scheme = padding.PSS(padding.MGF1(digest), digest.digest_size)
    try:
        key.key().verify(signature, signed, scheme, digest)
    # A modulus or exponent that OpenSSL does not work with is refused here though Go would compute it: it bounds the
    # work.
    except (InvalidSignature, KeyMaterialError, UnsupportedAlgorithm, ValueError) as error:
        raise SignatureError("crypto/rsa: verification error") from error


def _verify_ml_dsa(algorithm: SignatureAlgorithm, key: PublicKey, signed: bytes, signature: bytes) -> None:
    if key.name != algorithm.name:
        raise SignatureError(f"signature algorithm specifies {algorithm.name}, but the public key is {key.name}")
    try:
        key.key().verify(signature, signed)
    except InvalidSignature as error:
        raise SignatureError(f"x509: {algorithm.name} verification failure") from error


def _identifier(oid: str, parameters: bytes = b"") -> bytes:
    return der.encode(der.SEQUENCE, der.encode_object_identifier(oid), parameters)


_RSA_IDENTIFIERS = {
    Digest.SHA256: _identifier("1.2.840.113549.1.1.11", b"\x05\x00"),
    Digest.SHA384: _identifier("1.2.840.113549.1.1.12", b"\x05\x00"),
    Digest.SHA512: _identifier("1.2.840.113549.1.1.13", b"\x05\x00"),
}
_ECDSA_SIGNERS = {
    224: (_identifier("1.2.840.10045.4.3.2"), _ECDSA[Digest.SHA256]),
    256: (_identifier("1.2.840.10045.4.3.2"), _ECDSA[Digest.SHA256]),
    384: (_identifier("1.2.840.10045.4.3.3"), _ECDSA[Digest.SHA384]),
    521: (_identifier("1.2.840.10045.4.3.4"), _ECDSA[Digest.SHA512]),
}
_ED25519_IDENTIFIER = _identifier("1.3.101.112")
_ML_DSA_IDENTIFIERS = {
    "MLDSA44PrivateKey": _identifier(OID_ML_DSA_44),
    "MLDSA65PrivateKey": _identifier(OID_ML_DSA_65),
    "MLDSA87PrivateKey": _identifier(OID_ML_DSA_87),
}


class Signing(msgspec.Struct, frozen=True):
    """How one private key signs: the AlgorithmIdentifier in DER and the operation."""

    identifier: bytes
    sign: Callable[[bytes], bytes]


def signing(key: PrivateKey, *, rsa_digest: Digest = Digest.SHA256) -> Signing:
    """The algorithm Go chooses for ``key``: RSA with SHA-256, a curve with the hash of its size, Ed25519.

    Args:
        rsa_digest: kubelets hash their requests by the size of an RSA key.

    Raises:
        KeyMaterialError: a curve that is not one of the four.
    """
    if isinstance(key, rsa.RSAPrivateKey):
        digest = _HASHES[rsa_digest]()
        return Signing(_RSA_IDENTIFIERS[rsa_digest], lambda octets: key.sign(octets, padding.PKCS1v15(), digest))
    if isinstance(key, ec.EllipticCurvePrivateKey):
        signer = _ECDSA_SIGNERS.get(key.curve.key_size)
        if signer is None or key.curve.name not in {"secp224r1", "secp256r1", "secp384r1", "secp521r1"}:
            raise KeyMaterialError(
                f"no signature algorithm for curve {key.curve.name}, expected P-224, P-256, P-384 or P-521"
            )
        identifier, scheme = signer
        return Signing(identifier, lambda octets: key.sign(octets, scheme))
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return Signing(_ED25519_IDENTIFIER, key.sign)
    identifier = _ML_DSA_IDENTIFIERS.get(type(key).__name__, b"")
    if identifier:
        return Signing(identifier, key.sign)
    raise KeyMaterialError(f"no signature algorithm for a {type(key).__name__}")


def external_signing(key: PublicKey, sign: Callable[[bytes], bytes]) -> Signing:
    """The same for a private key that is elsewhere, of which ``key`` is the public half.

    Raises:
        KeyMaterialError: no algorithm signs with such keys.
    """
    if key.kind is KeyKind.RSA:
        return Signing(_RSA_IDENTIFIERS[Digest.SHA256], sign)
    if key.kind is KeyKind.ECDSA and key.bits in _ECDSA_SIGNERS:
        return Signing(_ECDSA_SIGNERS[key.bits][0], sign)
    raise KeyMaterialError(f"no signature algorithm for a {key.name} key that is elsewhere, expected RSA or ECDSA")
