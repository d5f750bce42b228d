"""What must be true of a history, whatever was done to the system meanwhile. Pure: records in, violations out.

The store gives each change a revision of its own, and every object and list says its revision. So no order of the
operations has to be searched for: the revisions are one, and what is left is to hold each answer against it, and
against what was known when it was asked for. (Searching for an order, as Porcupine and Knossos do, is for systems that
show none; reading it off what was read, as Elle does, is what is done here.)
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from torture import certificates
from torture.history import BROKEN, Answered, Asked, Fence, Record, Seen, Told
from torture.violations import Violation

WRITES = ("create", "update", "patch", "delete")


@dataclass(slots=True)
class _Op:
    """A request with its answer, and where they stand among the records.

    ``floor`` is the highest revision that anybody knew of when it was sent, ``witness`` the request that showed it.
    """

    asked: Asked
    begun: int
    floor: int
    witness: int
    answer: Answered | None = None
    ended: int = 1 << 62
    told: list[tuple[int, Told]] = field(default_factory=list)

    @property
    def code(self) -> int:
        return BROKEN if self.answer is None else self.answer.code

    @property
    def succeeded(self) -> bool:
        return 200 <= self.code < 300

    @property
    def is_refused(self) -> bool:
        return self.answer is not None and self.answer.is_refusal


@dataclass(slots=True)
class _Version:
    """What is known of one revision of one key. ``known``: since which record; ``begun``: when its write was sent."""

    seen: Seen
    known: int
    deleted: bool = False
    begun: int = -1


@dataclass(slots=True)
class _Key:
    """All that is known of one object: its versions by revision, and the deletions that were asked for."""

    versions: dict[int, _Version] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)
    """The revisions, in order."""
    deletes: list[_Op] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    tops: list[int] = field(default_factory=list)
    """From the record ``marks[n]`` on, ``tops[n]`` was the newest revision that anybody knew of."""

    def add(self, version: _Version) -> None:
        self.versions[version.seen.revision] = version
        if not self.tops or version.seen.revision > self.tops[-1]:
            self.marks.append(version.known)
            self.tops.append(version.seen.revision)

    def known_before(self, place: int) -> _Version | None:
        """The newest version that somebody knew of before the record ``place``."""
        at = bisect.bisect_left(self.marks, place)
        return self.versions[self.tops[at - 1]] if at else None

    def newest(self, revision: int) -> _Version | None:
        """At that revision: the last one known up to there."""
        at = bisect.bisect_right(self.order, revision)
        return self.versions[self.order[at - 1]] if at else None

    def before(self, revision: int) -> _Version | None:
        return self.newest(revision - 1)

    def may_have_been_deleted(self, version: _Version, before: int) -> bool:
        """Whether one of the deletions may have come after ``version`` was written and before the record ``before``."""
        return any(each.begun < before and not each.is_refused and each.ended > version.begun for each in self.deletes)


class _Timeline:
    """Everything that anybody saw, by key and revision."""

    def __init__(self, records: list[Record]) -> None:
        self.ops: dict[int, _Op] = {}
        self.keys: dict[str, _Key] = defaultdict(_Key)
        self.fence: Fence | None = None
        self.fenced = 0
        """Which record the fence is."""
        self.violations: list[Violation] = []
        self._owners: dict[int, str] = {}
        self._written: dict[str, _Op] = {}
        floor, witness = 0, 0
        for place, record in enumerate(records):
            if isinstance(record, Asked):
                self._ask(_Op(record, place, floor, witness))
            elif isinstance(record, Answered):
                op = self.ops[record.op]
                op.answer, op.ended = record, place
                newest = max(record.revision, max((each.revision for each in record.items), default=0))
                if newest > floor:
                    floor, witness = newest, record.op
                self._answer(op, place)
            elif isinstance(record, Told):
                op = self.ops[record.op]
                op.told.append((place, record))
                if record.revision > floor:
                    floor, witness = record.revision, record.op
                if record.seen is not None:
                    self._see(record.seen, place, op, deleted=record.type == "DELETED")
            elif isinstance(record, Fence):
                self.fence, self.fenced = record, place
        for key in self.keys.values():
            key.order = sorted(key.versions)

    def _ask(self, op: _Op) -> None:
        self.ops[op.asked.op] = op
        if op.asked.value:
            self._written[op.asked.value] = op
        if op.asked.verb == "delete":
            self.keys[op.asked.key].deletes.append(op)

    def _answer(self, op: _Op, place: int) -> None:
        assert op.answer is not None
        for seen in op.answer.items:
            self._see(seen, place, op)

    def _see(self, seen: Seen, place: int, op: _Op, *, deleted: bool = False) -> None:
        """Step 1: one revision is one change of one object, and what is seen was written by somebody."""
        about = {op.asked.op}
        owner = self._owners.setdefault(seen.revision, seen.key)
        if owner != seen.key:
            self._violate(
                "two changes at one revision", f"{seen.revision} is {owner}'s and {seen.key}'s", about, seen.key
            )
        writer = self._written.get(seen.value) if seen.value else None
        if seen.value and writer is None:
            self._violate("a value that nobody wrote", f"{seen.key} has {seen.value!r}", about, seen.key)
        key = self.keys[seen.key]
        known = key.versions.get(seen.revision)
        if known is None:
            key.add(_Version(seen, place, deleted, -1 if writer is None else writer.begun))
        elif (known.seen.value, known.seen.uid, known.deleted) != (seen.value, seen.uid, deleted):
            what = f"{seen.key} at {seen.revision} is {_shown(known.seen, known.deleted)} and {_shown(seen, deleted)}"
            self._violate("two states at one revision", what, about, seen.key)

    def _violate(self, rule: str, what: str, ops: set[int], key: str) -> None:
        self.violations.append(Violation(rule, what, frozenset(ops), frozenset({key})))

    def within(self, prefix: str) -> Iterator[tuple[str, _Key]]:
        return ((name, key) for name, key in self.keys.items() if name.startswith(prefix))


def _shown(seen: Seen, deleted: bool) -> str:
    return f"{'deleted ' if deleted else ''}{seen.value or 'of no value'} (uid {seen.uid or 'unknown'})"


def check(records: list[Record]) -> list[Violation]:
    """Everything that is wrong; empty is proof that nothing was, as far as anybody looked."""
    timeline = _Timeline(records)
    found = list(timeline.violations)
    for op in timeline.ops.values():
        found += _check_order(op)
        if op.asked.verb in WRITES:
            found += _check_write(timeline, op)
        elif op.asked.verb in ("get", "list") and op.succeeded:
            found += _check_state(timeline, op)
        elif op.asked.verb == "watch":
            found += _check_watch(timeline, op)
        if op.asked.verb in ("get", "list") and op.asked.consistent:
            found += _check_fresh(timeline, op)
    found += certificates.check(records)
    return found


# ------------------------------------------------------------------ revisions


def _check_order(op: _Op) -> Iterator[Violation]:
    """Step 2: who asks later is told of a later state."""
    asked, answer = op.asked, op.answer
    if answer is None or not op.succeeded or not answer.revision:
        return
    about, keys = frozenset({asked.op, op.witness}), frozenset({asked.key})
    if asked.value and answer.revision <= op.floor:
        what = f"{asked.verb} of {asked.key} made revision {answer.revision}, {op.floor} was known before it was sent"
        yield Violation("a revision that went back", what, about, keys)
    elif asked.verb == "list" and asked.consistent and answer.revision < op.floor:
        what = f"a list of {asked.key} is of revision {answer.revision}, {op.floor} was known before it was asked for"
        yield Violation("a stale list", what, about, keys)


# ------------------------------------------------------------------ writes


def _check_write(timeline: _Timeline, op: _Op) -> Iterator[Violation]:
    """Step 3: a write that was refused is seen by nobody; one that named a version replaced that very one."""
    asked, answer = op.asked, op.answer
    about, keys = frozenset({asked.op}), frozenset({asked.key})
    key = timeline.keys.get(asked.key)
    if key is None or answer is None:
        return
    if op.is_refused and asked.value:
        for revision, version in key.versions.items():
            if version.seen.value == asked.value and not version.deleted:
                what = f"{asked.verb} of {asked.key} was answered with {answer.code}, and is there at {revision}"
                yield Violation("a refused write that happened", what, about, keys)
                return
    if not op.succeeded or not answer.revision or asked.verb == "delete":
        return
    before = key.before(answer.revision)
    if before is None:
        return
    if asked.verb == "create" and not before.deleted and not key.may_have_been_deleted(before, op.ended):
        what = f"{asked.key} was created at {answer.revision} and was there since {before.seen.revision}"
        yield Violation("a second creation", what, about, keys)
    if asked.expected is not None and asked.verb != "create" and before.seen.revision > asked.expected:
        what = (
            f"{asked.verb} of {asked.key} at {asked.expected} became {answer.revision} over {before.seen.revision}, "
            "which it had not seen"
        )
        yield Violation("a lost update", what, about, keys)


# ------------------------------------------------------------------ reads


def _check_fresh(timeline: _Timeline, op: _Op) -> Iterator[Violation]:
    """Step 4: a consistent read has every version that was known, and no deletion undone, when it was asked for."""
    asked, answer = op.asked, op.answer
    if answer is None or not (op.succeeded or (asked.verb == "get" and answer.code == 404)):
        return
    shown = {each.key: each for each in answer.items}
    names = [(asked.key, timeline.keys[asked.key])] if asked.verb == "get" else timeline.within(asked.key)
    for name, key in names:
        newest = key.known_before(op.begun)
        if newest is None:
            continue
        there = shown.get(name)
        about, keys = frozenset({asked.op}), frozenset({name})
        if there is None:
            if not newest.deleted and not _is_gone(key, newest, op):
                what = f"{name} at {newest.seen.revision} was known before, and a {asked.verb} does not have it"
                yield Violation("a lost write", what, about, keys)
        elif there.revision < newest.seen.revision:
            what = f"{name} at {newest.seen.revision} was known before, and a {asked.verb} has {there.revision}"
            yield Violation("a stale read", what, about, keys)
        else:
            yield from _check_undone(key, op, there)


def _is_gone(key: _Key, newest: _Version, op: _Op) -> bool:
    later = (each for revision, each in key.versions.items() if revision > newest.seen.revision and each.deleted)
    return any(later) or key.may_have_been_deleted(newest, op.ended)


def _check_undone(key: _Key, op: _Op, there: Seen) -> Iterator[Violation]:
    version = key.versions[there.revision]
    for each in key.deletes:
        if each.succeeded and version.known < each.begun and each.ended < op.begun:
            what = f"{there.key} was deleted after {there.revision}, and a {op.asked.verb} has that again"
            about = frozenset({op.asked.op, each.asked.op})
            yield Violation("a deletion undone", what, about, frozenset({there.key}))
            return


def _check_state(timeline: _Timeline, op: _Op) -> Iterator[Violation]:
    """Step 5: a list is the state at its revision, whole: no version of before or after, nothing missing."""
    asked, answer = op.asked, op.answer
    assert answer is not None
    if asked.verb != "list":
        return
    yield from _check_snapshot(timeline, op, answer.revision, answer.items, op.ended)


def _check_snapshot(
    timeline: _Timeline, op: _Op, revision: int, items: Iterable[Seen], ended: int
) -> Iterator[Violation]:
    shown = {each.key: each for each in items}
    about = frozenset({op.asked.op})
    for name, key in timeline.within(op.asked.key):
        expected, there = key.newest(revision), shown.get(name)
        if there is not None and there.revision > revision:
            what = f"a {op.asked.verb} at {revision} has {name} at {there.revision}"
            yield Violation("not the state of its revision", what, about, frozenset({name}))
        elif expected is None:
            continue
        elif there is None:
            if not expected.deleted and not key.may_have_been_deleted(expected, ended):
                what = (
                    f"a {op.asked.verb} at {revision} is without {name}, which is there since {expected.seen.revision}"
                )
                yield Violation("not the state of its revision", what, about, frozenset({name}))
        elif expected.deleted or there.revision != expected.seen.revision:
            is_at = "deleted at" if expected.deleted else "at"
            shows = f"a {op.asked.verb} at {revision} has {name} at {there.revision}"
            what = f"{shows}, it was {is_at} {expected.seen.revision}"
            yield Violation("not the state of its revision", what, about, frozenset({name}))


# ------------------------------------------------------------------ watches


def _check_watch(timeline: _Timeline, op: _Op) -> Iterator[Violation]:
    """Step 6: every change behind the start once, in order and as what it was; at the end nothing is outstanding."""
    asked = op.asked
    start, live = asked.expected, op.told
    about = frozenset({asked.op})
    if start is None:
        ends = [at for at, (_, each) in enumerate(op.told) if each.initial_end]
        if not ends:
            return
        place, mark = op.told[ends[0]]
        start, live = mark.revision, op.told[ends[0] + 1 :]
        initial = [each.seen for _, each in op.told[: ends[0]] if each.seen is not None]
        yield from _check_snapshot(timeline, op, start, initial, place)
    reached, told = start, set()
    for _, each in live:
        keys = frozenset() if each.seen is None else frozenset({each.seen.key})
        if each.seen is not None and each.revision in told:
            yield Violation("an event twice", f"{each.seen.key} at {each.revision} was told again", about, keys)
        elif each.revision < reached or (each.seen is not None and each.revision == reached):
            what = f"a watch was told of {each.revision} when it had come to {reached}"
            yield Violation("events out of order", what, about, keys)
        if each.seen is not None:
            told.add(each.revision)
            yield from _check_type(timeline, op, each)
        reached = max(reached, each.revision)
    yield from _check_complete(timeline, op, start, reached, told)


def _check_complete(timeline: _Timeline, op: _Op, start: int, reached: int, told: set[int]) -> Iterator[Violation]:
    about = frozenset({op.asked.op})
    for name, key in timeline.within(op.asked.key):
        first, last = bisect.bisect_right(key.order, start), bisect.bisect_right(key.order, reached)
        for revision in key.order[first:last]:
            if revision not in told:
                what = f"a watch from {start} that came to {reached} was not told of {name} at {revision}"
                yield Violation("a change that a watch was not told of", what, about, frozenset({name}))
    fence = timeline.fence
    if fence is not None and op.ended > timeline.fenced and reached < fence.revision:
        missing = [
            f"{name} at {revision}"
            for name, key in timeline.within(op.asked.key)
            for revision in key.order[bisect.bisect_right(key.order, reached) :]
            if revision <= fence.revision
        ]
        if missing:
            what = f"a watch that has come to {reached} and is open at the end was not told of {missing[0]}"
            keys = frozenset({missing[0].partition(" ")[0]})
            yield Violation("a watch that stands still", what, about, keys)


def _check_type(timeline: _Timeline, op: _Op, told: Told) -> Iterator[Violation]:
    assert told.seen is not None
    key = timeline.keys[told.seen.key]
    before = key.before(told.revision)
    was_there = before is not None and not before.deleted
    if told.type == "ADDED" and was_there:
        assert before is not None
        # Its deletion may be one that nobody was told of.
        if key.may_have_been_deleted(before, 1 << 62):
            return
        what = f"{told.seen.key} was added at {told.revision}, and was there since {before.seen.revision}"
    elif told.type == "MODIFIED" and before is not None and before.deleted:
        what = f"{told.seen.key} was changed at {told.revision}, and was deleted at {before.seen.revision}"
    else:
        return
    yield Violation("an event of the wrong type", what, frozenset({op.asked.op}), frozenset({told.seen.key}))
