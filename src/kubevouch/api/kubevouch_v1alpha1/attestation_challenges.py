"""AttestationChallenge: what a machine is asked so that its proof is of now, and of this key.

The machine makes the object and says of which key it is; the controller writes what it asks into the status, which
machines may not write. Nothing in it is a secret: what only the right machine can read is there as that machine reads
it, and as a digest.
"""

from __future__ import annotations

from typing import Annotated

from kubevouch.api.meta_v1 import Condition
from kubevouch.machinery.declaration import Struct, always, wire
from kubevouch.machinery.meta import Object
from kubevouch.machinery.text.times import Time

READY = "Ready"
REFUSED = "Refused"
"""Conditions: it may be answered; whatever is answered, it is refused, and ``reason`` is the step that failed."""
MAX_OPENING = 32 << 10
"""Octets of what a machine says first."""

_FIXED = {"x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "cannot be changed"}]}
_PROVIDER = {"pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "minLength": 1, "maxLength": 63}
_BASE64 = {"maxLength": (MAX_OPENING + 2) // 3 * 4}


class AttestationChallengeSpec(Struct):
    """Who wants to be asked, and about which key. Nothing of it changes."""

    provider: Annotated[str, wire(1, "The method of attestation.", required=True, schema=_PROVIDER)] = always(str)
    version: Annotated[
        str,
        wire(2, "Of the evidence that will be shown.", required=True, schema={"minLength": 1, "maxLength": 32}),
    ] = always(str)
    key_fingerprint: Annotated[
        str,
        wire(3, "SHA-256 of the SubjectPublicKeyInfo that a certificate will be asked for, in hexadecimal digits.",
             required=True, schema={"pattern": "^[0-9a-f]{64}$"}),
    ] = always(str)  # fmt: skip
    opening: Annotated[bytes, wire(4, "What the method says first, in its own form.", schema=_BASE64)] = b""
    requester: Annotated[
        str,
        wire(5, "Who has made it; the API server sets it, where the policies that belong to the kind are there.",
             schema={"maxLength": 1024}),
    ] = ""  # fmt: skip


class AttestationChallengeStatus(Struct):
    """What is asked, until when, and whether it was answered."""

    nonce: Annotated[bytes, wire(1, "32 random octets.")] = b""
    content: Annotated[bytes, wire(2, "What the method asks beside, in its own form.")] = b""
    secret_digest: Annotated[
        str, wire(3, "SHA-256 of what only the right machine can read out of the content, in hexadecimal digits.")
    ] = ""
    state: Annotated[bytes, wire(4, "What the method has to know again when the answer comes.")] = b""
    expires_at: Annotated[Time | None, wire(5, "After this moment no answer counts.")] = None
    used_by: Annotated[str, wire(6, "The UID of the request that has answered it; no other one may.")] = ""
    supported_versions: Annotated[
        list[str],
        wire(7, "Of the method's evidence, where the one that was named is not among them; newest first.",
             list_type="atomic"),
    ] = []  # fmt: skip
    conditions: Annotated[
        list[Condition],
        wire(8, f"{READY}, or {REFUSED} with the step that failed as the reason.", list_type="map", map_keys=("type",)),
    ] = []


class AttestationChallenge(Object):
    """What a machine is asked before it may have a certificate."""

    spec: Annotated[AttestationChallengeSpec, wire(2, "Who wants to be asked.", required=True, schema=_FIXED)] = always(
        AttestationChallengeSpec
    )
    status: Annotated[AttestationChallengeStatus, wire(3, "What is asked.")] = always(AttestationChallengeStatus)
