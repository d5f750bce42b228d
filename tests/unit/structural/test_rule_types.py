"""What rules see of a schema."""

from __future__ import annotations

from typing import Any

import pytest

from kubevouch.cel.compiler import compile_expression
from kubevouch.cel.environment import ExpressionError
from kubevouch.structural.rule_types import MAX_REQUEST, Declared, declared_type, escape
from kubevouch.structural.schema import compile_schema

TEXT = {"type": "string"}


def declared(tree: dict[str, Any], *, whole: bool = False) -> Declared:
    found = declared_type(compile_schema(tree), whole=whole)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("name", "name"),
        ("namespace", "__namespace__"),
        ("in", "__in__"),
        ("a-b/c.d", "a__dash__b__slash__c__dot__d"),
        ("a__b", "a__underscores__b"),
        ("int", "int"),
        ("1a", None),
        ("a b", None),
        ("", None),
        ("é", None),
    ],
)
def test_names(name: str, escaped: str | None) -> None:
    assert escape(name) == escaped


@pytest.mark.parametrize(
    ("tree", "kind", "elements", "least"),
    [
        ({"type": "integer"}, "int", 0, 1),
        ({"type": "number"}, "double", 0, 1),
        ({"type": "boolean"}, "bool", 0, 4),
        (TEXT, "string", MAX_REQUEST - 2, 2),
        (TEXT | {"maxLength": 10}, "string", 40, 2),
        (TEXT | {"maxLength": -1}, "string", 0, 2),
        (TEXT | {"enum": ["a", "four"]}, "string", 4, 2),
        (TEXT | {"format": "byte"}, "bytes", MAX_REQUEST - 2, 2),
        (TEXT | {"format": "byte", "maxLength": 10}, "bytes", 10, 2),
        (TEXT | {"format": "date"}, "timestamp", 12, 12),
        (TEXT | {"format": "date-time"}, "timestamp", 32, 21),
        (TEXT | {"format": "duration"}, "duration", 32, 3),
        (TEXT | {"format": "uuid"}, "string", MAX_REQUEST - 2, 2),
        ({"x-kubernetes-int-or-string": True}, "dyn", MAX_REQUEST - 2, 1),
        ({"x-kubernetes-int-or-string": True, "maxLength": 2}, "dyn", 8, 1),
        ({"type": "array", "items": TEXT}, "list", (MAX_REQUEST - 2) // 3, 2),
        ({"type": "array", "items": TEXT, "maxItems": 3}, "list", 3, 2),
        ({"type": "object", "additionalProperties": TEXT}, "map", (MAX_REQUEST - 2) // 8, 2),
        ({"type": "object", "additionalProperties": TEXT, "maxProperties": 3}, "map", 3, 2),
        ({"type": "object"}, "struct", 0, 2),
        ({"type": "object", "properties": {"ab": TEXT, "c": TEXT}, "required": ["ab"]}, "struct", 0, 2 + 2 + 2 + 4),
        ({"type": "object", "properties": {"a": TEXT | {"default": ""}}, "required": ["a"]}, "struct", 0, 2),
    ],
)
def test_types_and_sizes(tree: dict[str, Any], kind: str, elements: int, least: int) -> None:
    found = declared(tree)
    assert (found.type.kind, found.elements, found.least) == (kind, elements, least)


@pytest.mark.parametrize(
    "tree",
    [
        {"x-kubernetes-preserve-unknown-fields": True},
        {"type": "array"},
        {"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": True}},
        {"type": "object", "additionalProperties": {"x-kubernetes-preserve-unknown-fields": True}},
    ],
)
def test_what_has_no_type(tree: dict[str, Any]) -> None:
    assert declared_type(compile_schema(tree)) is None


def compiles(tree: dict[str, Any], rule: str, *, whole: bool = False) -> bool:
    found = declared(tree, whole=whole)
    try:
        compile_expression(rule, {"self": found.type})
    except ExpressionError:
        return False
    return True


@pytest.mark.parametrize(
    ("rule", "is_known"),
    [
        ("self.namespace == ''", True),
        ("self.__namespace__ == ''", True),
        ("self.a__dash__b == ''", True),
        ("has(self.a__dash__b)", True),
        ("self.kept.inside == ''", True),
        ("self.kept.other == ''", False),
        ("self.anything == ''", False),
        ("self.free.other == ''", False),
    ],
)
def test_members(rule: str, is_known: bool) -> None:
    kept = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"inside": TEXT}}
    properties = {
        "namespace": TEXT, "a-b": TEXT, "kept": kept, "anything": {"x-kubernetes-preserve-unknown-fields": True},
        "free": {"type": "object", "additionalProperties": True}, "1x": TEXT,
    }  # fmt: skip
    assert compiles({"type": "object", "properties": properties}, rule) is is_known


@pytest.mark.parametrize(
    ("rule", "is_known"),
    [
        ("self.kind + self.apiVersion + self.metadata.name + self.metadata.generateName == ''", True),
        ("self.metadata.labels.size() > 0", False),
        ("self.inner.metadata.name == ''", True),
        ("self.plain.kind == ''", False),
        ("self.list.all(x, x.kind == '')", True),
        ("self.map.all(k, self.map[k].kind == '')", True),
    ],
)
def test_whole_objects_have_a_name(rule: str, is_known: bool) -> None:
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True}
    properties = {
        "metadata": {"type": "object", "properties": {"name": TEXT | {"maxLength": 3}}},
        "inner": embedded,
        "plain": {"type": "object"},
        "list": {"type": "array", "items": embedded},
        "map": {"type": "object", "additionalProperties": embedded},
    }
    assert compiles({"type": "object", "properties": properties}, rule, whole=True) is is_known


def test_a_whole_object_may_declare_its_name_itself() -> None:
    metadata = {"type": "object", "properties": {"name": TEXT | {"maxLength": 3}, "generateName": TEXT}}
    properties = {"kind": TEXT, "apiVersion": TEXT, "metadata": metadata}
    found = declared({"type": "object", "properties": properties}, whole=True)
    assert found.fields is not None
    inner = found.fields["metadata"][1].fields
    assert inner is not None
    assert inner["name"][1].elements == 12


def test_names_of_structs_print_as_in_kubernetes() -> None:
    tree = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object"}}}}
    found = declared(tree)
    with pytest.raises(ExpressionError) as caught:
        compile_expression("self.a[0] + 1 > self", {"self": found.type})
    text = found.readable(str(caught.value))
    assert "applied to '(selfType1.a.@idx, int)'" in text
    assert "\0" not in text


KEYED = {
    "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
    "items": {"type": "object", "properties": {"k": TEXT, "v": {"type": "integer"}, "s": None}},
}  # fmt: skip
SET = {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}}
KEYED["items"]["properties"]["s"] = SET  # type: ignore[index]
PLAIN = {"type": "array", "items": {"type": "integer"}}


@pytest.mark.parametrize(
    ("tree", "left", "right", "is_equal"),
    [
        (SET, [1, 2], [2, 1], True),
        (SET, [1, 2], [1, 3], False),
        (SET, [1, 2], [1], False),
        (PLAIN, [1, 2], [2, 1], False),
        (KEYED, [{"k": "a", "v": 1}, {"k": "b"}], [{"k": "b"}, {"k": "a", "v": 1}], True),
        (KEYED, [{"k": "a", "s": [1, 2]}], [{"k": "a", "s": [2, 1]}], True),
        (KEYED, [{"k": "a"}], [{"k": "b"}], False),
        (KEYED, [{"k": "a", "v": 1}], [{"k": "a", "v": 2}], False),
        ({"type": "object", "properties": {"s": SET, "t": TEXT}}, {"s": [1, 2], "t": ""}, {"s": [2, 1], "t": ""}, True),
        ({"type": "object", "properties": {"s": SET, "t": TEXT}}, {"s": [1], "t": ""}, {"s": [1], "t": "x"}, False),
        ({"type": "object", "additionalProperties": SET}, {"a": [1, 2]}, {"a": [2, 1]}, True),
        ({"type": "object", "additionalProperties": SET}, {"a": [1, 2]}, {"b": [2, 1]}, False),
        ({"type": "array", "items": SET}, [[1, 2]], [[2, 1]], True),
        ({"type": "array", "items": SET}, [[1, 2]], [[2, 1], []], False),
    ],
)
def test_sets_and_maps_have_no_order(tree: dict[str, Any], left: Any, right: Any, is_equal: bool) -> None:
    kind = declared(tree).type
    program = compile_expression("self == oldSelf", {"self": kind, "oldSelf": kind}).program
    assert program.evaluate({"self": left, "oldSelf": right}) is is_equal
    other = compile_expression("self != oldSelf", {"self": kind, "oldSelf": kind}).program
    assert other.evaluate({"self": left, "oldSelf": right}) is not is_equal
    assert program.evaluate({"self": left, "oldSelf": None}) is False


@pytest.mark.parametrize(
    ("tree", "left", "right", "joined"),
    [
        (SET, [1, 2], [2, 3], [1, 2, 3]),
        (PLAIN, [1, 2], [2, 3], [1, 2, 2, 3]),
        (
            KEYED,
            [{"k": "a", "v": 1}, {"k": "b"}],
            [{"k": "c"}, {"k": "a", "v": 2}],
            [{"k": "a", "v": 2}, {"k": "b"}, {"k": "c"}],
        ),
    ],
)
def test_sets_and_maps_join_by_key(tree: dict[str, Any], left: Any, right: Any, joined: Any) -> None:
    kind = declared(tree).type
    program = compile_expression("self + oldSelf", {"self": kind, "oldSelf": kind}).program
    assert program.evaluate({"self": left, "oldSelf": right}) == joined
