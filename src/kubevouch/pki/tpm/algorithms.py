"""Algorithm and curve identifiers (TCG Algorithm Registry), and the hashes and curves among them that are used here."""

from __future__ import annotations

import hashlib

import msgspec
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from kubevouch.pki.errors import StructureError

RSA = 0x0001
SHA1 = 0x0004
AES = 0x0006
SHA256 = 0x000B
SHA384 = 0x000C
SHA512 = 0x000D
NULL = 0x0010
RSASSA = 0x0014
RSAES = 0x0015
RSAPSS = 0x0016
OAEP = 0x0017
ECDSA = 0x0018
ECDAA = 0x001A
ECC = 0x0023
CFB = 0x0043

P256 = 0x0003
P384 = 0x0004
P521 = 0x0005


class Hash(msgspec.Struct, frozen=True):
    """``name`` is Python's and that of PCR banks; ``size`` in octets."""

    name: str
    size: int
    algorithm: hashes.HashAlgorithm

    def digest(self, octets: bytes) -> bytes:
        return hashlib.new(self.name, octets, usedforsecurity=False).digest()


HASHES = {
    SHA1: Hash("sha1", 20, hashes.SHA1()),  # noqa: S303 - banks of it exist; nothing trusts it
    SHA256: Hash("sha256", 32, hashes.SHA256()),
    SHA384: Hash("sha384", 48, hashes.SHA384()),
    SHA512: Hash("sha512", 64, hashes.SHA512()),
}
STRONG_HASHES = frozenset({SHA256, SHA384, SHA512})
"""Those that a name, a signature or a bank may rest on."""
BANKS = {each.name: identifier for identifier, each in HASHES.items()}
"""PCR banks as people write them."""

CURVES: dict[int, ec.EllipticCurve] = {P256: ec.SECP256R1(), P384: ec.SECP384R1(), P521: ec.SECP521R1()}


def hash_of(identifier: int) -> Hash:
    """Raises :class:`StructureError` for an algorithm that is no hash known here."""
    found = HASHES.get(identifier)
    if found is None:
        raise StructureError(f"got hash algorithm {identifier:04x}, expected one of {', '.join(BANKS)}")
    return found


def strong_hash_of(identifier: int) -> Hash:
    """As :func:`hash_of`, without SHA-1."""
    if identifier not in STRONG_HASHES:
        raise StructureError(f"got hash algorithm {identifier:04x}, expected sha256, sha384 or sha512")
    return HASHES[identifier]
