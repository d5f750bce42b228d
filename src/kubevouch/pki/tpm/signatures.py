"""TPMT_SIGNATURE, and whether it is one of an attestation key (TPM 2.0 Library, Part 2, 11.3.4).

The key's own scheme decides how a signature is verified. What the signature says of itself has to be the same: a signer
that chooses the algorithm would choose the weakest.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, padding
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from kubevouch.pki.errors import SignatureError
from kubevouch.pki.tpm import algorithms
from kubevouch.pki.tpm.marshalling import Reader
from kubevouch.pki.tpm.public_area import Public

MAX_SIGNATURE_BYTES = 1024
_MAX_RSA = 512
_MAX_COORDINATE = 66


def plain(octets: bytes, what: str = "TPMT_SIGNATURE") -> tuple[tuple[int, int], bytes]:
    """Scheme and hash of a TPMT_SIGNATURE, and what it is without them: RSA's octets, or ECDSA's r and s in DER.

    Raises:
        StructureError: anything but one whole RSASSA, RSAPSS or ECDSA signature.
    """
    reader = Reader(octets, what)
    if reader.left > MAX_SIGNATURE_BYTES:
        raise reader.refusal(f"got {reader.left} bytes, expected at most {MAX_SIGNATURE_BYTES}")
    scheme = reader.integer(2), reader.integer(2)
    if scheme[0] in {algorithms.RSASSA, algorithms.RSAPSS}:
        signature = reader.sized(_MAX_RSA)
    elif scheme[0] == algorithms.ECDSA:
        r, s = (int.from_bytes(reader.sized(_MAX_COORDINATE), "big") for _ in range(2))
        signature = encode_dss_signature(r, s)
    else:
        raise reader.refusal(f"got signature scheme {scheme[0]:04x}, expected RSASSA, RSAPSS or ECDSA")
    reader.end()
    return scheme, signature


def verify(key: Public, signed: bytes, signature: bytes, scheme: tuple[int, int] | None = None) -> None:
    """``signature``, without its TPM form, is one by ``key`` over ``signed`` in the scheme of the key.

    Args:
        scheme: what the signature says that it is; None when it says nothing.

    Raises:
        SignatureError: it is not.
        StructureError: ``key`` is no key.
    """
    if scheme is not None and scheme != key.scheme:
        raise SignatureError(f"got a signature of scheme {_text(scheme)}, expected {_text(key.scheme)}")
    algorithm = algorithms.strong_hash_of(key.scheme[1]).algorithm
    loaded = key.key()
    try:
        if isinstance(loaded, ec.EllipticCurvePublicKey):
            loaded.verify(signature, signed, ec.ECDSA(algorithm))
        else:
            loaded.verify(signature, signed, _padding(key), algorithm)
    except (InvalidSignature, UnsupportedAlgorithm, ValueError) as err:
        raise SignatureError("the signature is not one by this key over these bytes") from err


def _padding(key: Public) -> padding.AsymmetricPadding:
    if key.scheme[0] == algorithms.RSAPSS:
        # TPMs differ in the salt that they take: as long as the hash, or as long as fits (Part 1, B.7).
        algorithm = algorithms.strong_hash_of(key.scheme[1]).algorithm
        return padding.PSS(padding.MGF1(algorithm), padding.PSS.AUTO)
    return padding.PKCS1v15()


def _text(scheme: tuple[int, int]) -> str:
    return f"{scheme[0]:04x} with {scheme[1]:04x}"
