"""client/failures.py: answers and exceptions in one sentence each."""

from __future__ import annotations

import datetime as dt
import json
import ssl
from collections.abc import Mapping

import pytest

from kubevouch.client import codec
from kubevouch.client.failures import Answer, Denial, Peer, denial_of, no_answer, refusal, unreadable
from kubevouch.client.interface import ConnectFailed, NotKubernetes, TLSFailed
from kubevouch.machinery.codec import protobuf
from kubevouch.machinery.errors import APIStatusError, forbidden, forbidden_path
from kubevouch.machinery.meta import Status
from kubevouch.machinery.scheme import GroupResource

NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
PEER = Peer("10.0.0.1:6443")
STATUS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "m", "code": 409}


def refused(status: int, body: bytes | str = b"", content_type: str = "", **headers: str) -> Exception:
    head = {name.replace("_", "-"): value for name, value in headers.items()}
    if content_type:
        head["content-type"] = content_type
    return refusal(Answer(status, head, body.encode() if isinstance(body, str) else body), PEER, NOW)


def status_of(error: Exception) -> Status:
    assert isinstance(error, APIStatusError)
    return error.status


# ------------------------------------------------------------------ answers


@pytest.mark.parametrize("content_type", ["application/json", "", "text/plain"])
def test_a_status_counts_whatever_it_is_called(content_type: str) -> None:
    error = refused(409, json.dumps({**STATUS, "reason": "Conflict"}), content_type)
    assert (status_of(error).reason, status_of(error).code, str(error)) == ("Conflict", 409, "m")


def test_a_status_in_protobuf() -> None:
    status = Status(status="Failure", reason="NotFound", message="gone", code=404)
    body = protobuf.seal("v1", "Status", protobuf.codec_for(Status).encode(status))
    assert status_of(refused(404, bytes(body), codec.PROTOBUF)).reason == "NotFound"


def test_the_504_without_a_kind() -> None:
    bare = {
        "metadata": {},
        "status": "Failure",
        "message": "Timeout: …",
        "reason": "Timeout",
        "details": {},
        "code": 504,
    }
    assert status_of(refused(504, json.dumps(bare))).reason == "Timeout"


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (429, "Too many requests, please try again later.\n", "TooManyRequests"),
        (404, "404 page not found\n", "NotFound"),
        (401, "", "Unauthorized"),
        (500, 'Internal Server Error: "/api": x', "InternalError"),
        (503, "service unavailable", "ServiceUnavailable"),
    ],
)
def test_plain_text_that_an_api_server_may_have_written_gets_a_status(status: int, body: str, reason: str) -> None:
    made = status_of(refused(status, body, "text/plain; charset=utf-8" if body else "", retry_after="3"))
    assert (made.code, made.reason, made.status) == (status, reason, "Failure")
    assert made.details is not None and made.details.retry_after_seconds == 3
    assert body.strip() in made.message and "\n" not in made.message


def test_retry_after_of_the_head_does_not_beat_that_of_the_status() -> None:
    document = {**STATUS, "details": {"retryAfterSeconds": 7}}
    details = status_of(refused(429, json.dumps(document), retry_after="3")).details
    assert details is not None and details.retry_after_seconds == 7


HTML = "<html><body>Access Denied</body></html>"


@pytest.mark.parametrize(
    ("status", "body", "headers", "text"),
    [
        (403, HTML, {"server": "squid/5.7", "via": "1.1 cache"},
         "403 Forbidden for 10.0.0.1:6443 came from a proxy (Server: squid/5.7, Via: 1.1 cache), not from the API"),
        (407, "", {"proxy-authenticate": "Basic"}, "407 Proxy Authentication Required for 10.0.0.1:6443 came from a"),
        (404, HTML, {"content-type": "text/html"}, "answered 404 Not Found with text/html, which is no answer of an"),
        (404, '{"message":"no Route matched"}', {"content-type": "application/json"}, "with application/json"),
        (302, "", {"location": "https://login.example/?x=1\x07"}, "redirects to https://login.example/?x=1 ,"),
        (400, "Client sent an HTTP request to an HTTPS server.\n", {}, "expects TLS but was asked in plain HTTP"),
        (418, "teapot", {"content-type": "text/plain"}, "answered 418 I'm a Teapot with text/plain"),
        (799, "", {}, "answered 799 with nothing that says its type"),
    ],
)  # fmt: skip
def test_answers_of_something_else(status: int, body: str, headers: Mapping[str, str], text: str) -> None:
    error = refusal(Answer(status, headers, body.encode()), PEER, NOW)
    assert isinstance(error, NotKubernetes)
    assert error.status == status and text in str(error)
    assert "Access Denied" not in str(error), "foreign pages may echo what was sent to them"
    assert error.hint


def test_an_audit_id_makes_any_answer_the_api_server_s() -> None:
    assert status_of(refused(403, HTML, "text/html", audit_id="1", via="1.1 lb")).code == 403


def test_a_readable_answer_of_the_wrong_kind_says_what_was_expected() -> None:
    problem = codec.CodecError("Secret of v1, expected ConfigMap of v1")
    json_answer = unreadable(Answer(200, {"content-type": "application/json"}, b"{}"), PEER, problem)
    assert str(json_answer) == "10.0.0.1:6443 answered 200 OK with Secret of v1, expected ConfigMap of v1"
    page = unreadable(Answer(200, {"content-type": "text/html"}, HTML.encode()), PEER, problem)
    assert "with text/html" in str(page)


# ------------------------------------------------------------------ exceptions


def verification(code: int) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code = code
    error.verify_message = "odd"
    return error


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (9, "the certificate of 10.0.0.1:6443 is not yet valid (it is 2026-11-21T12:00:00Z here)"),
        (10, "has expired (it is 2026-11-21T12:00:00Z here)"),
        (20, "comes from a certificate authority that is not trusted here"),
        (62, "is not for 10.0.0.1"),
        (64, "is not for 10.0.0.1"),
        (26, "cannot be verified: odd"),
    ],
)
def test_certificates(code: int, text: str) -> None:
    error = no_answer(verification(code), PEER, NOW)
    assert isinstance(error, TLSFailed) and text in str(error)


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("WRONG_VERSION_NUMBER", "10.0.0.1:6443 does not speak TLS"),
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "refused the TLS connection: a client certificate is required"),
        ("SSLV3_ALERT_CERTIFICATE_EXPIRED", "refused the TLS connection: the client certificate has expired"),
        ("TLSV1_ALERT_UNKNOWN_CA", "refused the TLS connection: the client certificate's authority is not known"),
        ("TLSV1_ALERT_INTERNAL_ERROR", "refused the TLS connection: internal error"),
        ("UNSUPPORTED_PROTOCOL", "no TLS connection to 10.0.0.1:6443: unsupported protocol"),
    ],
)
def test_handshakes(reason: str, text: str) -> None:
    inner = ssl.SSLError(1, "x")
    inner.reason = reason
    outer = OSError("wrapped")
    outer.__cause__ = inner
    error = no_answer(outer, PEER, NOW)
    assert isinstance(error, TLSFailed) and text in str(error)


def test_anything_else_is_a_lost_connection() -> None:
    assert isinstance(no_answer(OSError("odd"), PEER, NOW), ConnectFailed)


# ------------------------------------------------------------------ denials


def test_denials_of_our_own_server_are_read_back() -> None:
    who = 'User "system:node:n1" cannot update resource "certificatesigningrequests/approval" in API group '
    csrs = GroupResource("certificates.k8s.io", "certificatesigningrequests")
    status = forbidden(csrs, "n", f'{who}"certificates.k8s.io" at the cluster scope').status
    assert denial_of(status) == Denial(
        "system:node:n1", "update", "certificatesigningrequests/approval", "certificates.k8s.io"
    )
    status = forbidden(GroupResource("", "secrets"), "", 'User "a" cannot list resource "secrets" in API group "" '
                       'in the namespace "ns": RBAC: clusterrole "x" not found').status  # fmt: skip
    assert denial_of(status) == Denial("a", "list", "secrets", "", "ns")
    status = forbidden_path('User "a&lt;b" cannot get path "/metrics"').status
    assert denial_of(status) == Denial("a<b", "get", path="/metrics")


def test_other_refusals_are_no_denials() -> None:
    assert denial_of(forbidden(GroupResource("", "pods"), "p", "quota exceeded").status) is None
    assert denial_of(Status(message='User "a" cannot get path "/x"', code=401)) is None
