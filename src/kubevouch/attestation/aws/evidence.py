"""What an instance of EC2 shows: the identity document that AWS has signed, and a signed call to STS bound to one key.

The document never changes and every process of the machine can read it, so that alone it is worth its first use only.
The call is made for this key, this cluster and this challenge, and STS answers it for a quarter of an hour.
"""

from __future__ import annotations

import base64
import hashlib
from enum import StrEnum

import msgspec

NAME = "aws"
VERSIONS = ("v1",)
BINDING_HEADER = "x-node-csr-sha256"
TOKEN_HEADER = "x-k8s-aws-id"
"""The header of the tokens of EKS, which ``aws eks get-token --cluster-name`` makes, with the binding as the name."""


class Form(StrEnum):
    """In which of its forms AWS has signed the document.

    ``RSA2048`` is CMS with RSA. ``PKCS7`` is CMS with DSA and SHA-1, ``SIGNATURE`` a bare signature by a key of 1024
    bits: both are there for regions that have nothing else.
    """

    RSA2048 = "rsa2048"
    PKCS7 = "pkcs7"
    SIGNATURE = "signature"


class Freshness(StrEnum):
    """What shows that a proof is for this key, and of now."""

    STS = "sts"
    FIRST_USE = "firstUse"


class SignedRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A request to STS as the node has signed it, in the header or in the query."""

    method: str
    url: str
    headers: dict[str, str]
    body: str = ""


class Proof(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Args:
    document: as the metadata service gives it, to the octet.
    signature: base64, as the metadata service gives it.
    request: the call to STS; instead of it a ``token`` in the form of EKS; or neither.
    """

    document: str
    signature: str
    form: Form = Form.RSA2048
    request: SignedRequest | None = None
    token: str = ""


def binding_digest(spki: bytes, cluster_id: str, nonce: bytes) -> bytes:
    """What a call to STS is made for: SHA-256(SPKI ‖ cluster id ‖ nonce)."""
    return hashlib.sha256(spki + cluster_id.encode() + nonce).digest()


def binding_text(digest: bytes) -> str:
    """As the header has it: base64 without padding."""
    return base64.b64encode(digest).decode().rstrip("=")
