"""How objects of a schema merge."""

from __future__ import annotations

from typing import Any

from kubevouch.machinery.writing import typed_tree
from kubevouch.structural.merging import merge_type
from kubevouch.structural.schema import compile_schema


def _spec(schema: Any) -> typed_tree.MapType:
    return merge_type(compile_schema({"type": "object", "properties": {"spec": schema}}))


def _merged(schema: Any, live: Any, applied: Any) -> Any:
    return typed_tree.merge({"spec": live}, {"spec": applied}, _spec(schema))["spec"]


ITEMS = {"type": "object", "properties": {"k": {"type": "string", "default": "x"}, "v": {"type": "integer"}}}
KEYED = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": ITEMS}


def test_lists_merge_as_the_schema_says() -> None:
    plain = {"type": "array", "items": {"type": "string"}}
    assert _merged(plain, ["a"], ["b"]) == ["b"]
    assert _merged(plain | {"x-kubernetes-list-type": "set"}, ["a"], ["b"]) == ["a", "b"]
    assert _merged(KEYED, [{"k": "a", "v": 1}], [{"k": "b"}]) == [{"k": "a", "v": 1}, {"k": "b"}]


def test_a_key_that_is_left_out_is_its_default() -> None:
    assert _merged(KEYED, [{"k": "x", "v": 1}], [{"v": 2}]) == [{"k": "x", "v": 2}]
    without = KEYED | {"items": {"type": "object", "properties": {"k": {"type": "string"}}}}
    assert typed_tree.validate({"spec": [{"v": 1}]}, _spec(without)) == [
        (
            ".spec",
            (
                'element 0: associative list with keys has an element that omits all key fields ["k"] (and doesn\'t '
                "have default values for any key fields)"
            ),
        )
    ]


def test_maps_merge_as_the_schema_says() -> None:
    fields = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
    assert _merged(fields, {"a": 1}, {"b": 2}) == {"a": 1, "b": 2}
    assert _merged(fields | {"x-kubernetes-map-type": "atomic"}, {"a": 1}, {"b": 2}) == {"b": 2}
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    assert _merged(free, {"a": {"x": 1}}, {"a": {"y": 2}}) == {"a": {"x": 1, "y": 2}}
    assert typed_tree.validate({"spec": {"c": 1}}, _spec(fields)) == [(".spec.c", "field not declared in schema")]
    assert typed_tree.validate({"spec": {"c": 1}}, _spec(free)) == []


def test_scalars_have_the_types_of_the_schema() -> None:
    assert typed_tree.validate({"spec": "x"}, _spec({"type": "integer"})) == [
        (".spec", "expected numeric (int or float), got string")
    ]
    either = {"x-kubernetes-int-or-string": True}
    assert [typed_tree.validate({"spec": value}, _spec(either)) for value in (1, "1")] == [[], []]
