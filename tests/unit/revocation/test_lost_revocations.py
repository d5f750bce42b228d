"""revocation/lost_revocations.py: what the ledger has in force against the objects that there are."""

from __future__ import annotations

import datetime as dt

import pytest

from kubevouch.ledger.entries import ISSUED, REVOKED, Entry
from kubevouch.revocation.lost_revocations import LIFTED, lost_revocations

NOW = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)


def revoked(name: str, reason: str = "keyCompromise") -> Entry:
    return Entry(kind=REVOKED, at=NOW, request=name, reason=reason)


@pytest.mark.parametrize(
    ("entries", "present", "lost"),
    [
        ([], set(), []),
        ([revoked("a")], {"a"}, []),
        ([revoked("a"), revoked("b")], {"a"}, ["b"]),
        ([revoked("a"), revoked("a", LIFTED)], set(), []),
        ([revoked("a"), revoked("a", LIFTED), revoked("a", "superseded")], set(), ["a"]),
        ([revoked("a", LIFTED), revoked("b")], {"a"}, ["b"]),
        ([Entry(kind=ISSUED, at=NOW, request="csr-1")], set(), []),
        ([revoked("b"), revoked("a"), revoked("b", "superseded")], set(), ["a", "b"]),
    ],
)
def test_a_revocation_is_lost_if_nobody_has_lifted_it(entries: list[Entry], present: set[str], lost: list[str]) -> None:
    found = lost_revocations(entries, present)
    assert [entry.request for entry in found] == lost
    assert all(entry.reason != LIFTED for entry in found)
