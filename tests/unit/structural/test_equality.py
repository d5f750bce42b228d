from __future__ import annotations

from typing import Any

import pytest

from kubevouch.structural.equality import same


def nested(depth: int) -> Any:
    value: Any = 1
    for level in range(depth):
        value = {"a": value} if level % 2 else [value]
    return value


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        (None, None, True),
        (None, False, False),
        ("1", 1, False),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2.0}]}, True),
        ({"a": 1}, {"a": 1, "b": None}, False),
        ({"a": None}, {"b": None}, False),
        ([1, 2], [1], False),
        ([1, 2], [2, 1], False),
        ([], {}, False),
        ({}, [], False),
        ({"a": True}, {"a": 1}, False),
    ],
)
def test_json_values(left: Any, right: Any, expected: bool) -> None:
    assert same(left, right) is expected
    assert same(right, left) is expected


def test_values_may_nest_as_deep_as_a_default_in_a_deep_schema() -> None:
    assert same(nested(600), nested(600))
    assert not same(nested(600), nested(599))
