"""ledger/segments.py: what is written is one chain, and whatever somebody does to a segment is found."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ledger_world as world
from kubevouch.ledger import chain, entries, proofs, segments
from kubevouch.ledger.interface import LedgerDamaged
from kubevouch.ledger.segments import ENTRIES, HEADER, Header, Position

ORIGIN = "kubevouch.io/ledger/00"
Held = list[tuple[dict[str, str], bool]]


def held(count: int, together: int = 7) -> Held:
    """A ledger of ``count`` entries that were appended by sevens: data and whether it is closed, of each segment."""
    position, text = segments.begun(ORIGIN), ""
    made: Held = []
    for begin in range(0, count, together):
        bodies = [entries.encode(world.entry(number)) for number in range(begin, min(begin + together, count))]
        data, is_full, after = segments.written(position, text, bodies)
        if position.within:
            made[-1] = data, is_full
        else:
            made.append((data, is_full))
        position, text = after, "" if is_full else data[ENTRIES]
    return made


def read(found: Held, position: Position = segments.BEFORE_ALL) -> tuple[list[entries.Entry], Position]:
    all_entries = []
    for data, is_closed in found:
        added, position = segments.followed(position, data, is_closed=is_closed)
        all_entries += [each.entry for each in added]
    return all_entries, position


def test_what_was_written_is_read_in_its_order() -> None:
    made = held(200)
    assert [is_closed for _, is_closed in made] == [True] * (len(made) - 1) + [False]
    assert len(made) > 2
    found, position = read(made)
    assert found == [world.entry(number) for number in range(200)]
    link = chain.beginning(ORIGIN)
    for number in range(200):
        link = chain.link(link, proofs.leaf_hash(entries.encode(world.entry(number))))
    assert (position.size, position.link, position.origin) == (200, link, ORIGIN)


def test_an_open_segment_that_grew_adds_what_is_new() -> None:
    _, position = read(held(14))
    added, after = segments.followed(position, held(30)[0][0], is_closed=False)
    assert [each.entry for each in added] == [world.entry(number) for number in range(14, 30)]
    assert after == read(held(30))[1]
    again, unchanged = segments.followed(after, held(30)[0][0], is_closed=False)
    assert (again, unchanged) == ([], after)


def replaced(at: int, key: str, change: Callable[[str], str]) -> Callable[[Held], Held]:
    def meddled(made: Held) -> Held:
        data, is_closed = made[at]
        return [*made[:at], ({**data, key: change(data[key])}, is_closed), *made[at + 1 :]]

    return meddled


def header(**changed: object) -> Callable[[str], str]:
    return lambda text: msgspec.json.encode(
        msgspec.structs.replace(msgspec.json.decode(text, type=Header), **changed)
    ).decode()


def lines(change: Callable[[list[str]], list[str]]) -> Callable[[str], str]:
    return lambda text: "".join(change(text.splitlines(keepends=True)))


MEDDLED: dict[str, tuple[Callable[[Held], Held], str]] = {
    "changed": (replaced(0, ENTRIES, lambda text: text.replace("csr-1", "csr-9", 1)), "behind"),
    "an entry gone": (replaced(0, ENTRIES, lines(lambda each: each[1:])), "from entry"),
    "two entries swapped": (replaced(0, ENTRIES, lines(lambda each: [each[1], each[0], *each[2:]])), "behind"),
    "an entry twice": (replaced(0, ENTRIES, lines(lambda each: [each[0], *each])), "from entry"),
    "deleted": (lambda made: made[:1] + made[2:], "number 2"),
    "the first deleted": (lambda made: made[1:], "number 1"),
    "swapped": (lambda made: [made[0], made[2], made[1], *made[3:]], "number 2"),
    "twice": (lambda made: [made[0], made[0], *made[1:]], "number 0"),
    "twice with another number": (
        lambda made: [made[0], *replaced(0, HEADER, header(number=1))(made)],
        "from entry 0",
    ),
    "of another ledger": (replaced(1, HEADER, header(origin="kubevouch.io/ledger/01")), "ledger/01"),
    "tied to another": (replaced(1, HEADER, header(previous="00" * 32)), "behind 000000000000"),
    "no hash": (replaced(1, HEADER, header(previous="../..")), "cannot be meant"),
    "no JSON": (replaced(0, ENTRIES, lambda text: "{" + text), "cannot be read"),
    "deep JSON": (replaced(0, ENTRIES, lambda _: '{"trace":' + "[" * 100_000 + "\n"), "cannot be read"),
    "no entry": (replaced(0, ENTRIES, lambda _: "[]\n"), "cannot be read"),
    "empty": (replaced(0, ENTRIES, lambda _: ""), "within an entry"),
    "cut": (replaced(0, ENTRIES, lambda text: text[:-1]), "within an entry"),
    "half a character": (replaced(0, ENTRIES, lambda _: "\ud800\n"), "no Unicode"),
    "oversized": (replaced(0, ENTRIES, lambda _: "x" * (segments.MOST_BYTES + 1)), "at most 1048576"),
    "an oversized entry": (
        replaced(0, ENTRIES, lambda _: "x" * (entries.MAX_ENTRY_BYTES + 1) + "\n"),
        f"at most {entries.MAX_ENTRY_BYTES}",
    ),
    "a header that is none": (replaced(1, HEADER, lambda _: "[1]"), "cannot be read"),
    "a header with more": (replaced(1, HEADER, lambda text: text[:-1] + ',"more":1}'), "cannot be read"),
    "a long header": (replaced(1, HEADER, lambda text: text + " " * 2000), "characters"),
    "no header": (lambda made: [({ENTRIES: made[0][0][ENTRIES]}, True)], "the keys entries and header"),
    "another key": (lambda made: [({**made[0][0], "more": ""}, True)], "more"),
}


@pytest.mark.parametrize("name", MEDDLED)
def test_what_was_meddled_with_is_found(name: str) -> None:
    meddle, words = MEDDLED[name]
    with pytest.raises(LedgerDamaged) as caught:
        read(meddle(held(200)))
    assert words in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_an_open_segment_must_keep_what_was_seen_in_it() -> None:
    seen = read(held(14))[1]
    for meddle in (
        lines(lambda each: each[:7]),
        lambda text: text.replace("csr-1", "csr-9", 1),
        lines(lambda each: [*each[1:], each[0]]),
    ):
        with pytest.raises(LedgerDamaged):
            read(replaced(0, ENTRIES, meddle)(held(14)), seen)


def test_a_head_is_read_back_and_nothing_else_is_one() -> None:
    head = read(held(30))[1].head
    text = {"origin": head.origin, "size": str(head.size), "link": head.link}
    assert segments.parse_head(text) == head
    for wrong in ({"size": "-1"}, {"size": "x"}, {"link": "x" * 64}, {"origin": ""}, {"size": "9" * 5000}):
        with pytest.raises(LedgerDamaged, match="noted head"):
            segments.parse_head(text | wrong)


def test_only_names_of_segments_are() -> None:
    assert segments.number_of(segments.name_of(12)) == 12
    for other in ("kube-root-ca.crt", "segment-1", "segment-00000001x", "segment-00000001\n", "segment-٠٠٠٠٠٠٠١"):
        assert segments.number_of(other) is None


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 40)), max_size=30))
def test_writers_that_take_turns_and_are_overtaken_make_one_chain(steps: list[tuple[bool, int]]) -> None:
    """Each appends at what it knows; the store takes what is written over its newest state, and nothing else."""
    stored: list[tuple[dict[str, str], bool]] = []
    known = [segments.BEFORE_ALL, segments.BEFORE_ALL]
    number, acknowledged = 0, list[entries.Entry]()

    def refresh(writer: int) -> None:
        position = known[writer]
        while position.number < len(stored):
            before = position
            data, is_closed = stored[position.number]
            _, position = segments.followed(position, data, is_closed=is_closed)
            if position.number == before.number:
                break
        known[writer] = position

    for is_second, count in steps:
        writer = int(is_second)
        added = [world.entry(at) for at in range(number, number + count)]
        number += count
        while True:
            position = known[writer] if known[writer].origin else segments.begun(ORIGIN)
            is_newest = position.size == sum(data[ENTRIES].count("\n") for data, _ in stored)
            if is_newest:
                text = stored[position.number][0][ENTRIES] if position.within else ""
                data, is_full, after = segments.written(position, text, [entries.encode(each) for each in added])
                stored[position.number :] = [(data, is_full)]
                known[writer] = after
                break
            refresh(writer)
        acknowledged += added
    found, position = read(stored)
    assert found == acknowledged
    assert position.size == len(acknowledged)
    assert all(len(data[ENTRIES]) < segments.TARGET_BYTES for data, is_closed in stored if not is_closed)
