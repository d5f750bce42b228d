from __future__ import annotations

import datetime as dt

import msgspec
import pytest

from decisions import request_pem
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestSpec,
    CertificateSigningRequestStatus,
)
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import Time
from kubevouch.records import token_record
from kubevouch.records.token_bounds import SOURCE_ADDRESS_ANNOTATION, Bounds
from kubevouch.records.token_record import Attempt, State, TokenRecordError, UsesTakenError, reserve, settle

NOW = dt.datetime(2026, 6, 1, 12, tzinfo=dt.UTC)
SEEN = "2026-06-01T12:00:00Z"


def attempt(name: str, state: State = State.PENDING, node: str = "", when: str = "2026-06-01T11:00:00Z") -> Attempt:
    return Attempt(name, f"uid-{name}", state, f"system:node:{node or name}", f"sha256:{node or name}", when=when)


def by_uid(*attempts: Attempt) -> dict[str, Attempt]:
    return {each.uid: each for each in attempts}


def states(record: token_record.Record) -> dict[str, State]:
    return {each.request: each.state for each in record}


def test_a_request_told() -> None:
    csr = CertificateSigningRequest(
        metadata=ObjectMeta(
            name="csr-1", uid="u", annotations={SOURCE_ADDRESS_ANNOTATION: "192.0.2.7"}, creation_timestamp=Time.of(NOW)
        ),
        spec=CertificateSigningRequestSpec(request=request_pem("system:node:n1", "system:nodes")),
    )
    told = token_record.attempt_of(csr)
    assert (told.subject, told.node_name, told.source, told.when) == ("system:node:n1", "n1", "192.0.2.7", SEEN)
    assert told.key.startswith("sha256:") and len(told.key) == 71
    assert told.state is State.PENDING and told.decided == ""
    unreadable = msgspec.structs.replace(csr, spec=CertificateSigningRequestSpec(request=b"x"))
    assert token_record.attempt_of(unreadable).machine == ("", "")


@pytest.mark.parametrize(
    ("types", "certificate", "state"),
    [
        ((), b"", State.PENDING),
        (("Approved",), b"", State.PENDING),
        (("example.com/Seen",), b"", State.PENDING),
        (("Denied",), b"", State.DENIED),
        (("Approved", "Failed"), b"", State.FAILED),
        (("Approved",), b"x", State.ISSUED),
        (("Approved", "Failed"), b"x", State.ISSUED),
    ],
)
def test_states(types: tuple[str, ...], certificate: bytes, state: State) -> None:
    conditions = [CertificateSigningRequestCondition(type=each, status="True") for each in types]
    status = CertificateSigningRequestStatus(conditions=conditions, certificate=certificate)
    csr = CertificateSigningRequest(metadata=ObjectMeta(name="a"), status=status)
    assert token_record.state_of(csr) is state


def test_uses_are_taken_until_there_are_none() -> None:
    record = reserve((), 2, attempt("a"))
    assert reserve(record, 2, attempt("a")) is record
    record = reserve(record, 2, attempt("b"))
    with pytest.raises(UsesTakenError) as refusal:
        reserve(record, 2, attempt("c"))
    assert not refusal.value.final
    assert str(refusal.value) == "the token has given all its 2 uses to system:node:a, system:node:b"
    issued = settle(record, by_uid(attempt("a", State.ISSUED), attempt("b", State.ISSUED)), now=NOW, limited=True)
    with pytest.raises(UsesTakenError) as refusal:
        reserve(issued, 2, attempt("c"))
    assert refusal.value.final
    assert token_record.uses_left(Bounds(uses=2), issued) == 0
    assert token_record.uses_left(Bounds(uses=3), issued) == 1
    assert token_record.uses_left(Bounds(), issued) is None


def test_the_same_machine_takes_one_use_however_often_it_asks() -> None:
    record = reserve(reserve((), 1, attempt("a", node="n1")), 1, attempt("b", node="n1"))
    assert states(record) == {"a": State.RESERVED, "b": State.RESERVED}
    with pytest.raises(UsesTakenError):
        reserve(record, 1, msgspec.structs.replace(attempt("c", node="n1"), key="sha256:other"))


@pytest.mark.parametrize("state", [State.DENIED, State.FAILED])
def test_a_use_comes_back_when_no_certificate_came(state: State) -> None:
    record = settle(reserve((), 1, attempt("a")), by_uid(attempt("a", state)), now=NOW, limited=True)
    assert states(record) == {"a": state} and record[0].decided == SEEN
    assert states(reserve(record, 1, attempt("b")))["b"] is State.RESERVED


def test_what_is_gone_comes_back_only_when_it_is_known_to_be_gone() -> None:
    record = reserve((), 1, attempt("a"))
    assert settle(record, {}, now=NOW, limited=True) == record
    assert states(settle(record, {}, ["uid-a"], now=NOW, limited=True)) == {"a": State.GONE}
    issued = settle(record, by_uid(attempt("a", State.ISSUED)), now=NOW, limited=True)
    assert settle(issued, {}, ["uid-a"], now=NOW, limited=True) == issued


def test_a_cache_that_is_behind_takes_nothing_back() -> None:
    record = reserve((), 1, attempt("a"))
    assert settle(record, by_uid(attempt("a")), now=NOW, limited=True) == record


def test_settling_again_changes_nothing() -> None:
    seen = by_uid(attempt("a", State.ISSUED), attempt("b"), attempt("c", State.DENIED))
    record = settle((), seen, now=NOW, limited=True)
    assert settle(record, seen, now=NOW + dt.timedelta(hours=1), limited=True) == record
    assert token_record.last_issued(record) == NOW


def test_requests_of_an_older_token_with_the_same_id_do_not_count() -> None:
    seen = by_uid(attempt("old", State.ISSUED, when="2026-06-01T09:00:00Z"), attempt("new", State.ISSUED))
    record = settle((), seen, now=NOW, since=dt.datetime(2026, 6, 1, 10, tzinfo=dt.UTC), limited=True)
    assert states(record) == {"new": State.ISSUED}


def test_the_record_is_bounded_and_forgets_no_use() -> None:
    many = [attempt(f"x{n:04}", State.DENIED, when=f"2026-06-01T11:{n % 60:02}:00Z") for n in range(400)]
    issued = [attempt(f"a{n}", State.ISSUED, when="2026-06-01T01:00:00Z") for n in range(5)]
    record = settle((), by_uid(*many, *issued), now=NOW, limited=True)
    assert len(record) == token_record.MAX_OTHERS + 5
    assert len(settle((), by_uid(*many, *issued), now=NOW, limited=False)) == token_record.MAX_OTHERS


def test_annotation_there_and_back() -> None:
    record = settle((), by_uid(attempt("a", State.ISSUED), attempt("b")), now=NOW, limited=True)
    annotations = token_record.written({"x": "y"}, record)
    assert token_record.read(annotations) == record
    assert token_record.written(annotations, ()) == {"x": "y"}
    assert token_record.read({}) == ()


@pytest.mark.parametrize(
    "text",
    ["x", "{}", "[1]", '[{"request":"a"}]', '[{"request":"a","uid":"u","state":"Odd"}]', "\ud800", "[" * 300_000,
     '[{"request":"a","uid":"u","state":"Issued","decided":"yesterday"}]'],
    ids=range(8),
)  # fmt: skip
def test_a_record_that_cannot_be_read_says_so(text: str) -> None:
    with pytest.raises(TokenRecordError):
        token_record.read({token_record.RECORD_ANNOTATION: text})
