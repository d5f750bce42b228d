"""A request behind which something revoked stands gets no certificate."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from kubevouch.api.kubevouch_v1alpha1.certificate_approvals import CertificateApproval, CertificateApprovalSpec
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import Time
from kubevouch.policy.facts import RequestFacts, SubjectFacts
from kubevouch.policy.revoked_requests import refusal, voter_refusal
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


def voted(approver: str = "alice", at: dt.datetime | None = NOW, credential: str = "") -> CertificateApproval:
    created = None if at is None else Time.of(at)
    spec = CertificateApprovalSpec(
        request_name="r", request_uid="u", approver=approver, decision="Approve", credential=credential
    )
    return CertificateApproval(metadata=ObjectMeta(name="v", creation_timestamp=created), spec=spec)


@pytest.mark.parametrize(
    ("vote", "targets", "said"),
    [
        (voted(credential=f"X509SHA256={CERTIFICATE}"), {"certificates": [CERTIFICATE]},
         "has voted with a certificate that is revoked: r1 "),
        (voted(), {"users": ["alice"]}, "is revoked: r1 "),
        (voted(), {"requesters": ["alice"]}, "is revoked: r1 "),
        (voted("system:bootstrap:abcdef"), {"tokens": ["abcdef"]}, "is revoked: r1 "),
        (voted("system:node:a"), {"nodes": ["a"]}, "is revoked: r1 "),
    ],
)  # fmt: skip
def test_votes_that_count_no_more(vote: CertificateApproval, targets: dict[str, Any], said: str) -> None:
    revoked = holding(revocation(**targets))
    assert voter_refusal(vote, revoked).startswith(said)
    who, credential = vote.spec.approver, vote.spec.credential
    later = voter_refusal(voted(who, NOW + SECOND, credential), revoked)
    assert bool(later) is ("certificates" in targets)
    # Of one of which nobody knows when it was cast nothing better is believed.
    assert voter_refusal(voted(who, None, credential), revoked).startswith(said)


def test_votes_of_others_count() -> None:
    others = holding(revocation(certificates=["d" * 64], users=["bob"], nodes=["b"], tokens=["abcdef"]))
    for vote in (voted(), voted("system:node:a"), voted(credential=f"X509SHA256={CERTIFICATE}"), voted(credential="x")):
        assert voter_refusal(vote, others) == "" and voter_refusal(vote, Revocations.none()) == ""
