from __future__ import annotations

from typing import Any

import pytest

from kubevouch.structural import defaulting
from kubevouch.structural.schema import compile_schema


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def text(default: Any = None, **more: Any) -> dict[str, Any]:
    return {"type": "string", **({} if default is None else {"default": default}), **more}


@pytest.mark.parametrize(
    ("schema", "given", "filled"),
    [
        (of(a=text("x")), {}, {"a": "x"}),
        (of(a=text("x")), {"a": "y"}, {"a": "y"}),
        (of(a=text("x")), {"a": None}, {"a": "x"}),
        (of(a=text("x", nullable=True)), {"a": None}, {"a": None}),
        (of(spec=of(a=text("x"))), {}, {}),
        (of(spec=of(a=text("x")) | {"default": {}}), {}, {"spec": {"a": "x"}}),
        (of(l={"type": "array", "items": of(a=text("x"))}), {"l": [{}, {"a": "y"}]}, {"l": [{"a": "x"}, {"a": "y"}]}),
        (of(l={"type": "array", "items": text("x")}), {"l": [None, "y"]}, {"l": ["x", "y"]}),
        (of(m={"type": "object", "additionalProperties": of(a=text("x"))}), {"m": {"k": {}}}, {"m": {"k": {"a": "x"}}}),
        (of(m={"type": "object", "additionalProperties": text("x")}), {"m": {"k": None}}, {"m": {"k": "x"}}),
    ],
)
def test_what_is_absent_is_filled_in(schema: dict[str, Any], given: dict[str, Any], filled: dict[str, Any]) -> None:
    defaulting.fill(given, compile_schema(schema))

    assert given == filled


def test_a_default_is_a_copy_of_its_own() -> None:
    schema = compile_schema(of(a={"type": "object", "default": {"b": []}}))
    first: dict[str, Any] = {}
    second: dict[str, Any] = {}
    defaulting.fill(first, schema)
    defaulting.fill(second, schema)
    first["a"]["b"].append(1)

    assert second == {"a": {"b": []}}


@pytest.mark.parametrize(
    ("schema", "given", "left"),
    [
        (of(a=text()), {"a": None}, {}),
        (of(a=text(nullable=True)), {"a": None}, {"a": None}),
        (of(a=text("x")), {"a": None}, {"a": None}),
        (of(l={"type": "array", "items": of(a=text())}), {"l": [None, {"a": None}]}, {"l": [None, {}]}),
        (of(m={"type": "object", "additionalProperties": of(a=text())}), {"m": {"k": None, "j": {"a": None}}},
         {"m": {"k": None, "j": {}}}),
    ],
)  # fmt: skip
def test_nulls_that_mean_nothing_go(schema: dict[str, Any], given: dict[str, Any], left: dict[str, Any]) -> None:
    defaulting.drop_nulls(given, compile_schema(schema))

    assert given == left


def test_long_defaults_of_many_items_come_to_an_end() -> None:
    long = {"type": "object", "default": {"x": "y" * (1 << 20)}}
    schema = compile_schema(of(l={"type": "array", "items": of(a=long)}))
    few: dict[str, Any] = {"l": [{}, {}]}
    many: dict[str, Any] = {"l": [{} for _ in range(2000)]}
    assert defaulting.fill(few, schema)
    assert not defaulting.fill(many, schema)
    assert [len(item) for item in many["l"][:4]] == [1, 1, 0, 0]
