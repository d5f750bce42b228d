from __future__ import annotations

from typing import Any

import pytest

from kubevouch.structural.lists import check_lists
from kubevouch.structural.schema import compile_schema

SET = {"type": "array", "x-kubernetes-list-type": "set", "items": {}}
MAP = {
    "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "d"],
    "items": {"type": "object", "properties": {"own": SET}},
}  # fmt: skip


def errors(schema: dict[str, Any], value: Any) -> list[str]:
    tree = {"type": "object", "properties": {"l": schema, "m": {"type": "object", "additionalProperties": schema}}}
    return [str(error) for error in check_lists(value, compile_schema(tree))]


@pytest.mark.parametrize(
    ("schema", "items", "expected"),
    [
        (SET, [], []),
        (SET, ["a", "b", "a", "a"], ['l[2]: Duplicate value: "a"']),
        (SET, [1, True, "1", None, 1.5], []),
        (SET, [None, None], ["l[1]: Duplicate value: null"]),
        (SET, [{"b": 1, "a": 2}, {"a": 2, "b": 1}], ['l[1]: Duplicate value: {"a":2,"b":1}']),
        (SET, [[1], [1], [2]], ["l[1]: Duplicate value: [1]"]),
        (MAP, [{"k": "a"}, {"k": "b"}, {"k": "a", "d": "x"}], []),
        (MAP, [{"k": "a", "d": "x"}, {"d": "x", "k": "a", "o": 1}], ['l[1]: Duplicate value: {"d":"x","k":"a"}']),
        (MAP, [{}, {"o": 1}], ["l[1]: Duplicate value: {}"]),
        (MAP, [None, {}], ["l[1]: Duplicate value: {}"]),
        (MAP, [{}, 3], ["l[1]: Invalid value: 3: must be an object for an array of list-type map"]),
        (MAP, [{"k": "a", "own": [1, 1]}], ["l[0].own[1]: Duplicate value: 1"]),
        ({"type": "array", "items": {}}, [1, 1], []),
    ],
)
def test_what_is_twice(schema: dict[str, Any], items: list[Any], expected: list[str]) -> None:
    assert errors(schema, {"l": items}) == expected


def test_a_key_of_a_map_stands_in_brackets() -> None:
    assert errors(SET, {"m": {"a.b": ["x", "x"]}}) == ['m[a.b][1]: Duplicate value: "x"']


def test_values_of_another_type_are_for_others_to_refuse() -> None:
    assert errors(SET, {"l": "x", "m": {"k": {"x": 1}}}) == []
