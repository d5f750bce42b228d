"""cel/library/collections.py"""

from __future__ import annotations

import pytest

from cel_cases import error_of, value_of


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("[1, 2, 2].isSorted()", True),
        ("['b', 'a'].isSorted()", False),
        ("[].isSorted()", True),
        ("[1, 3].sum()", 4),
        ("[1.0, 3.0].sum()", 4.0),
        ("[].sum()", 0),
        ("[duration('1m'), duration('1s')].sum() == duration('61s')", True),
        ("[1u, 2u].sum() == 3u", True),
        ("[3, 1].min()", 1),
        ("['a', 'b'].max()", "b"),
        ("[timestamp('2026-01-01T00:00:00Z'), timestamp('2025-01-01T00:00:00Z')].min().getFullYear()", 2025),
        ("[1, 2, 2, 3].indexOf(2)", 1),
        ("[1, 2, 2, 3].lastIndexOf(2)", 2),
        ("['a', 'b'].indexOf('z')", -1),
        ("[[1], [2]].indexOf([2])", 1),
        ("o.indexOf(2.0)", 1),
        ("o.max()", 3),
        ("sets.contains([1, 2], [2]) && sets.contains([1], [])", True),
        ("sets.contains([], [1])", False),
        ("sets.equivalent([dyn(1), dyn(2u), dyn(3.0)], [dyn(3u), dyn(2), dyn(1), dyn(1)])", True),
        ("sets.intersects([1, 2], [2, 3])", True),
        ("sets.intersects([], [])", False),
    ],
)
def test_values(source: str, value: object) -> None:
    assert value_of(source.replace("2u, 3.0", "dyn(2u), dyn(3.0)").replace("[3u,", "[dyn(3u),"), [1, 2, 3]) == value


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("o.min()", "min called on empty list"),
        ("o.max()", "max called on empty list"),
        ("[dyn(1), dyn('a')].isSorted()", "no such overload"),
        ("[dyn('a')].sum()", "no such overload"),
        ("[9223372036854775807, 1].sum()", "integer overflow"),
    ],
)
def test_errors(source: str, text: str) -> None:
    assert error_of(source, []) == text
