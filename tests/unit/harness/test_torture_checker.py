"""The checker of histories, rule by rule: what breaks it is found, and what only looks like it is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from torture import checker
from torture.history import (
    BROKEN,
    Answered,
    Asked,
    Bound,
    CertificateRequest,
    Damaged,
    Fence,
    Header,
    History,
    Issued,
    Record,
    Revoked,
    Seen,
    Told,
    load,
)
from torture.run import explain

A, B, MAPS = "configmaps/x/a", "configmaps/x/b", "configmaps/x/"
CSR = "certificatesigningrequests/r"


class Script:
    """A history by hand. Each call is a request with its answer, unless ``ask`` and ``answer`` are called apart."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._ops = 0
        self.at = 0.0

    def ask(self, verb: Any, key: str, value: str = "", expected: int | None = None, **more: Any) -> int:
        self._ops += 1
        self.records.append(Asked(self.at, self._ops, "c", verb, key, value, expected, **more))
        return self._ops

    def answer(self, op: int, code: int, *items: Seen, revision: int = 0) -> None:
        newest = revision or (items[0].revision if items else 0)
        self.records.append(Answered(self.at, op, code, newest, list(items)))

    def write(self, verb: str, key: str, value: str, revision: int, expected: int | None = None) -> None:
        self.answer(self.ask(verb, key, value, expected), 200, Seen(key, revision, "u", value))

    def delete(self, key: str, code: int = 200) -> None:
        self.answer(self.ask("delete", key), code)

    def get(self, key: str, value: str, revision: int) -> None:
        self.answer(self.ask("get", key, consistent=True), 200, Seen(key, revision, "u", value))

    def absent(self, key: str) -> None:
        self.answer(self.ask("get", key, consistent=True), 404)

    def list_(self, revision: int, *items: Seen, consistent: bool = True) -> None:
        self.answer(self.ask("list", MAPS, consistent=consistent), 200, *items, revision=revision)

    def watch(self, after: int | None, *events: tuple[str, int, str], key: str = A) -> int:
        op = self.ask("watch", MAPS, expected=after)
        for kind, revision, value in events:
            seen = None if kind in ("BOOKMARK", "END") else Seen(key, revision, "u", value)
            self.records.append(
                Told(self.at, op, "BOOKMARK" if kind == "END" else kind, revision, seen, initial_end=kind == "END")
            )
        return op

    def request(self, revision: int, uid: str = "u", user: str = "", **state: Any) -> None:
        seen = Seen(CSR, revision, uid, "", CertificateRequest(user, **state))
        self.answer(self.ask("get", CSR, consistent=True), 200, seen)

    @property
    def rules(self) -> set[str]:
        return {each.rule for each in checker.check(self.records)}


def item(key: str, revision: int, value: str) -> Seen:
    return Seen(key, revision, "u", value)


def test_what_is_right_is_not_found() -> None:
    script = Script()
    script.write("create", A, "1", 2)
    script.get(A, "1", 2)
    script.write("update", A, "2", 3, expected=2)
    script.list_(3, item(A, 3, "2"))
    script.watch(None, ("ADDED", 3, "2"), ("END", 3, ""))
    script.watch(2, ("MODIFIED", 3, "2"), ("BOOKMARK", 3, ""))
    script.delete(A)
    script.absent(A)
    script.watch(3, ("DELETED", 4, "2"))
    script.write("create", A, "3", 5)
    script.list_(3, item(A, 3, "2"), consistent=False)
    script.watch(3, ("DELETED", 4, "2"), ("ADDED", 5, "3"))
    assert script.rules == set()


def lost(script: Script) -> None:
    script.write("create", A, "1", 2)
    script.absent(A)


def stale(script: Script) -> None:
    script.write("create", A, "1", 2)
    script.write("patch", A, "2", 3)
    script.get(A, "1", 2)


def stale_after_an_event(script: Script) -> None:
    """Nobody was answered, but a watch has told of it: so it has happened."""
    script.write("create", A, "1", 2)
    script.answer(script.ask("patch", A, "2"), BROKEN)
    script.watch(2, ("MODIFIED", 3, "2"))
    script.get(A, "1", 2)


def stale_list(script: Script) -> None:
    script.write("create", A, "1", 2)
    script.list_(1)


def went_back(script: Script) -> None:
    script.write("create", A, "1", 9)
    script.write("create", B, "2", 8)


def undone(script: Script) -> None:
    script.write("create", A, "1", 2)
    script.delete(A)
    script.get(A, "1", 2)


def lost_update(script: Script) -> None:
    script.write("create", A, "1", 2)
    script.write("update", A, "2", 3, expected=2)
    script.write("update", A, "3", 4, expected=2)


def created_twice(script: Script) -> None:
    script.write("create", A, "1", 2)
    script.write("create", A, "2", 3)


def refused_and_done(script: Script) -> None:
    script.write("create", A, "1", 2)
    script.answer(script.ask("update", A, "2", 2), 409)
    script.get(A, "2", 3)


def nobody_wrote(script: Script) -> None:
    script.get(A, "1", 2)


def shared_revision(script: Script) -> None:
    script.write("create", A, "1", 2)
    script.write("create", B, "2", 2)


def two_states(script: Script) -> None:
    one, other = script.ask("create", A, "1"), script.ask("patch", A, "2")
    script.answer(one, 201, item(A, 2, "1"))
    script.answer(other, 200, item(A, 2, "2"))


def of_two_times(script: Script) -> None:
    script.write("create", A, "1", 2)
    script.write("create", B, "2", 3)
    script.write("patch", A, "3", 4)
    script.list_(3, item(A, 4, "3"), item(B, 3, "2"), consistent=False)


def without_one(script: Script) -> None:
    script.write("create", A, "1", 2)
    script.write("create", B, "2", 3)
    script.list_(3, item(B, 3, "2"), consistent=False)


def missed(script: Script) -> None:
    script.write("create", A, "1", 2)
    script.write("patch", A, "2", 3)
    script.watch(1, ("ADDED", 2, "1"), ("BOOKMARK", 3, ""))


def told_twice(script: Script) -> None:
    script.write("create", A, "1", 2)
    script.watch(1, ("ADDED", 2, "1"), ("ADDED", 2, "1"))


def out_of_order(script: Script) -> None:
    script.write("create", A, "1", 2)
    script.write("patch", A, "2", 3)
    script.watch(1, ("MODIFIED", 3, "2"), ("ADDED", 2, "1"))


def from_before_the_start(script: Script) -> None:
    script.write("create", A, "1", 2)
    script.watch(2, ("ADDED", 2, "1"))


def wrong_type(script: Script) -> None:
    script.write("create", A, "1", 2)
    script.write("patch", A, "2", 3)
    script.watch(2, ("ADDED", 3, "2"))


def stands_still(script: Script) -> None:
    script.write("create", A, "1", 2)
    script.watch(2)
    script.write("patch", A, "2", 3)
    script.records.append(Fence(0, 3))


def open_request(script: Script) -> None:
    script.request(2)
    script.request(3, certificate="c1")
    script.request(4, certificate="c1", approved=True)


def denied_request(script: Script) -> None:
    script.request(2, denied=True)
    script.request(3, denied=True, certificate="c1")


def signed_twice(script: Script) -> None:
    script.request(2, approved=True)
    script.request(3, approved=True, certificate="c1")
    script.request(4, approved=True, certificate="c2")


def not_entered(script: Script) -> None:
    script.request(2, approved=True, certificate="c1")
    script.records.append(Issued(0, "a", "other", "c2", counts=True))


def entered_twice(script: Script) -> None:
    script.request(2, approved=True, certificate="c1")
    script.records += [Issued(0, "a", "u", each, counts=True) for each in ("c1", "c2")]


def damaged(script: Script) -> None:
    script.records.append(Damaged(0, "store verify: a row is missing"))


def left_lying(script: Script) -> None:
    script.request(2, approved=True)
    script.records.append(Fence(0, 2))


def token_overused(script: Script) -> None:
    script.records.append(Bound(0, "system:bootstrap:a", 1))
    script.request(3, uid="u1", user="system:bootstrap:a", approved=True, certificate="c1")
    script.request(4, uid="u2", user="system:bootstrap:a", approved=True, certificate="c2")


def revoked_and_served(script: Script) -> None:
    script.records.append(Revoked(0, "c1"))
    script.at = 1.1
    script.answer(script.ask("call", "GET /", identity="c1"), 200)


def revoked_and_told(script: Script) -> None:
    op = script.ask("watch", MAPS, expected=1, identity="c1")
    script.records.append(Revoked(0, "c1"))
    script.at = 1.1
    script.write("create", A, "1", 2)
    script.records.append(Told(1.2, op, "ADDED", 2, item(A, 2, "1")))


BROKEN_RULES = [
    (lost, "a lost write"),
    (stale, "a stale read"),
    (stale_after_an_event, "a stale read"),
    (stale_list, "a stale list"),
    (went_back, "a revision that went back"),
    (undone, "a deletion undone"),
    (lost_update, "a lost update"),
    (created_twice, "a second creation"),
    (refused_and_done, "a refused write that happened"),
    (nobody_wrote, "a value that nobody wrote"),
    (shared_revision, "two changes at one revision"),
    (two_states, "two states at one revision"),
    (of_two_times, "not the state of its revision"),
    (without_one, "not the state of its revision"),
    (missed, "a change that a watch was not told of"),
    (told_twice, "an event twice"),
    (out_of_order, "events out of order"),
    (from_before_the_start, "events out of order"),
    (wrong_type, "an event of the wrong type"),
    (stands_still, "a watch that stands still"),
    (open_request, "a certificate without an approval"),
    (denied_request, "a denied request that was signed"),
    (signed_twice, "two certificates for one request"),
    (not_entered, "a certificate without an entry"),
    (entered_twice, "two certificates for one request"),
    (damaged, "damaged files"),
    (left_lying, "an approved request left lying"),
    (token_overused, "a token used too often"),
    (revoked_and_served, "a revoked certificate served"),
    (revoked_and_told, "a revoked certificate served"),
]


@pytest.mark.parametrize(("play", "rule"), BROKEN_RULES, ids=[each[0].__name__ for each in BROKEN_RULES])
def test_what_is_wrong_is_found_and_shown(play: Any, rule: str) -> None:
    script = Script()
    play(script)
    found = [each for each in checker.check(script.records) if each.rule == rule]
    assert found, script.rules
    assert str(found[0]) in explain(script.records, found[0])


# ------------------------------------------------------------------ what nobody can know


def test_a_write_without_an_answer_may_have_happened_or_not() -> None:
    for there in (True, False):
        script = Script()
        script.write("create", A, "1", 2)
        script.answer(script.ask("update", A, "2", 2), BROKEN)
        if there:
            script.get(A, "2", 3)
        else:
            script.get(A, "1", 2)
        assert script.rules == set()


def test_a_deletion_without_an_answer_may_come_at_any_time() -> None:
    script = Script()
    script.write("create", A, "1", 2)
    script.delete(A, BROKEN)
    script.get(A, "1", 2)
    script.absent(A)
    script.write("create", A, "2", 4)
    script.watch(2, ("DELETED", 3, "1"), ("ADDED", 4, "2"))
    assert script.rules == set()


def test_a_failure_of_the_servers_own_decides_nothing() -> None:
    script = Script()
    script.write("create", A, "1", 2)
    script.answer(script.ask("update", A, "2", 2), 500)
    script.get(A, "2", 3)
    assert script.rules == set()


def test_a_read_that_was_under_way_may_be_of_before() -> None:
    script = Script()
    script.write("create", A, "1", 2)
    reading = script.ask("get", A, consistent=True)
    script.write("patch", A, "2", 3)
    script.answer(reading, 200, item(A, 2, "1"))
    assert script.rules == set()


def test_a_deletion_that_was_refused_has_not_happened() -> None:
    script = Script()
    script.write("create", A, "1", 2)
    script.delete(A, 409)
    script.absent(A)
    assert script.rules == {"a lost write"}


def test_within_a_second_a_revoked_certificate_may_be_served() -> None:
    script = Script()
    script.records.append(Revoked(0, "c1"))
    script.at = 0.9
    op = script.ask("call", "GET /", identity="c1")
    script.at = 5.0
    script.answer(op, 200)
    script.answer(script.ask("call", "GET /", identity="c1"), 401)
    assert script.rules == set()


def test_a_certificate_that_was_discarded_does_not_count() -> None:
    script = Script()
    script.request(2, approved=True, certificate="c1")
    script.records += [Issued(0, "a", "u", "c1", counts=True), Issued(0, "a", "u", "c2", counts=False)]
    assert script.rules == set()


def test_a_watch_that_ended_owes_nothing() -> None:
    script = Script()
    script.write("create", A, "1", 2)
    op = script.watch(2)
    script.write("patch", A, "2", 3)
    script.answer(op, 410)
    script.records.append(Fence(0, 3))
    assert script.rules == set()


def test_a_history_is_read_back(tmp_path: Path) -> None:
    script = Script()
    stale(script)
    history = History(Header(7, "sqlite", "", ["--seed", "7"]), tmp_path / "history")
    for record in script.records:
        history.add(record)
    history.close()
    with (tmp_path / "history").open("ab") as file:
        file.write(b'{"is":"asked","at":1')  # the recorder was killed
    assert load(tmp_path / "history") == (history.header, script.records)
