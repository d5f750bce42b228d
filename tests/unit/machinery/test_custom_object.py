"""Objects of kinds that came at run time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubevouch.machinery.codec import gojson
from kubevouch.machinery.codec.json_codec import UnmarshalError
from kubevouch.machinery.custom_object import CustomCodec, CustomObject
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.writing import field_set, typed_tree

CODEC = CustomCodec()
WIDGET = {
    "spec": {"size": 2, "a": [1, {"x": None}]},
    "kind": "Widget",
    "metadata": {"name": "w", "labels": {"b": "2", "a": "1"}, "annotations": {}},
    "apiVersion": "demo.example.com/v1",
}


def _read(tree: Any) -> CustomObject:
    obj = CODEC.from_tree(tree).value
    assert isinstance(obj, CustomObject)
    return obj


def test_it_is_written_with_sorted_keys_everywhere() -> None:
    assert CODEC.to_json(_read(WIDGET)) == (
        b'{"apiVersion":"demo.example.com/v1","kind":"Widget","metadata":{"labels":{"a":"1","b":"2"},"name":"w"},'
        b'"spec":{"a":[1,{"x":null}],"size":2}}'
    )


def test_it_comes_back_from_the_store_with_a_generation_and_without_what_metadata_no_longer_takes() -> None:
    value = b'{"apiVersion":"g/v1","kind":"K","metadata":{"name":"w","labels":7,"generation":0},"spec":1}'
    obj = CODEC.from_value(value, "g/v2", "K")
    assert obj == CustomObject(
        kind="K", api_version="g/v1", metadata=ObjectMeta(name="w", generation=1), content={"spec": 1}
    )


@pytest.mark.parametrize(
    ("text", "made"),
    [("2.0", 2), ("1e3", 1000), ("0.5", 0.5), ("9223372036854775807", (1 << 63) - 1), ("9223372036854775808", 2.0**63)],
)
def test_numbers_are_what_go_makes_of_them(text: str, made: float) -> None:
    found = _read(gojson.loads(b'{"spec":' + text.encode() + b"}")).content["spec"]
    assert (found, type(found)) == (made, type(made))


def test_what_strict_reading_finds_is_told_in_kubernetes_order() -> None:
    class Extra:
        def clean(self, tree: dict[str, Any], *, stored: bool = False) -> list[str]:
            del tree["extra"]
            return ["extra"]

    class ExtraCodec(CustomCodec):
        def cleaner(self, _api_version: str) -> Extra:
            return Extra()

    decoded = ExtraCodec().from_tree(gojson.loads(b'{"extra":1,"metadata":{"odd":1},"spec":{"a":1,"a":2}}'))
    assert decoded.strict_errors == [
        'duplicate field "spec.a"', 'unknown field "metadata.odd"', 'unknown field "extra"',
    ]  # fmt: skip
    assert decoded.value.content == {"spec": {"a": 2}}


def test_metadata_of_a_wrong_type_is_refused_in_go_words() -> None:
    with pytest.raises(UnmarshalError, match=r"into Go struct field ObjectMeta\.labels of type string"):
        CODEC.from_tree({"metadata": {"labels": {"a": 1}}})


def test_its_tree_is_for_keeps() -> None:
    obj = _read(WIDGET)
    CODEC.to_tree(obj)["spec"]["a"].append(2)
    assert obj.content["spec"]["a"] == [1, {"x": None}]


def test_what_nobody_declared_is_owned_map_by_map_and_list_as_a_whole() -> None:
    changed, removed = CODEC.compare(CustomObject(), _read(WIDGET))
    assert json.loads(field_set.to_fields_v1(changed)) == {
        "f:metadata": {"f:labels": {".": {}, "f:a": {}, "f:b": {}}},
        "f:spec": {".": {}, "f:a": {}, "f:size": {}},
    }
    assert removed == {}
    merged = typed_tree.merge({"spec": {"a": 1, "l": [1]}}, {"spec": {"b": 2, "l": [2]}}, CODEC.merge_type)
    assert merged == {"spec": {"a": 1, "b": 2, "l": [2]}}
