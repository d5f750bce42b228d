"""Steps 11 to 23: the attestation key, and what it says of the key of the request. Pure."""

from __future__ import annotations

import hashlib
import hmac

from kubevouch.attestation.interface import RefusedEvidenceError
from kubevouch.pki.errors import SignatureError, StructureError
from kubevouch.pki.tpm import algorithms, attest, public_area, signatures
from kubevouch.pki.tpm.attest import Attest
from kubevouch.pki.tpm.public_area import RESIDENT, Attributes, Public
from kubevouch.pki.tpm.weak_keys import is_known_weak

SECRET_BYTES = 32

_ATTESTATION = RESIDENT | Attributes.RESTRICTED | Attributes.SIGN
_TLS = RESIDENT | Attributes.SIGN
_RSA_SCHEMES = frozenset({algorithms.RSASSA, algorithms.RSAPSS})
_LEAST_RSA_BITS = 2048


def verify_attestation_key(public: bytes) -> Public:
    """The key in a TPM2B_PUBLIC, if all that it signs is what its TPM has made.

    Raises:
        RefusedEvidenceError: ``structure``, ``ak-attributes``, ``ak-scheme``, ``weak-key``.
    """
    try:
        key = public_area.parse(public, "the attestation key")
        key.name()
    except StructureError as err:
        raise RefusedEvidenceError("structure", str(err)) from err
    if not key.has(_ATTESTATION) or key.attributes & Attributes.DECRYPT:
        raise RefusedEvidenceError(
            "ak-attributes",
            f"got attributes {key.attributes:08x}, expected a restricted signing key that is made in its TPM and fixed "
            "there: any other key signs whatever it is given",
        )
    expected = _RSA_SCHEMES if key.type == algorithms.RSA else {algorithms.ECDSA}
    if key.scheme[0] not in expected or key.scheme[1] not in algorithms.STRONG_HASHES or not _is_long(key):
        raise RefusedEvidenceError(
            "ak-scheme",
            f"got {key.kind} with {key.scheme[0]:04x} over {key.scheme[1]:04x}, expected RSASSA, RSAPSS or ECDSA over "
            "SHA-256 or longer, with RSA of 2048 bits or P-256 and up",
        )
    if is_known_weak(key):
        raise RefusedEvidenceError("weak-key", "the attestation key is one of CVE-2017-15361")
    try:
        key.key()
    except StructureError as err:
        raise RefusedEvidenceError("structure", str(err)) from err
    return key


def verify_activation(ak: Public, name: bytes, issued: bytes, returned: bytes) -> None:
    """The TPM of the endorsement key, and no other, has this attestation key.

    Args:
        name: that the credential was made for.
        issued: hexadecimal SHA-256 of the secret in it, in ASCII.
        returned: what came back.

    Raises:
        RefusedEvidenceError: ``ak-name``, ``secret``.
    """
    if not hmac.compare_digest(ak.name(), name):
        raise RefusedEvidenceError("ak-name", "the credential was made for another attestation key")
    if not hmac.compare_digest(hashlib.sha256(returned).hexdigest().encode(), issued):
        raise RefusedEvidenceError("secret", "the secret is not the one in the credential: another TPM has answered")


def verify_signed(
    ak: Public, octets: bytes, signature: bytes, *, plain: bool, expected: int, extra_data: bytes, prefix: str = ""
) -> Attest:
    """What ``ak`` has signed, if it is of the ``expected`` type and made for ``extra_data``.

    Args:
        octets: TPMS_ATTEST.
        signature: TPMT_SIGNATURE or, ``plain``, RSA's octets or ECDSA in DER.
        prefix: before the steps that certifications and quotes have both.

    Raises:
        RefusedEvidenceError: ``structure``, ``signature``, ``magic``, ``attest-type``, ``extra-data``.
    """
    try:
        said = attest.parse(octets, expected)
        scheme, bare = (None, signature) if plain else signatures.plain(signature)
    except StructureError as err:
        raise RefusedEvidenceError(f"{prefix}structure", str(err)) from err
    if len(bare) > signatures.MAX_SIGNATURE_BYTES:
        raise RefusedEvidenceError(f"{prefix}structure", f"got a signature of {len(bare)} bytes")
    try:
        signatures.verify(ak, octets, bare, scheme)
    except SignatureError as err:
        raise RefusedEvidenceError(f"{prefix}signature", str(err)) from err
    # Behind the signature: a restricted key signs anything but what begins so, and only the TPM itself begins so.
    if said.magic != attest.GENERATED:
        raise RefusedEvidenceError(f"{prefix}magic", f"got {said.magic:08x}: the key has signed what no TPM has made")
    if said.type != expected:
        raise RefusedEvidenceError(
            f"{prefix}attest-type", f"got type {said.type:04x}, expected {attest.TYPES[expected]} ({expected:04x})"
        )
    if not hmac.compare_digest(said.extra_data, extra_data):
        raise RefusedEvidenceError(
            f"{prefix}extra-data", "it was made for another nonce or another key than those of this request"
        )
    return said


def verify_key(said: Attest, public: bytes, spki: bytes, creation_data: bytes = b"") -> Public:
    """The key that a certification, or a creation, is about, if it is the request's and cannot leave its TPM.

    Args:
        public: TPM2B_PUBLIC.
        spki: the request's key.
        creation_data: TPM2B_CREATION_DATA of a creation.

    Raises:
        RefusedEvidenceError: ``structure``, ``name``, ``creation-hash``, ``key-attributes``, ``key-size``,
            ``weak-key``, ``csr-key``.
    """
    try:
        key = public_area.parse(public, "the key")
        name = key.name()
        created = attest.creation_data(creation_data) if said.type == attest.CREATION else b""
    except StructureError as err:
        raise RefusedEvidenceError("structure", str(err)) from err
    if not hmac.compare_digest(name, said.name):
        raise RefusedEvidenceError("name", "the public area is not that of the key which the TPM speaks of")
    if said.type == attest.CREATION:
        digest = algorithms.strong_hash_of(key.name_algorithm).digest(created)
        if not hmac.compare_digest(digest, said.creation_hash):
            raise RefusedEvidenceError("creation-hash", "the creation data are not those that the TPM speaks of")
    if not key.has(_TLS) or key.attributes & (Attributes.RESTRICTED | Attributes.DECRYPT):
        raise RefusedEvidenceError(
            "key-attributes",
            f"got attributes {key.attributes:08x}, expected a signing key, neither restricted nor for decryption, that "
            "is made in its TPM and fixed there",
        )
    if not _is_long(key):
        raise RefusedEvidenceError("key-size", f"got {key.kind}, expected RSA of 2048 bits or P-256 and up")
    if is_known_weak(key):
        raise RefusedEvidenceError("weak-key", "the key is one of CVE-2017-15361: its private half can be computed")
    try:
        own = key.spki()
    except StructureError as err:
        raise RefusedEvidenceError("structure", str(err)) from err
    if own != spki:
        raise RefusedEvidenceError("csr-key", "the key that the TPM speaks of is not the key of the request")
    return key


def _is_long(key: Public) -> bool:
    return key.bits >= _LEAST_RSA_BITS if key.type == algorithms.RSA else key.curve in algorithms.CURVES
