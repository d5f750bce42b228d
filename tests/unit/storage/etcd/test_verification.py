"""Members that hold other things are named, and only those that can be compared are."""

from __future__ import annotations

from kubevouch.storage.etcd.verification import Member, findings
from kubevouch.storage.interface import Revision

A, B, C = "http://a", "http://b", "http://c"


def test_members_that_disagree_are_named() -> None:
    same = [Member(A, compacted=5, hash=1), Member(B, compacted=5, hash=1)]
    assert findings(same, Revision(9)) == []
    (found,) = findings([*same, Member(C, compacted=5, hash=2)], Revision(9))
    assert found.endswith("up to revision 9: http://a and http://b; http://c")


def test_what_was_compacted_elsewhere_says_nothing() -> None:
    assert findings([Member(A, compacted=5, hash=1), Member(B, compacted=6, hash=2)], Revision(9)) == []


def test_a_member_that_does_not_answer_or_has_an_alarm_is_named() -> None:
    members = [Member(A, "failed to connect"), Member(B, alarms=("NOSPACE",), compacted=5, hash=1)]
    assert findings(members, Revision(9)) == ["http://a: failed to connect", "http://b: NOSPACE"]
