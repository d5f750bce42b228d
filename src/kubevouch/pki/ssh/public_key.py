"""SSH's public keys and signatures (RFC 4253 section 6.6, RFC 5656, RFC 8332, RFC 8709).

SHA-1 signs nothing, DSA is no key, and keys of security tokens are none of hosts.
"""

from __future__ import annotations

from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils

from kubevouch.pki.errors import SSHError
from kubevouch.pki.ssh.wire import Reader, base64_octets, string

ED25519, RSA = "ssh-ed25519", "ssh-rsa"
_CURVES: dict[str, tuple[ec.EllipticCurve, hashes.HashAlgorithm]] = {
    "nistp256": (ec.SECP256R1(), hashes.SHA256()),
    "nistp384": (ec.SECP384R1(), hashes.SHA384()),
    "nistp521": (ec.SECP521R1(), hashes.SHA512()),
}
_RSA_SIGNATURES = {"rsa-sha2-256": hashes.SHA256(), "rsa-sha2-512": hashes.SHA512()}
_RSA_BITS = range(2048, 8192 + 1)
_MAX_LINE = 16 << 10


class PublicKey(msgspec.Struct, frozen=True):
    """``blob`` is the key as SSH writes it, by which keys are compared; ``loaded`` is for ``cryptography``."""

    type: str
    blob: bytes
    loaded: Any

    def verify(self, signature: bytes, message: bytes) -> None:
        """Verify an SSH signature, which names its own algorithm.

        Raises:
            SSHError: ``structure``; ``signature-form`` for an algorithm that is not one of this key, or uses SHA-1;
                ``signature``.
        """
        reader = Reader(signature)
        algorithm, octets = reader.text(), reader.string()
        reader.end()
        expected = tuple(_RSA_SIGNATURES) if self.type == RSA else (self.type,)
        if algorithm not in expected:
            raise SSHError("signature-form", f"got a signature {algorithm[:64]!r}, expected {' or '.join(expected)}")
        try:
            self._verify(algorithm, octets, message)
        except (InvalidSignature, ValueError) as err:
            raise SSHError("signature", f"the {self.type} key has not signed this") from err

    def _verify(self, algorithm: str, octets: bytes, message: bytes) -> None:
        if self.type == ED25519:
            self.loaded.verify(octets, message)
        elif self.type == RSA:
            self.loaded.verify(octets, message, padding.PKCS1v15(), _RSA_SIGNATURES[algorithm])
        else:
            reader = Reader(octets)
            both = reader.unsigned(), reader.unsigned()
            reader.end()
            digest = _CURVES[self.type.removeprefix("ecdsa-sha2-")][1]
            self.loaded.verify(utils.encode_dss_signature(*both), message, ec.ECDSA(digest))


def parse_blob(blob: bytes) -> PublicKey:
    """The key in ``blob``. Raises :class:`SSHError`: ``structure``, ``key-type``, ``key-size``."""
    reader = Reader(blob)
    key = read_key(reader, reader.text())
    reader.end()
    return key


def parse_line(line: str) -> PublicKey:
    """The key of a line such as ``ssh-ed25519 AAAA… comment``. Raises :class:`SSHError`."""
    kind, blob = split_line(line)
    key = parse_blob(blob)
    if key.type != kind:
        raise SSHError("structure", f"the line says {kind[:64]!r} and its key {key.type}")
    return key


def split_line(line: str) -> tuple[str, bytes]:
    """What a line says that it holds, and the octets. Raises :class:`SSHError`: ``size``, ``structure``."""
    if len(line) > _MAX_LINE:
        raise SSHError("size", f"got a line of {len(line)} characters, expected at most {_MAX_LINE}")
    words = line.split(None, 2)
    if len(words) < 2 or "\n" in line.strip():
        raise SSHError("structure", "expected one line with a type and a key")
    return words[0], base64_octets(words[1])


def read_key(reader: Reader, kind: str) -> PublicKey:
    """The key of this type whose fields come next, as a certificate has them. Raises :class:`SSHError`."""
    try:
        if kind == ED25519:
            point = reader.string()
            loaded: Any = ed25519.Ed25519PublicKey.from_public_bytes(point)
            return PublicKey(kind, string(kind.encode()) + string(point), loaded)
        if kind == RSA:
            return _rsa(reader)
        curve = _CURVES.get(kind.removeprefix("ecdsa-sha2-")) if kind.startswith("ecdsa-sha2-") else None
        if curve is not None:
            name, point = reader.text(), reader.string()
            if f"ecdsa-sha2-{name}" != kind or not point.startswith(b"\x04"):
                raise SSHError("structure", f"got no point of the curve of {kind}")
            loaded = ec.EllipticCurvePublicKey.from_encoded_point(curve[0], point)
            return PublicKey(kind, string(kind.encode()) + string(name.encode()) + string(point), loaded)
    except ValueError as err:
        raise SSHError("structure", f"got no key {kind}: {err}") from err
    raise SSHError("key-type", f"got a key {kind[:64]!r}, expected {ED25519}, {RSA} or ecdsa-sha2-nistp256 and up")


def _rsa(reader: Reader) -> PublicKey:
    start = reader.position
    exponent, modulus = reader.unsigned(), reader.unsigned()
    if modulus.bit_length() not in _RSA_BITS:
        raise SSHError(
            "key-size", f"got RSA with {modulus.bit_length()} bits, expected {_RSA_BITS[0]} to {_RSA_BITS[-1]}"
        )
    if exponent.bit_length() > 32:
        raise SSHError("structure", "got an RSA exponent above 32 bits")
    loaded = rsa.RSAPublicNumbers(exponent, modulus).public_key()
    return PublicKey(RSA, string(RSA.encode()) + reader.since(start), loaded)
