"""ledger/terms.py: every term of an entry leads to it, and only by chance another."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kubevouch.ledger import terms

NAMES = st.sets(st.sampled_from([f"name\0{letter}" for letter in "abcdefgh"]))


@given(st.lists(NAMES, max_size=40))
def test_a_segment_leads_to_all_that_have_a_term(rows: list[set[str]]) -> None:
    buckets = terms.buckets([terms.packed(row) for row in rows])
    for term in ("name\0a", "name\0h", "name\0z"):
        number = terms.number_of(term)
        expected = [offset for offset, row in enumerate(rows) if term in row]
        assert terms.offsets(buckets[terms.bucket_of(number)], number) == expected
        assert [terms.has(terms.packed(row), number) for row in rows] == [term in row for row in rows]


def test_what_only_looks_like_a_term_is_none() -> None:
    number = bytes(range(8))
    assert not terms.has(b"x" + number + b"y" * 7, number)
    assert terms.has(b"x" + number + b"y" * 7 + number, number)
    assert terms.offsets(b"x" + number + b"y" * 11, number) == []
    assert terms.offsets(b"x" + number + b"y" * 11 + number + b"\x01\x02", number) == [0x102]
    assert terms.offsets(b"", number) == [] and not terms.has(b"", number)
