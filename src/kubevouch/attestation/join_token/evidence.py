"""What a machine shows that was given a one-time join token: that it has it, and not what it is.

Source: SPIFFE's join_token node attestor (SPIRE 1.12): one use, and a use that comes too late burns the token, too.
Unlike there the token itself is never sent, and it is bound to a machine's name.
"""

from __future__ import annotations

import msgspec

NAME = "join-token"
VERSIONS = ("v1",)


class Proof(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """``signature``: Ed25519, over what ``records.join_tokens.signed_message`` says."""

    token_id: str
    signature: bytes
