"""ledger/entries.py: what is kept of a request, how it is found, and that it is bounded."""

from __future__ import annotations

import datetime as dt

import msgspec
import pytest

from controller_world import NOW, fixture
from kubevouch.ledger import entries
from kubevouch.ledger.entries import MAX_IDENTITY_BYTES, MAX_TRACE_BYTES, Entry, EntryTooLarge, Query, matches
from kubevouch.pki.x509 import x509_request

ENTRY = Entry(
    kind=entries.ISSUED, at=NOW, signer="s", request="csr-1", uid="u", requester="r", serial="ab", key="k",
    token="abcdef", node="n1", subject="system:node:n1", names=("N1.example.com", "10.0.0.1"),
    not_after=NOW + dt.timedelta(days=30),
)  # fmt: skip
DAY = dt.timedelta(days=1)


def asked(request: str = "serving-good.csr", **changes: object) -> Entry:
    settings: dict[str, object] = {
        "name": "csr-1", "uid": "u", "signer": "s", "requester": "system:bootstrap:abcdef", "usages": ("b", "a"),
    } | changes  # fmt: skip
    return entries.entry_of_request(entries.INTENDED, NOW, x509_request.parse_pem(fixture(request)), **settings)  # type: ignore[arg-type]


def test_what_a_request_says_is_kept() -> None:
    entry = asked("client-good.csr")
    assert (entry.subject, entry.node, entry.token) == ("system:node:n1", "n1", "abcdef")
    assert len(entry.key) == 64 and entries.decode(entries.encode(entry)) == entry


@pytest.mark.parametrize(
    ("query", "is_found"),
    [
        (Query(), True),
        (Query(kinds=frozenset({entries.REVOKED})), False),
        (Query(signer="s", request="csr-1", uid="u", requester="r", serial="ab"), True),
        (Query(key="k", token="abcdef", node="n1"), True),
        (Query(serial="abc"), False),
        (Query(name="n1.EXAMPLE.com"), True),
        (Query(name="10.0.0.1"), True),
        (Query(name="example.com"), False),
        (Query(since=NOW, until=NOW + DAY), True),
        (Query(since=NOW + DAY), False),
        (Query(until=NOW), False),
        (Query(ends_after=NOW, ends_before=NOW + 31 * DAY), True),
        (Query(ends_before=NOW + DAY), False),
        (Query(after=6, before=8), True),
        (Query(after=7), False),
        (Query(before=7), False),
    ],
)  # fmt: skip
def test_a_query_means_all_that_it_names(query: Query, is_found: bool) -> None:
    assert matches(query, 7, ENTRY) is is_found
    if is_found:
        assert set(entries.terms_wanted(query)) <= set(entries.terms_of(ENTRY))


def test_no_time_is_between_no_times() -> None:
    assert not matches(Query(ends_after=NOW), 0, msgspec.structs.replace(ENTRY, not_after=None))


def test_the_digest_is_of_exactly_what_was_asked_for() -> None:
    former = entries.digest_of("s", b"request", ("a", "b"), 600)
    assert former == entries.digest_of("s", b"request", ("b", "a", "a"), 600)
    others = [("t", b"request", ("a", "b"), 600), ("s", b"reques", ("a", "b"), 600), ("s", b"request", ("a",), 600),
              ("s", b"request", ("a", "b"), 601), ("s", b"request", ("a", "b"), None)]  # fmt: skip
    assert len({former, *(entries.digest_of(*each) for each in others)}) == 6


def test_who_has_long_groups_makes_no_long_entry() -> None:
    groups = ["g" * 1000] * 100
    entry = asked(groups=groups, extra={"k": ["v"]}, requester="r" * 100_000)
    assert sum(map(len, entry.groups)) <= MAX_IDENTITY_BYTES and entry.groups[-1] == "…" and not entry.extra
    assert len(entry.requester) <= entries.MAX_TEXT + 1
    long = asked(groups=["g"], extra={"a": ["v"], "b": ["w" * 20_000]})
    assert long.groups == ("g",) and long.extra == {"a": ("v",), "…": ()}


def test_a_trace_is_cut_and_says_so() -> None:
    trace = entries.bounded_trace([{"rule": "x" * 1000}] * 100)
    assert len(msgspec.json.encode(trace)) <= MAX_TRACE_BYTES + 20
    assert trace[-1] == {"cut": 100 - (len(trace) - 1)}
    assert entries.bounded_trace([{"rule": "x"}]) == [{"rule": "x"}]


def test_what_is_too_large_is_refused() -> None:
    with pytest.raises(EntryTooLarge, match="for csr-1"):
        entries.encode(msgspec.structs.replace(ENTRY, message="x" * entries.MAX_ENTRY_BYTES))
