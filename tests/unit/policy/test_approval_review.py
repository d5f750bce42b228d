"""policy/approval_review.py: what is asked, and that nothing but a whole and fitting answer approves."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubevouch.pki.x509 import x509_request
from kubevouch.policy import approval_review
from kubevouch.policy.approval_review import API_VERSION, KIND, ReviewError
from kubevouch.policy.facts import facts_of
from kubevouch.policy.verdict import Outcome, Verdict
from serving_requests import asks


def answer(outcome: Any = "approve", uid: Any = "u", **more: Any) -> bytes:
    response = {"uid": uid, "outcome": outcome, **more}
    return json.dumps({"apiVersion": API_VERSION, "kind": KIND, "response": response}).encode()


def test_the_question_has_the_facts_and_the_object() -> None:
    csr = asks("csr-1")
    facts = facts_of(csr, x509_request.parse_pem(csr.spec.request or b""))
    asked = json.loads(approval_review.question("u", facts, csr))
    assert (asked["apiVersion"], asked["kind"], asked["request"]["uid"]) == (API_VERSION, KIND, "u")
    assert asked["request"]["certificateRequest"]["dnsNames"] == ["n1"]
    assert asked["request"]["certificateRequest"]["keyFingerprint"] == facts.key_fingerprint
    assert asked["request"]["object"]["metadata"]["name"] == "csr-1"
    assert asked["request"]["object"]["kind"] == "CertificateSigningRequest"
    assert asked["request"]["object"]["spec"]["username"] == "system:node:n1"


def test_what_an_answer_says() -> None:
    said = {"reason": "InInventory", "message": "rack 7"}
    assert approval_review.verdict("webhook/a", "u", answer(**said)) == Verdict(
        Outcome.APPROVE, "webhook/a", "InInventory", "rack 7"
    )
    assert approval_review.verdict("webhook/a", "u", answer("deny")) == Verdict(
        Outcome.DENY, "webhook/a", "WebhookDenied", "webhook/a says deny"
    )
    undecided = approval_review.verdict("webhook/a", "u", answer("no-opinion", message="unknown host"))
    assert undecided == Verdict(Outcome.NO_OPINION, "webhook/a", "WebhookUndecided", missing="unknown host")


@pytest.mark.parametrize("reason", ["", "two words", "x\n", "ü", "A" * 129])
def test_a_reason_that_is_no_word(reason: str) -> None:
    assert approval_review.verdict("webhook/a", "u", answer(reason=reason)).reason == "WebhookApproved"


def test_a_long_message_is_cut() -> None:
    assert len(approval_review.verdict("webhook/a", "u", answer(message="é" * 20_000)).message.encode()) <= 4096


WHOLE = json.loads(answer())
WRONG = {
    "nothing": b"",
    "no JSON": b"<html>approve</html>",
    "a word": b'"approve"',
    "a list": b"[" + answer() + b"]",
    "two documents": answer() + answer(),
    "not closed": answer()[:-1],
    "deep": b"[" * 100_000,
    "no UTF-8": answer().replace(b"approve", b"approv\xff"),
    "another question": answer(uid="v"),
    "no question": answer(uid=""),
    "a number": answer(uid=1),
    "true": answer(True),
    "another word": answer("approved"),
    "upper case": answer("Approve"),
    "null": answer(None),
    "a list of words": answer(["approve"]),
    "no outcome": json.dumps({**WHOLE, "response": {"uid": "u"}}).encode(),
    "no response": json.dumps({"apiVersion": API_VERSION, "kind": KIND}).encode(),
    "a condition that is not known": answer(ifNotAfter="2026-01-01"),
    "another version": json.dumps({**WHOLE, "apiVersion": "approval.kubevouch.io/v2"}).encode(),
    "another kind": json.dumps({**WHOLE, "kind": "AdmissionReview"}).encode(),
    "of admission": json.dumps({**WHOLE, "response": {"uid": "u", "allowed": True}}).encode(),
    "status": json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Success"}).encode(),
    "a message that is none": answer(message={"a": 1}),
}


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_what_is_no_answer(body: bytes) -> None:
    with pytest.raises(ReviewError) as raised:
        approval_review.verdict("webhook/a", "u", body)
    assert len(str(raised.value)) < 1000
    assert str(raised.value).isprintable()
