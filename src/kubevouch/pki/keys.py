"""Private keys: made by kubeadm's spelling, read and written as Kubernetes does.

Kubernetes writes RSA keys as PKCS #1 and EC keys as SEC 1, and reads those and PKCS #8 whatever the PEM label says.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Protocol, runtime_checkable

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, mldsa, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
)

from kubevouch.machinery.text.gotext import quote, string_slice
from kubevouch.pki.errors import KeyMaterialError, ParseError
from kubevouch.pki.x509 import der, pem, public_key
from kubevouch.pki.x509.public_key import CURVES, PublicKey
from kubevouch.pki.x509.signature import PrivateKey


class KeyAlgorithm(StrEnum):
    """The first five are kubeadm's ``encryptionAlgorithm``; ML-DSA stands behind a gate."""

    RSA_2048 = "RSA-2048"
    RSA_3072 = "RSA-3072"
    RSA_4096 = "RSA-4096"
    ECDSA_P256 = "ECDSA-P256"
    ECDSA_P384 = "ECDSA-P384"
    ML_DSA_44 = "ML-DSA-44"
    ML_DSA_65 = "ML-DSA-65"
    ML_DSA_87 = "ML-DSA-87"

    @classmethod
    def parse(cls, text: str, *, post_quantum: bool = False) -> KeyAlgorithm:
        """From kubeadm's spelling, or that of PodCertificateRequest (``ECDSAP256``, ``RSA3072``).

        Raises:
            KeyMaterialError: no such algorithm, or its gate is closed.
        """
        usable = [algorithm for algorithm in cls if post_quantum or not algorithm.is_post_quantum]
        for algorithm in usable:
            if text in {algorithm.value, algorithm.value.replace("-", "")}:
                return algorithm
        names = ", ".join(algorithm.value for algorithm in usable)
        raise KeyMaterialError(f"unknown key algorithm {quote(text)}, expected one of {names}")

    @property
    def is_post_quantum(self) -> bool:
        return self.value.startswith("ML-DSA")

    @property
    def is_rsa(self) -> bool:
        return self.value.startswith("RSA")


def generate(algorithm: KeyAlgorithm, *, post_quantum: bool = False) -> PrivateKey:
    """A new key.

    Raises:
        KeyMaterialError: the algorithm's gate is closed.
    """
    match algorithm:
        case KeyAlgorithm.RSA_2048 | KeyAlgorithm.RSA_3072 | KeyAlgorithm.RSA_4096:
            return rsa.generate_private_key(65537, int(algorithm.value[4:]))
        case KeyAlgorithm.ECDSA_P256:
            return ec.generate_private_key(ec.SECP256R1())
        case KeyAlgorithm.ECDSA_P384:
            return ec.generate_private_key(ec.SECP384R1())
    if not post_quantum:
        raise KeyMaterialError(f"{algorithm} keys are behind a gate that is closed")
    match algorithm:
        case KeyAlgorithm.ML_DSA_44:
            return mldsa.MLDSA44PrivateKey.generate()
        case KeyAlgorithm.ML_DSA_65:
            return mldsa.MLDSA65PrivateKey.generate()
        case KeyAlgorithm.ML_DSA_87:
            return mldsa.MLDSA87PrivateKey.generate()


def algorithm_of(key: PrivateKey) -> KeyAlgorithm:
    """What to ask for to get such a key again, so that rotation keeps the algorithm.

    Raises:
        KeyMaterialError: kubeadm has no name for such keys.
    """
    return KeyAlgorithm.parse(public_key_of(key).name, post_quantum=True)


def public_key_of(key: PrivateKey) -> PublicKey:
    """The public half."""
    return load_public_key(key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))


def load_public_key(info: bytes) -> PublicKey:
    """The key in a SubjectPublicKeyInfo. Raises :class:`~kubevouch.pki.errors.ParseError`."""
    start, stop = der.expect(info, 0, len(info), der.SEQUENCE, 0, "publicKeyInfo")
    if stop != len(info):
        raise der.syntax_error("trailing data")
    begin, limit = der.expect(info, start, stop, der.SEQUENCE, start, "AlgorithmIdentifier")
    identifier = info[begin:limit]
    begin, limit = der.expect(info, limit, stop, der.BIT_STRING, start, "BitString")
    return public_key.parse(info, identifier, der.right_aligned(info[begin:limit]))


_MISSING = "tls: failed to find any PEM data in key input"
_IS_CERTIFICATE = "tls: found a certificate rather than a key in the PEM for the private key"


def load_pem(text: bytes, *, trusted: bool = False, in_tpm: bool = False) -> PrivateKey:
    """The first private key of a PEM file, as Go's ``tls.X509KeyPair`` picks and reads it.

    Args:
        trusted: an RSA key is not checked for soundness, which may take seconds.
        in_tpm: a key that stays in a TPM may be named, which Go cannot use.

    Raises:
        KeyMaterialError: with Go's text; no part of the input is in it.
    """
    skipped = []
    for block in _blocks(text):
        if block.type == _IN_TPM and in_tpm:
            return _resident_key(block.contents)
        if block.type == "PRIVATE KEY" or block.type.endswith(" PRIVATE KEY"):
            return load_der(block.contents, trusted=trusted)
        skipped.append(block.type)
    if not skipped:
        raise KeyMaterialError(_MISSING)
    if skipped == [pem.CERTIFICATE]:
        raise KeyMaterialError(_IS_CERTIFICATE)
    raise KeyMaterialError(
        'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input after skipping PEM blocks of the '
        f"following types: {string_slice(skipped)}"
    )


def _blocks(text: bytes) -> Iterator[pem.Block]:
    try:
        yield from pem.blocks(text)
    except ParseError as err:
        raise KeyMaterialError(str(err)) from err


_IN_TPM = "TSS2 PRIVATE KEY"


@runtime_checkable
class _Stays(Protocol):
    """A key that stays where it is, and what is stored of it."""

    def to_der(self) -> bytes: ...


def _resident_key(contents: bytes) -> PrivateKey:
    # Few machines have one, and the credential plug-in counts what it loads.
    from kubevouch.pki.tpm import resident_key

    return resident_key.parse(contents)


def is_in_tpm(key: PrivateKey) -> bool:
    """Whether it is none that could be copied."""
    return isinstance(key, _Stays)


_ENCRYPTED = "ENCRYPTED PRIVATE KEY"


def is_encrypted(text: bytes) -> bool:
    """Whether a passphrase has to be known for the first private key of a PEM file.

    Raises:
        KeyMaterialError: nobody reads so much PEM.
    """
    for block in _blocks(text):
        if block.type == "PRIVATE KEY" or block.type.endswith(" PRIVATE KEY"):
            return block.type == _ENCRYPTED or "ENCRYPTED" in block.headers.get("Proc-Type", "")
    return False


def decrypt_pem(text: bytes, passphrase: bytes) -> bytes:
    """The first private key of a PEM file, encrypted as PKCS #8 (RFC 5958 section 3), as an unencrypted one.

    Raises:
        KeyMaterialError: the passphrase is another one, or the key is encrypted as OpenSSL did before PKCS #8, where a
            passphrase is hashed once with MD5.
    """
    block = next(each for each in _blocks(text) if each.type.endswith("PRIVATE KEY"))
    if block.type != _ENCRYPTED:
        raise KeyMaterialError(
            "the private key is encrypted in OpenSSL's old form, expected PKCS #8: openssl pkcs8 -topk8 converts it"
        )
    try:
        key = load_der_private_key(block.contents, password=passphrase)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise KeyMaterialError("the passphrase does not open the private key") from None
    if not isinstance(key, _FAMILIES):
        raise KeyMaterialError("tls: found unknown private key type in PKCS#8 wrapping")
    return to_pem(key)


_FAMILIES = (
    rsa.RSAPrivateKey,
    ec.EllipticCurvePrivateKey,
    ed25519.Ed25519PrivateKey,
    mldsa.MLDSA44PrivateKey,
    mldsa.MLDSA65PrivateKey,
    mldsa.MLDSA87PrivateKey,
)
_CURVE_NAMES = frozenset(curve.name for curve in CURVES.values())


def load_der(contents: bytes, *, trusted: bool = False) -> PrivateKey:
    """A key in PKCS #1, SEC 1 or PKCS #8. Raises :class:`KeyMaterialError` without a part of the input."""
    try:
        key = load_der_private_key(contents, password=None, unsafe_skip_rsa_key_validation=trusted)
    # The library's texts may quote the input; they stop here.
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise KeyMaterialError("tls: failed to parse private key") from None
    if not isinstance(key, _FAMILIES):
        raise KeyMaterialError("tls: found unknown private key type in PKCS#8 wrapping")
    if isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.name not in _CURVE_NAMES:
        raise KeyMaterialError("tls: failed to parse private key")
    return key


def to_pem(key: PrivateKey) -> bytes:
    """``EC PRIVATE KEY`` (SEC 1), ``RSA PRIVATE KEY`` (PKCS #1), else ``PRIVATE KEY`` (PKCS #8), unencrypted.

    Of a key in a TPM, what that TPM knows it by: ``TSS2 PRIVATE KEY``.
    """
    if isinstance(key, _Stays):
        return pem.encode(_IN_TPM, key.to_der())
    if isinstance(key, ec.EllipticCurvePrivateKey):
        label, form = "EC PRIVATE KEY", PrivateFormat.TraditionalOpenSSL
    elif isinstance(key, rsa.RSAPrivateKey):
        label, form = "RSA PRIVATE KEY", PrivateFormat.TraditionalOpenSSL
    else:
        label, form = "PRIVATE KEY", PrivateFormat.PKCS8
    return pem.encode(label, key.private_bytes(Encoding.DER, form, NoEncryption()))


def public_to_pem(key: PublicKey) -> bytes:
    """``PUBLIC KEY``: kubeadm's ``sa.pub``."""
    return pem.encode("PUBLIC KEY", key.canonical_info)
