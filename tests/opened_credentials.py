"""What a TPM does with a credential, by the private half of an endorsement key that is known: for tests only.

Written for its own sake, without the functions that make one (TPM 2.0 Library, Part 1, 24.5).
"""

from __future__ import annotations

import hashlib
import hmac

from cryptography.hazmat.decrepit.ciphers.modes import CFB
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES

from kubevouch.attestation.interface import RefusedEvidenceError
from kubevouch.pki.tpm.credential import Credential

_HASHES: dict[str, hashes.HashAlgorithm] = {
    "sha256": hashes.SHA256(), "sha384": hashes.SHA384(), "sha512": hashes.SHA512(),
}  # fmt: skip


def opened(
    credential: Credential,
    private: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey,
    name: bytes,
    digest: str = "sha256",
    bits: int = 128,
) -> bytes:
    """The secret.

    Raises:
        RefusedEvidenceError: ``integrity``, as TPM_RC_INTEGRITY.
    """
    size = hashlib.new(digest).digest_size
    seed = _seed(credential.secret, private, digest)
    mac_size = int.from_bytes(credential.id_object[:2], "big")
    mac, encrypted = credential.id_object[2 : 2 + mac_size], credential.id_object[2 + mac_size :]
    key = _derived(digest, seed, b"INTEGRITY\0", b"", size)
    if not hmac.compare_digest(mac, hmac.digest(key, encrypted + name, digest)):
        raise RefusedEvidenceError("integrity", "the MAC is another one")
    cipher = Cipher(AES(_derived(digest, seed, b"STORAGE\0", name, bits // 8)), CFB(bytes(16))).decryptor()
    clear = cipher.update(encrypted) + cipher.finalize()
    assert int.from_bytes(clear[:2], "big") == len(clear) - 2
    return clear[2:]


def _seed(secret: bytes, private: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, digest: str) -> bytes:
    if isinstance(private, rsa.RSAPrivateKey):
        algorithm = _HASHES[digest]
        try:
            return private.decrypt(secret, padding.OAEP(padding.MGF1(algorithm), algorithm, b"IDENTITY\0"))
        except ValueError as err:
            raise RefusedEvidenceError("integrity", "the seed is for another key") from err
    size = (private.curve.key_size + 7) // 8
    if not len(secret) == 4 + 2 * size or not secret[:2] == secret[2 + size : 4 + size] == size.to_bytes(2, "big"):
        raise RefusedEvidenceError("structure", "the secret is no point of this curve")
    x, y = (int.from_bytes(secret[start : start + size], "big") for start in (2, 4 + size))
    shared = private.exchange(ec.ECDH(), ec.EllipticCurvePublicNumbers(x, y, private.curve).public_key())
    own = private.public_key().public_numbers().x.to_bytes(size, "big")
    return hashlib.new(digest, b"\0\0\0\1" + shared + b"IDENTITY\0" + secret[2 : 2 + size] + own).digest()


def _derived(digest: str, key: bytes, label: bytes, party: bytes, size: int) -> bytes:
    return hmac.digest(key, b"\0\0\0\1" + label + party + (size * 8).to_bytes(4, "big"), digest)[:size]
