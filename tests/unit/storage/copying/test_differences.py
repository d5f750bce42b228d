"""storage/copying/differences.py: what is as good as equal."""

from __future__ import annotations

import pytest

from kubevouch.storage.copying.differences import Difference, is_equal
from kubevouch.storage.interface import Revision
from kubevouch.storage.snapshot import Record

SECOND = 1_000_000
NOW = 10_000 * SECOND


def record(value: bytes = b"v", left: int | None = None) -> Record:
    return Record("k", value, Revision(1), None if left is None else NOW + left * SECOND)


@pytest.mark.parametrize(
    ("wanted", "found", "equal"),
    [
        (record(), record(), True),
        (record(), record(b"w"), False),
        (record(), None, False),
        (None, record(), False),
        (record(left=600), record(), False),
        (record(), record(left=600), False),
        (record(left=600), record(left=660), True),  # leases are shared
        (record(left=600), record(left=1800), True),  # a new leader counts anew
        (record(left=600), record(left=590), True),
        (record(left=600), record(left=300), False),
        (record(left=600), record(left=6000), False),
        (record(left=600), None, False),
        (record(left=1), None, True),  # gone in a moment
        (None, record(left=60), True),  # goes by itself
        (None, record(left=600), False),
    ],
)
def test_values_and_lifetimes(wanted: Record | None, found: Record | None, equal: bool) -> None:
    assert is_equal(Difference("k", wanted, found), NOW) is equal
