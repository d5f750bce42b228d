"""A request behind which something revoked stands gets no certificate."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from kubevouch.policy.facts import RequestFacts, SubjectFacts
from kubevouch.policy.revoked_requests import refusal
from kubevouch.revocation.revocations import Revocations
from kubevouch.wellknown import CREDENTIAL_ID_EXTRA
from unit.revocation.test_revocations import NOW, SECOND, holding, revocation

KEY, CERTIFICATE = "a" * 64, "b" * 64


def asked(at: dt.datetime | None = NOW, **fields: Any) -> RequestFacts:
    given: dict[str, Any] = {
        "name": "csr-1", "signer_name": "example.com/s", "username": "alice", "key_fingerprint": KEY,
        "key_algorithm": "ECDSA",
        "subject": SubjectFacts(common_name="system:node:a"), "created": at,
        "extra": {CREDENTIAL_ID_EXTRA: ("JTI=x", "X509SHA256=zz", f"X509SHA256={CERTIFICATE}")},
    }  # fmt: skip
    return RequestFacts(**(given | fields))


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        ({"keys": [KEY]}, "its key is revoked: r1 "),
        ({"certificates": [CERTIFICATE]}, "it was asked for with a certificate that is revoked: r1 "),
        ({"requesters": ["alice"]}, "its requester alice is revoked: r1 "),
        ({"users": ["alice"]}, "alice was revoked after this was asked for: r1 "),
        ({"nodes": ["a"]}, "system:node:a was revoked after this was asked for: r1 "),
    ],
)
def test_what_is_refused(targets: dict[str, Any], said: str) -> None:
    assert refusal(asked(), holding(revocation(**targets))).startswith(said)
    # What names somebody is about the time until then.
    later = refusal(asked(NOW + SECOND), holding(revocation(**targets)))
    assert bool(later) is bool({"keys", "certificates"} & targets.keys())
    assert bool(refusal(asked(None), holding(revocation(**targets)))) is bool(later)


def test_a_token_stands_for_what_it_has_asked_for() -> None:
    found = holding(revocation(tokens=["abcdef"]))
    assert "requester" in refusal(asked(username="system:bootstrap:abcdef"), found)
    assert not refusal(asked(username="system:bootstrap:abcdeg"), found)


def test_others_are_not_refused() -> None:
    others = holding(revocation(keys=["c" * 64], certificates=["d" * 64], users=["bob"], nodes=["b"]))
    assert refusal(asked(), others) == "" and refusal(asked(), Revocations.none()) == ""
