"""records/config_map_overflow.py: where an entry goes, what stays where it is, and what has no room."""

from __future__ import annotations

from kubevouch.records.config_map_overflow import MAX_BYTES, Layout, cost, place, size

LAYOUT = Layout("p-", ("a", "b"), overflows=2)
HALF = "x" * (MAX_BYTES // 2)
FIRST, OVERFLOW, LAST = LAYOUT.path("a")


def test_every_name_and_every_path() -> None:
    assert LAYOUT.names == ("p-a", "p-b", "p-overflow-00", "p-overflow-01")
    assert LAYOUT.path("b") == ("p-b", "p-overflow-00", "p-overflow-01")
    assert LAYOUT.capacity == 4 * MAX_BYTES


def test_what_does_not_fit_goes_on() -> None:
    stored = {FIRST: {"k": HALF}, OVERFLOW: {}, LAST: {}}
    assert place(stored, {"l": HALF}) == ({OVERFLOW: {"l": HALF}}, [])
    assert place(stored, {"l": "small"}) == ({FIRST: {"k": HALF, "l": "small"}}, [])


def test_what_fits_nowhere_is_told_and_what_was_there_stays() -> None:
    stored = {name: {f"k-{name}": HALF} for name in LAYOUT.path("a")}
    assert place(stored, {"l": HALF, "m": "small"}) == ({FIRST: {f"k-{FIRST}": HALF, "m": "small"}}, ["l"])
    longer = HALF + HALF
    assert place(stored, {f"k-{FIRST}": longer}) == ({}, [f"k-{FIRST}"])


def test_what_goes_makes_room_for_what_comes() -> None:
    stored = {FIRST: {"z": HALF}, OVERFLOW: {}, LAST: {}}
    assert place(stored, {"a": HALF, "z": ""}) == ({FIRST: {"a": HALF}}, [])


def test_an_entry_stays_where_it_is() -> None:
    stored = {FIRST: {}, OVERFLOW: {"k": "1"}, LAST: {}}
    assert place(stored, {"k": "2"}) == ({OVERFLOW: {"k": "2"}}, [])
    assert place(stored, {"k": "1"}) == ({}, [])


def test_one_that_is_there_twice_is_there_once_and_is_written_before_it_is_removed() -> None:
    stored = {FIRST: {"k": "1", "full": HALF}, OVERFLOW: {"k": "1"}, LAST: {}}
    longer = HALF + "x"
    changed, left_over = place(stored, {"k": longer})
    assert (changed, left_over) == ({FIRST: {"full": HALF}, OVERFLOW: {"k": longer}}, [])
    assert list(changed) == [OVERFLOW, FIRST]


def test_neither_bytes_nor_number_passes_what_a_config_map_takes() -> None:
    # 1 MiB of values, and 20,000 elements.
    wanted = {f"{number:x}": "y" * 47 for number in range(30_000)}
    changed, left_over = place({name: {} for name in LAYOUT.path("a")}, wanted)
    assert not left_over and list(changed) == [FIRST, OVERFLOW, LAST]
    assert all(size(data) <= MAX_BYTES and len(data) < 20_000 for data in changed.values())
    assert cost("\u00e4", "\u00e4") == 2 + 2 + 16
