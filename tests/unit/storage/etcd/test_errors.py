"""etcd's refusals, as what a store raises and as what clients hear."""

from __future__ import annotations

import pytest
from grpc import StatusCode

from kubevouch.registry.store_failures import status_of
from kubevouch.storage.etcd.errors import CallFailed
from kubevouch.storage.interface import StoreUnavailable, ValueTooLarge

NO_SPACE = "etcdserver: mvcc: database space exceeded"
ALLOTTED = "Timeout: request did not complete within the allotted timeout"


def _failed(code: StatusCode, text: str) -> CallFailed:
    return CallFailed(code, text, "http://127.0.0.1:2379")


@pytest.mark.parametrize(
    ("code", "text", "answer"),
    [
        (StatusCode.RESOURCE_EXHAUSTED, NO_SPACE, (500, "", NO_SPACE)),
        (StatusCode.UNAVAILABLE, "etcdserver: no leader", (500, "", "etcdserver: no leader")),
        (StatusCode.UNAVAILABLE, "etcdserver: leader changed", (500, "", "etcdserver: leader changed")),
        (StatusCode.UNAVAILABLE, "etcdserver: request timed out", (500, "", "etcdserver: request timed out")),
        (StatusCode.UNKNOWN, "context deadline exceeded", (504, "Timeout", ALLOTTED)),
        (StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", (504, "Timeout", ALLOTTED)),
        (StatusCode.UNAVAILABLE, "failed to connect to all addresses", (504, "Timeout", ALLOTTED)),
        (StatusCode.PERMISSION_DENIED, "etcdserver: permission denied", (500, "", "etcdserver: permission denied")),
    ],
)
def test_what_clients_hear(code: StatusCode, text: str, answer: tuple[int, str, str]) -> None:
    err = _failed(code, text).as_store_error("/registry/a")
    assert isinstance(err, StoreUnavailable)
    status = status_of(err).status
    assert (status.code, status.reason, status.message) == answer


def test_a_request_that_is_too_large_is_the_values_fault() -> None:
    err = _failed(StatusCode.INVALID_ARGUMENT, "etcdserver: request is too large").as_store_error("/registry/a")
    assert isinstance(err, ValueTooLarge)


def test_no_room_is_told_in_plain_words() -> None:
    err = _failed(StatusCode.RESOURCE_EXHAUSTED, NO_SPACE).as_store_error("/registry/a")
    assert str(err) == f"etcd has no room left: {NO_SPACE}; compact it, defragment it, then disarm its alarm"


@pytest.mark.parametrize(
    ("code", "text", "never_sent"),
    [
        (StatusCode.UNAVAILABLE, "etcdserver: no leader", True),
        (StatusCode.UNKNOWN, "raft proposal dropped", True),
        (StatusCode.UNAVAILABLE, "failed to connect to all addresses; last error: refused", True),
        # What was said after the write was proposed, or by the connection's end, leaves open what became of it.
        (StatusCode.UNAVAILABLE, "etcdserver: request timed out", False),
        (StatusCode.UNAVAILABLE, "etcdserver: leader changed", False),
        (StatusCode.UNAVAILABLE, "Socket closed", False),
        (StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", False),
        (StatusCode.UNKNOWN, "context deadline exceeded", False),
    ],
)
def test_a_write_is_sent_again_only_when_it_cannot_have_happened(code: StatusCode, text: str, never_sent: bool) -> None:
    assert _failed(code, text).is_never_sent is never_sent


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("ipv4:127.0.0.1:2379: Failed to connect to remote host: Connection refused", "does it run"),
        ("OPENSSL_internal:CERTIFICATE_VERIFY_FAILED: unable to get local issuer certificate", "--etcd-cafile"),
        ("UNAUTHENTICATED: Hostname Verification Check failed.", "does not name this host"),
        ("SSL routines:OPENSSL_internal:SSLV3_ALERT_BAD_CERTIFICATE", "--etcd-certfile"),
        ("Handshake read failed (Socket closed)", "does it speak TLS"),
        ("Socket closed", "without TLS"),
    ],
)
def test_who_opens_a_store_is_told_what_to_look_at(text: str, told: str) -> None:
    said = str(_failed(StatusCode.UNAVAILABLE, text).as_not_opened(["https://127.0.0.1:2379"]))
    assert said.startswith(f"etcd at https://127.0.0.1:2379 does not answer: {text}; ")
    assert told in said.removeprefix(f"etcd at https://127.0.0.1:2379 does not answer: {text}")


def test_an_etcd_that_refuses_has_answered() -> None:
    text = "etcdserver: authentication is not enabled"
    said = str(_failed(StatusCode.FAILED_PRECONDITION, text).as_not_opened(["http://127.0.0.1:2379"]))
    assert said == f"etcd at http://127.0.0.1:2379 refused: {text}"
