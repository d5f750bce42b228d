"""What a machine shows whose SSH host key a CA has certified: the certificate, and a signature over two nonces.

Source: SPIFFE's sshpop node attestor (SPIRE 1.12), with OpenSSH's own signatures in place of bare ones, and with the
nonce bound to the request's key.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum

import msgspec

NAME = "sshpop"
VERSIONS = ("v1",)
NONCE_BYTES = 32
NAMESPACE = "node-attestation@kubevouch.io"
"""For what the host key signs: a signature for another purpose is none for this one."""


class SignatureForm(StrEnum):
    """``ssh-keygen -Y sign`` writes the first in armour, an agent the second, here in base64."""

    SSHSIG = "sshsig"
    BARE = "ssh-signature"


class Proof(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Args:
    certificate: the line of the host key's ``-cert.pub``.
    host: the principal of the certificate that the machine says it is.
    client_nonce: 32 bytes of the machine's.
    """

    certificate: str
    host: str
    client_nonce: bytes
    signature: str
    signature_form: str


def signed_message(nonce: bytes, client_nonce: bytes) -> bytes:
    """What the host key signs."""
    return hashlib.sha256(nonce + client_nonce).digest()
