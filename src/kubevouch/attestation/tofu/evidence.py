"""What a machine shows that has nothing but a key of its own, made when it was first started."""

from __future__ import annotations

import msgspec

NAME = "tofu"
VERSIONS = ("v1",)
_PURPOSE = b"kubevouch.io/tofu/v1\0"


class Proof(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Args:
    key: the machine's, a SubjectPublicKeyInfo in DER, of P-256.
    signature: ECDSA in DER with SHA-256, over :func:`signed_message`.
    """

    key: bytes
    signature: bytes


def signed_message(digest: bytes) -> bytes:
    """What the machine's key signs: ``Binding.digest``, for this purpose."""
    return _PURPOSE + digest
