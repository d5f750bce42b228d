"""What a machine shows that has a certificate already: its chain, and a signature over the server's nonce and its own.

Source: SPIFFE's x509pop node attestor (SPIRE 1.12), whose payload and signatures these are, with the nonce bound to the
request's key: what is signed is ``Binding.digest`` ‖ the client's nonce.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum

import msgspec

NAME = "x509pop"
VERSIONS = ("v1",)
NONCE_BYTES = 32
MAX_SIGNATURE_BYTES = 1024
"""That of RSA with 8192 bits."""


class SignatureForm(StrEnum):
    """How the device signs, over SHA-256; RSA with a salt of any length, which Go and openssl choose differently."""

    RSA_PSS = "rsa-pss-sha256"
    ECDSA = "ecdsa-sha256-der"


class Proof(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Args:
    certificates: DER, the device's own first.
    client_nonce: 32 bytes of the device's, so that it never signs what somebody else alone has chosen.
    """

    certificates: tuple[bytes, ...]
    client_nonce: bytes
    signature: bytes
    signature_form: str


def signed_message(nonce: bytes, client_nonce: bytes) -> bytes:
    """What the device signs. Both nonces have a fixed length, so that no octet could be of either."""
    return nonce + client_nonce


def identity(info: bytes) -> str:
    """Of the device with this SubjectPublicKeyInfo: with a renewed certificate for the same key it is the same."""
    return f"sha256:{hashlib.sha256(info).hexdigest()}"
