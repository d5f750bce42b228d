"""CertificateApprovalReview: what a webhook is asked about a request for a certificate, and what its answer says.

ReviewError    the answer is none; whoever gets it approves nothing

The answer is read strictly: what this version does not know could be a condition on the approval.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.text import names
from kubevouch.policy.facts import RequestFacts
from kubevouch.policy.verdict import MAX_TEXT_BYTES, Outcome, Verdict, cut

API_VERSION = "approval.kubevouch.io/v1alpha1"
KIND = "CertificateApprovalReview"
MAX_ANSWER = 64 << 10
"""Bytes of an answer."""

_LONGEST_REASON = 128
_REASONS = {Outcome.APPROVE: "WebhookApproved", Outcome.DENY: "WebhookDenied", Outcome.NO_OPINION: "WebhookUndecided"}


class ReviewError(ValueError):
    """The answer is none."""


class _Response(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    uid: str
    outcome: Literal["approve", "deny", "no-opinion"]
    reason: str = ""
    message: str = ""


class _Review(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    api_version: str
    kind: str
    response: _Response
    # A service may send back what it was asked; it is not looked at.
    request: msgspec.Raw | None = None
    metadata: msgspec.Raw | None = None


_DECODER = msgspec.json.Decoder(_Review)


def question(uid: str, facts: RequestFacts, csr: CertificateSigningRequest) -> bytes:
    """The document that is posted.

    Args:
        uid: of this question, which nobody can guess: an answer to another one has another.
    """
    about = CERTIFICATE_SIGNING_REQUESTS
    whole = msgspec.structs.replace(csr, kind=about.kind, api_version=about.gvk.api_version)
    request: dict[str, Any] = {
        "uid": uid,
        "certificateRequest": msgspec.to_builtins(facts),
        "object": msgspec.Raw(json_codec.encode(whole)),
    }
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, "request": request})


def verdict(approver: str, uid: str, answer: bytes) -> Verdict:
    """What ``answer`` says to the question ``uid``.

    Raises:
        ReviewError
    """
    try:
        review = _DECODER.decode(answer)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as err:
        raise ReviewError(f"got {_shown(answer)}, expected a {KIND} with a response: {cut(str(err), 300)}") from err
    if (review.api_version, review.kind) != (API_VERSION, KIND):
        found = f"{review.api_version} {review.kind}"
        raise ReviewError(f"got {_shown(found.encode())}, expected {API_VERSION} {KIND}")
    response = review.response
    if response.uid != uid:
        raise ReviewError(f"got the answer to {_shown(response.uid.encode())}, expected that to {uid!r}")
    outcome = Outcome(response.outcome)
    reason = response.reason
    if len(reason) > _LONGEST_REASON or names.condition_reason(reason):
        reason = _REASONS[outcome]
    said = cut(response.message, MAX_TEXT_BYTES) or f"{approver} says {outcome}"
    if outcome is Outcome.NO_OPINION:
        return Verdict(outcome, approver, reason, missing=cut(response.message, MAX_TEXT_BYTES))
    return Verdict(outcome, approver, reason, said)


def _shown(answer: bytes) -> str:
    return repr(answer[:100].decode(errors="replace"))
