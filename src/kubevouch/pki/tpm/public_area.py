"""TPMT_PUBLIC: what is public of an object in a TPM, and its name (TPM 2.0 Library, Part 2, 12.2; Part 1, 16)."""

from __future__ import annotations

from enum import IntFlag

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from kubevouch.pki.errors import StructureError
from kubevouch.pki.tpm import algorithms
from kubevouch.pki.tpm.marshalling import Reader, sized, u16, u32, unsized

MAX_PUBLIC_BYTES = 1024
"""Of a TPMT_PUBLIC; that of an RSA-4096 key has 598."""
_MAX_POLICY_BYTES = 64
_MAX_MODULUS_BYTES = 512
_MAX_COORDINATE_BYTES = 66
_DEFAULT_EXPONENT = 65537
_SYMMETRIC_WITH_MODE = frozenset({algorithms.AES, 0x0003, 0x0013, 0x0026})
_SCHEMES_WITH_HASH = frozenset({0x0014, 0x0016, 0x0017, 0x0018, 0x0019, 0x001A, 0x001B, 0x001C, 0x001D})
_KDFS = frozenset({0x0007, 0x0020, 0x0021, 0x0022})


class Attributes(IntFlag):
    """TPMA_OBJECT, those that matter here."""

    FIXED_TPM = 1 << 1
    """It cannot leave this TPM."""
    FIXED_PARENT = 1 << 4
    """It cannot be given to another parent."""
    SENSITIVE_DATA_ORIGIN = 1 << 5
    """The TPM made the private half itself."""
    USER_WITH_AUTH = 1 << 6
    ADMIN_WITH_POLICY = 1 << 7
    NO_DA = 1 << 10
    RESTRICTED = 1 << 16
    """It signs only what the TPM itself has made, or decrypts only what belongs to the TPM."""
    DECRYPT = 1 << 17
    SIGN = 1 << 18


RESIDENT = Attributes.FIXED_TPM | Attributes.FIXED_PARENT | Attributes.SENSITIVE_DATA_ORIGIN
"""Made in a TPM, and never anywhere else."""


class Public(msgspec.Struct, frozen=True, kw_only=True):
    """A public area. Make one to ask a TPM for an object; :func:`parse_area` reads what came from one.

    Args:
        type: ``algorithms.RSA`` or ``ECC``.
        attributes: TPMA_OBJECT with every bit that is set, known here or not.
        symmetric: algorithm, size in bits and mode that a storage or endorsement key protects with; all zero for none.
        scheme: algorithm and hash; ``(NULL, 0)`` for none.
        bits: of the modulus; zero for a curve.
        exponent: as it stands there: zero means 65537.
        curve: the TPM's number of it; zero for RSA.
        kdf: likewise as ``scheme``.
        unique: the modulus alone, or both coordinates of the point. Empty in a template.
    """

    type: int
    name_algorithm: int
    attributes: int
    auth_policy: bytes = b""
    symmetric: tuple[int, int, int] = (0, 0, 0)
    scheme: tuple[int, int] = (algorithms.NULL, 0)
    bits: int = 0
    exponent: int = 0
    curve: int = 0
    kdf: tuple[int, int] = (algorithms.NULL, 0)
    unique: tuple[bytes, ...] = ()

    def has(self, wanted: Attributes) -> bool:
        """Whether all of them are set."""
        return self.attributes & wanted == wanted

    def encode_area(self) -> bytes:
        """The TPMT_PUBLIC."""
        parts = [u16(self.type), u16(self.name_algorithm), u32(self.attributes), sized(self.auth_policy)]
        symmetric = self.symmetric
        parts.append(b"".join(map(u16, symmetric)) if symmetric[0] else u16(algorithms.NULL))
        parts.append(_encode_scheme(self.scheme))
        if self.type == algorithms.RSA:
            parts += [u16(self.bits), u32(self.exponent), sized(self.unique[0] if self.unique else b"")]
        else:
            parts += [u16(self.curve), _encode_scheme(self.kdf)]
            parts += [sized(each) for each in self.unique or (b"", b"")]
        return b"".join(parts)

    def encode(self) -> bytes:
        """The TPM2B_PUBLIC."""
        return sized(self.encode_area())

    def name(self) -> bytes:
        """What the TPM knows the object by: the algorithm and the hash of the TPMT_PUBLIC.

        Raises:
            StructureError: its algorithm is none that a name can rest on.
        """
        digest = algorithms.strong_hash_of(self.name_algorithm)
        return u16(self.name_algorithm) + digest.digest(self.encode_area())

    def key(self) -> rsa.RSAPublicKey | ec.EllipticCurvePublicKey:
        """Raises :class:`StructureError` when it is no key: a point that is not on its curve, an even modulus."""
        try:
            if self.type == algorithms.RSA:
                exponent = self.exponent or _DEFAULT_EXPONENT
                if not self.unique[0][-1] & 1:
                    raise StructureError("the public area holds no usable key: an even modulus")
                return rsa.RSAPublicNumbers(exponent, int.from_bytes(self.unique[0], "big")).public_key()
            curve = algorithms.CURVES.get(self.curve)
            if curve is None:
                raise StructureError(f"got curve {self.curve:04x}, expected P-256, P-384 or P-521")
            x, y = (int.from_bytes(each, "big") for each in self.unique)
            return ec.EllipticCurvePublicNumbers(x, y, curve).public_key()
        except ValueError as err:
            raise StructureError(f"the public area holds no usable key: {err}") from err

    def spki(self) -> bytes:
        """The SubjectPublicKeyInfo of the key in DER. Raises :class:`StructureError`."""
        return self.key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)

    @property
    def kind(self) -> str:
        """Such as ``RSA-2048`` and ``ECC-P256``."""
        if self.type == algorithms.RSA:
            return f"RSA-{self.bits}"
        curve = algorithms.CURVES.get(self.curve)
        return f"ECC-P{curve.key_size}" if curve is not None else f"ECC-{self.curve:04x}"


def parse(octets: bytes, what: str = "TPM2B_PUBLIC") -> Public:
    """The object in a TPM2B_PUBLIC. Raises :class:`StructureError`."""
    return parse_area(unsized(octets, what, MAX_PUBLIC_BYTES), what)


def parse_area(octets: bytes, what: str = "TPMT_PUBLIC") -> Public:
    """The object in a bare TPMT_PUBLIC.

    Raises:
        StructureError: anything but one whole RSA or ECC object.
    """
    reader = Reader(octets, what)
    if reader.left > MAX_PUBLIC_BYTES:
        raise reader.refusal(f"got {reader.left} bytes, expected at most {MAX_PUBLIC_BYTES}")
    kind = reader.integer(2)
    if kind not in {algorithms.RSA, algorithms.ECC}:
        raise reader.refusal(f"got an object of type {kind:04x}, expected RSA or ECC")
    name_algorithm, attributes = reader.integer(2), reader.integer(4)
    policy = reader.sized(_MAX_POLICY_BYTES)
    symmetric, scheme = _symmetric(reader), _scheme(reader, _SCHEMES_WITH_HASH)
    if kind == algorithms.RSA:
        bits, exponent, unique = reader.integer(2), reader.integer(4), (reader.sized(_MAX_MODULUS_BYTES),)
        if len(unique[0]) * 8 != bits or not unique[0] or unique[0][0] < 0x80:
            raise reader.refusal(f"got a modulus of {len(unique[0])} bytes, expected one of {bits} bits")
        area = Public(
            type=kind, name_algorithm=name_algorithm, attributes=attributes, auth_policy=policy, symmetric=symmetric,
            scheme=scheme, bits=bits, exponent=exponent, unique=unique,
        )  # fmt: skip
    else:
        curve, kdf = reader.integer(2), _scheme(reader, _KDFS)
        point = (reader.sized(_MAX_COORDINATE_BYTES), reader.sized(_MAX_COORDINATE_BYTES))
        area = Public(
            type=kind, name_algorithm=name_algorithm, attributes=attributes, auth_policy=policy, symmetric=symmetric,
            scheme=scheme, curve=curve, kdf=kdf, unique=point,
        )  # fmt: skip
    reader.end()
    return area


def _symmetric(reader: Reader) -> tuple[int, int, int]:
    algorithm = reader.integer(2)
    if algorithm == algorithms.NULL:
        return (0, 0, 0)
    if algorithm not in _SYMMETRIC_WITH_MODE:
        raise reader.refusal(f"got symmetric algorithm {algorithm:04x}, expected a block cipher or none")
    return algorithm, reader.integer(2), reader.integer(2)


def _scheme(reader: Reader, with_hash: frozenset[int]) -> tuple[int, int]:
    algorithm = reader.integer(2)
    if algorithm in {algorithms.NULL, algorithms.RSAES}:
        return algorithm, 0
    if algorithm not in with_hash:
        raise reader.refusal(f"got scheme {algorithm:04x}, which no key has")
    if algorithm == algorithms.ECDAA:
        raise reader.refusal("got an ECDAA key, which nothing here reads")
    return algorithm, reader.integer(2)


def _encode_scheme(scheme: tuple[int, int]) -> bytes:
    return u16(scheme[0]) if scheme[0] in {algorithms.NULL, algorithms.RSAES} else u16(scheme[0]) + u16(scheme[1])
