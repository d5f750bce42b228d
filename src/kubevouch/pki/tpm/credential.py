"""TPM2_MakeCredential without a TPM: a secret that one TPM alone can read, and only for a key of that name.

Source: TPM 2.0 Library, Part 1, 24 (credential protection), 11.4.10.2 (KDFa), 11.4.10.3 (KDFe), B.10.4 and C.6.4 (how
a seed is given to an RSA and to an ECC key). Which hash and which cipher is the endorsement key's own choice: AES-128
with SHA-256 for the low range of EK templates, AES-256 with SHA-384 or SHA-512 for the high one.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable

import msgspec
from cryptography.hazmat.decrepit.ciphers.modes import CFB
from cryptography.hazmat.primitives.asymmetric import ec, padding
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES

from kubevouch.pki.errors import StructureError
from kubevouch.pki.tpm import algorithms
from kubevouch.pki.tpm.algorithms import Hash
from kubevouch.pki.tpm.marshalling import Reader, sized, u32
from kubevouch.pki.tpm.public_area import Public

_FILE_HEADER = bytes.fromhex("badcc0de00000001")
_IDENTITY = b"IDENTITY\0"
_STORAGE = b"STORAGE\0"
_INTEGRITY = b"INTEGRITY\0"
_AES_BITS = frozenset({128, 192, 256})
_MAX_OBJECT = 132
"""TPM2B_ID_OBJECT: two sizes, a hash and a secret, each of 64 octets at most."""
_MAX_SECRET = 512
"""TPM2B_ENCRYPTED_SECRET: as long as the largest RSA key."""


class Credential(msgspec.Struct, frozen=True, rename="camel"):
    """What TPM2_ActivateCredential takes, each without the size in front.

    Args:
        id_object: the secret, encrypted, with a MAC over it and the name.
        secret: the seed of both, for the endorsement key.
    """

    id_object: bytes
    secret: bytes

    def file(self) -> bytes:
        """As ``tpm2_makecredential`` writes it and ``tpm2_activatecredential`` reads it."""
        return _FILE_HEADER + sized(self.id_object) + sized(self.secret)


def parse_file(octets: bytes) -> Credential:
    """What :meth:`Credential.file` wrote. Raises :class:`StructureError`."""
    reader = Reader(octets, "credential file")
    if reader.octets(len(_FILE_HEADER)) != _FILE_HEADER:
        raise reader.refusal("expected badcc0de and version 1")
    credential = Credential(reader.sized(_MAX_OBJECT), reader.sized(_MAX_SECRET))
    reader.end()
    return credential


def make(endorsement_key: Public, name: bytes, secret: bytes, random: Callable[[int], bytes]) -> Credential:
    """``secret``, for the TPM that has the private half of ``endorsement_key`` and a key called ``name``.

    Args:
        name: as :meth:`Public.name` has it.
        secret: at most as long as the hash of the endorsement key.
        random: for the seed. What encrypts it takes its own randomness.

    Raises:
        StructureError: no such key protects anything.
    """
    digest = algorithms.strong_hash_of(endorsement_key.name_algorithm)
    algorithm, bits, mode = endorsement_key.symmetric
    if algorithm != algorithms.AES or bits not in _AES_BITS or mode != algorithms.CFB:
        raise StructureError(f"got an endorsement key with cipher {algorithm:04x} of {bits} bits, expected AES in CFB")
    key = endorsement_key.key()
    if isinstance(key, ec.EllipticCurvePublicKey):
        seed, encrypted = _shared_seed(key, digest)
    else:
        seed = random(digest.size)
        oaep = padding.OAEP(padding.MGF1(digest.algorithm), digest.algorithm, _IDENTITY)
        encrypted = key.encrypt(seed, oaep)
    return Credential(id_object(seed, name, secret, digest, bits), encrypted)


def id_object(seed: bytes, name: bytes, secret: bytes, digest: Hash, bits: int) -> bytes:
    """The contents of the TPM2B_ID_OBJECT. ``bits`` is the size of the AES key."""
    cipher = Cipher(AES(kdfa(digest, seed, _STORAGE, name, b"", bits)), CFB(bytes(16))).encryptor()
    encrypted = cipher.update(sized(secret)) + cipher.finalize()
    mac_key = kdfa(digest, seed, _INTEGRITY, b"", b"", digest.size * 8)
    return sized(hmac.digest(mac_key, encrypted + name, digest.name)) + encrypted


def kdfa(digest: Hash, key: bytes, label: bytes, party_u: bytes, party_v: bytes, bits: int) -> bytes:
    """SP 800-108 in counter mode. ``label`` ends with a zero octet."""
    fixed = label + party_u + party_v + u32(bits)
    made = b""
    counter = 0
    while len(made) * 8 < bits:
        counter += 1
        made += hmac.digest(key, u32(counter) + fixed, digest.name)
    return made[: bits // 8]


def kdfe(digest: Hash, shared: bytes, label: bytes, party_u: bytes, party_v: bytes, bits: int) -> bytes:
    """SP 800-56A's concatenation. All coordinates are as long as the curve; ``label`` ends with a zero octet."""
    made = b""
    counter = 0
    while len(made) * 8 < bits:
        counter += 1
        made += digest.digest(u32(counter) + shared + label + party_u + party_v)
    return made[: bits // 8]


def _shared_seed(key: ec.EllipticCurvePublicKey, digest: Hash) -> tuple[bytes, bytes]:
    """A seed that the owner of ``key`` can make too, and the TPMS_ECC_POINT that he needs for it."""
    ephemeral = ec.generate_private_key(key.curve)
    size = (key.curve.key_size + 7) // 8
    own, other = ephemeral.public_key().public_numbers(), key.public_numbers()
    x, y = own.x.to_bytes(size, "big"), own.y.to_bytes(size, "big")
    shared = ephemeral.exchange(ec.ECDH(), key)
    seed = kdfe(digest, shared, _IDENTITY, x, other.x.to_bytes(size, "big"), digest.size * 8)
    return seed, sized(x) + sized(y)
