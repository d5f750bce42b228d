"""Who is refused a write by the policy of deploy/revocation: the same on our server and on a real kube-apiserver."""

from __future__ import annotations

from typing import Any

import msgspec

from kubevouch.api.kubevouch_v1alpha1.revoked_writes import FOREVER
from kubevouch.wellknown import CREDENTIAL_ID_EXTRA, NODE_NAME_EXTRA

REVOKED, FOUND, OTHER = "a" * 64, "b" * 64, "c" * 64
EVER = {"issuedUntil": FOREVER}
REVOCATIONS: dict[str, dict[str, Any]] = {
    "by-fingerprint": {"certificates": ["0" * 64, REVOKED]},
    "by-key": {"keys": ["1" * 64]},
    "until-now": {"users": ["alice"], "nodes": ["n1"]},
    "for-ever": {"users": ["eve"], "nodes": ["n9"], **EVER},
    "soon": {"users": ["mallory"], "issuedUntil": "9998-12-31T23:59:59Z"},
}
STATUS: dict[str, dict[str, Any]] = {"by-key": {"certificates": [FOUND]}}
"""What the controller has found."""


class Case(msgspec.Struct, frozen=True):
    """Args: ``by``: the revocation that refuses it; empty if none does."""

    name: str
    user: str
    extra: dict[str, tuple[str, ...]]
    by: str = ""


def _shows(*credentials: str) -> dict[str, tuple[str, ...]]:
    return {CREDENTIAL_ID_EXTRA: credentials}


def _certificate(digest: str) -> dict[str, tuple[str, ...]]:
    return _shows(f"X509SHA256={digest}")


CASES = (
    Case("nothing", "alice", {}),
    Case("named", "alice", _certificate(REVOKED), "by-fingerprint"),
    Case("named-whoever-it-says", "bob", _certificate(REVOKED), "by-fingerprint"),
    Case("second-credential", "bob", _shows("JTI=x", f"X509SHA256={REVOKED}"), "by-fingerprint"),
    Case("found", "bob", _certificate(FOUND), "by-key"),
    Case("other", "bob", _certificate(OTHER)),
    Case("until-now", "alice", _certificate(OTHER)),
    Case("node-until-now", "system:node:n1", _certificate(OTHER)),
    Case("for-ever", "eve", _certificate(OTHER), "for-ever"),
    Case("for-ever-by-token", "eve", _shows("JTI=x")),
    Case("for-ever-by-bound-token", "eve", _shows("JTI=x") | {NODE_NAME_EXTRA: ("n1",)}),
    Case("not-for-ever", "mallory", _certificate(OTHER)),
    Case("node-for-ever", "system:node:n9", _certificate(OTHER), "for-ever"),
    Case("another-node", "system:node:n99", _certificate(OTHER)),
    Case("bound-token", "robot", _shows("JTI=x") | {NODE_NAME_EXTRA: ("n9",)}, "for-ever"),
    Case("token-bound-elsewhere", "robot", _shows("JTI=x") | {NODE_NAME_EXTRA: ("n1",)}),
    Case("fingerprint-of-a-token", "bob", _shows(f"JTI={REVOKED}")),
    Case("no-prefix", "bob", _shows(REVOKED)),
    Case("upper-case", "bob", _certificate(REVOKED.upper())),
)
