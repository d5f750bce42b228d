"""What a machine and the server say to each other when the server calls it back.

The machine says where it is, and listens there. The server asks it for a path that names the key of the request, and
the answer names key and challenge. Nothing of it is secret: what counts is who can have the address answer.

Source: SPIFFE's http_challenge node attestor (SPIRE 1.12), with the answer bound to the request's key.
"""

from __future__ import annotations

import base64
import hashlib

import msgspec

NAME = "callback"
VERSIONS = ("v1",)
PORT = 889
"""Below 1024, so that only root can listen there; of no registered service (IANA)."""
MAX_ANSWER = 64
"""Octets that are read of an answer."""
_FOLDER = "/.well-known/kubevouch/attestation/"
_PURPOSE = b"kubevouch.io/callback/v1\0"


class Proof(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """``host``: an IP address or a DNS name, at which the machine listens."""

    host: str


def path(spki: bytes) -> str:
    """What the server asks the machine for."""
    return _FOLDER + hashlib.sha256(spki).hexdigest()


def answer(digest: bytes) -> bytes:
    """What the machine answers: of ``Binding.digest``, 43 characters."""
    return base64.urlsafe_b64encode(hashlib.sha256(_PURPOSE + digest).digest()).rstrip(b"=")
