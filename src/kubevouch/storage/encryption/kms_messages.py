"""The messages of KMS v2: what a plug-in is asked and answers, and what is stored.

Source: k8s.io/kms/apis/v2/api.proto, k8s.io/apiserver/pkg/storage/value/encrypt/envelope/kmsv2/v2/api.proto
(Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Annotated

from kubevouch.machinery.declaration import Int32, Struct, wire

AES_GCM_KEY = 0
"""The plug-in's answer is the key itself, as Kubernetes 1.25 to 1.28 had it."""
HKDF_SEED = 1
"""The plug-in's answer is a seed, from which each value has a key of its own."""


class StatusRequest(Struct):
    """Asks how a plug-in is."""


class StatusResponse(Struct):
    """How it is, and with which key it encrypts."""

    version: Annotated[str, wire(1)] = ""
    healthz: Annotated[str, wire(2)] = ""
    key_id: Annotated[str, wire(3)] = ""


class EncryptRequest(Struct):
    """Encrypt this."""

    plaintext: Annotated[bytes, wire(1)] = b""
    uid: Annotated[str, wire(2)] = ""


class EncryptResponse(Struct):
    """What to store."""

    ciphertext: Annotated[bytes, wire(1)] = b""
    key_id: Annotated[str, wire(2)] = ""
    annotations: Annotated[dict[str, bytes], wire(3)] = {}


class DecryptRequest(Struct):
    """Decrypt this."""

    ciphertext: Annotated[bytes, wire(1)] = b""
    uid: Annotated[str, wire(2)] = ""
    key_id: Annotated[str, wire(3)] = ""
    annotations: Annotated[dict[str, bytes], wire(4)] = {}


class DecryptResponse(Struct):
    """What was encrypted."""

    plaintext: Annotated[bytes, wire(1)] = b""


class EncryptedObject(Struct):
    """A stored value."""

    encrypted_data: Annotated[bytes, wire(1)] = b""
    key_id: Annotated[str, wire(2)] = ""
    encrypted_dek_source: Annotated[bytes, wire(3)] = b""
    annotations: Annotated[dict[str, bytes], wire(4)] = {}
    encrypted_dek_source_type: Annotated[Int32, wire(5)] = AES_GCM_KEY
